"""What an evaluation compares: its systems as plain descriptions, kept in `evaluation.json` beside the scores.

| system | generators | critics | rounds | rule |
|---|---|---|---|---|
| agents alone | N | – | 1 | vote |
| self-consistency, a vote of k | k | – | 1 | vote |
| a weighted vote of k | k | – | 1 | weigh |
| a judge among k answers | k | 1, with the judge's prompt | 2 | pick |
| best of n by critics | n | M | 2 | pick |
| a debate; with trained agents, MADA | N | M | 2 or more | vote |

Every system has one answer, its *verdict*, and the answers of its last round one by one, whose share of right ones is
its *mean* (the paper's measure, I2).

A *matched* system has as many generators as what another system spends allows (see `matching`). A *family* is shown as
the average of its members, as the paper does with teams of fewer agents.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mada.debate.verdict import Rule
from mada.digest import digest_of
from mada.errors import EvaluationError
from mada.problems import Problem
from mada.runs.jsonl import first_error

PLAN_FILE = "evaluation.json"

Match = Literal["tokens", "cost"]
"""What a matched system may spend: generated tokens, or those and prompt tokens at their price."""


class PlannedSystem(BaseModel):
    """The description of a system. `name` is for records, `title` for people.

    `generators` and `critics` name agents; a name may occur several times. `draws` numbers the generators' samples:
    systems that give an agent the same number share its sample; by default it is the index. `parameters` are those that
    training this system's agents changed, where that is known.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1)
    title: str = Field(min_length=1)
    generators: tuple[str, ...] = ()
    draws: tuple[int, ...] | None = None
    critics: tuple[str, ...] = ()
    rounds: int = Field(default=1, ge=1)
    rule: Rule = "vote"
    matched_to: str | None = None
    """The system whose budget this one has; its generators then take turns until that is spent."""
    match: Match = "tokens"
    """Which budget of the other system is matched."""
    members: tuple[str, ...] = ()
    """The systems that a family is the average of."""
    shown: bool = True
    """Whether tables have a row for it; members of a family have none."""
    parameters: int | None = Field(default=None, ge=0)

    @property
    def is_debate(self) -> bool:
        """Whether anybody answers after having seen others' answers, and the vote of the last round decides."""
        return self.rounds > 1 and self.rule == "vote"

    @property
    def agents(self) -> frozenset[str]:
        """All agents that answer."""
        return frozenset((*self.generators, *(self.critics if self.rounds > 1 else ())))

    def with_generators(self, count: int, *, start: int = 0) -> Self:
        """Return the system with so many generators, who take turns; generator `start` begins.

        Each sample has its own number. Whoever begins, a generator's first sample has the number of its index, so it is
        the one that other systems with this generator at this index use.
        """
        size = len(self.generators)
        indices = [(start + turn) % size for turn in range(count)]
        draws = tuple(index + size * (turn // size) for turn, index in enumerate(indices))
        generators = tuple(self.generators[index] for index in indices)
        return self.model_copy(update={"generators": generators, "draws": draws})

    @model_validator(mode="after")
    def _has_agents(self) -> Self:
        if self.members:
            if self.generators or self.critics or self.matched_to:
                raise ValueError(f"{self.name!r} is a family of others, so it has no agents of its own")
        elif not self.generators:
            raise ValueError(f"{self.name!r} has no generators; somebody has to answer")
        if self.rounds > 1 and not self.critics and not self.members:
            raise ValueError(f"{self.name!r} has {self.rounds} rounds and no critics, who speak from round 2 on")
        return self


class EvaluationPlan(BaseModel):
    """The systems in the order of the table, and the one that all others are compared with.

    `benchmarks` gives the order of the benchmarks; without it they stand in alphabetical order. `problems` says how
    many problems each has, once they are loaded: by it a seed that is finished can be told from one that is not.
    `digests` tells each problem's question and answer, by benchmark and id, from those of a changed file.
    `prompt_price` is what reading a prompt token costs, where generating one costs 1; systems matched by cost need it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    systems: tuple[PlannedSystem, ...] = Field(min_length=1)
    reference: str
    benchmarks: tuple[str, ...] = ()
    problems: dict[str, int] = Field(default_factory=dict[str, int])
    digests: dict[str, dict[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    prompt_price: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _names_are_known_and_different(self) -> Self:
        names = Counter(system.name for system in self.systems)
        repeated = [name for name, count in names.items() if count > 1]
        if repeated:
            raise ValueError(f"the name {repeated[0]!r} is given to several systems")
        if self.reference not in names:
            raise ValueError(f"the reference {self.reference!r} is none of the systems {', '.join(names)}")
        by_name = {system.name: system for system in self.systems}
        for system in self.systems:
            for other in (*system.members, *filter(None, [system.matched_to])):
                if other not in by_name:
                    raise ValueError(f"{system.name!r} needs the system {other!r}, which is not in this evaluation")
                if by_name[other].members or by_name[other].matched_to:
                    raise ValueError(f"{system.name!r} needs {other!r} to have agents of its own, and a fixed number")
        fixed = {agent for system in self.systems if not system.matched_to for agent in system.generators}
        for system in self.systems:
            if system.matched_to and not fixed.issuperset(system.generators):
                strangers = ", ".join(sorted(set(system.generators) - fixed))
                raise ValueError(
                    f"how many samples {system.name!r} may have depends on how long they are: add a system of fixed "
                    f"size with {strangers} among its generators, such as a single agent"
                )
        if not by_name[self.reference].shown:
            raise ValueError(f"the reference {self.reference!r} is not shown")
        return self

    @classmethod
    def of(
        cls,
        systems: Sequence[PlannedSystem],
        *,
        reference: str,
        benchmarks: Sequence[str] = (),
        prompt_price: float | None = None,
    ) -> Self:
        """Return the plan for these systems; an `EvaluationError` says why they make none."""
        try:
            return cls(
                systems=tuple(systems), reference=reference, benchmarks=tuple(benchmarks), prompt_price=prompt_price
            )
        except ValidationError as error:
            raise EvaluationError(
                f"these systems make no evaluation: {first_error(error).removeprefix('Value error, ')}"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise EvaluationError(
                f"not the plan of an evaluation: {first_error(error).removeprefix('Value error, ')}; "
                f"run the evaluation again to write {PLAN_FILE} anew"
            ) from error

    def with_problems(self, problems: Mapping[str, Sequence[Problem]]) -> Self:
        """Return the plan with number and digests of the problems that its benchmarks were found to have."""
        counts = {name: len(found) for name, found in problems.items()}
        digests = {name: {problem.id: _digest(problem) for problem in found} for name, found in problems.items()}
        return self.model_copy(update={"problems": counts, "digests": digests})

    def with_prompt_price(self, price: float | None) -> Self:
        """Return the plan with another price of a prompt token."""
        return self.model_copy(update={"prompt_price": price})

    def changed_problems(self, earlier: Self) -> list[str]:
        """Name the problems, as `benchmark/id`, whose question or answer is another than in an earlier plan."""
        return [
            f"{benchmark}/{name}"
            for benchmark, known in earlier.digests.items()
            for name in dict.fromkeys((*known, *self.digests.get(benchmark, {})))
            if known.get(name) != self.digests.get(benchmark, {}).get(name)
        ]

    def restricted_to(self, names: Collection[str]) -> Self:
        """Return the plan with these systems alone, the reference among them, and the complete families."""
        kept = [one for one in self.systems if set(one.members or [one.name]).issubset(names)]
        return self.model_copy(update={"systems": tuple(kept)})

    def to_json(self) -> str:
        """Return the plan as a file's text."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def reference_system(self) -> PlannedSystem:
        """The system that all others are compared with."""
        [reference] = [system for system in self.systems if system.name == self.reference]
        return reference

    @property
    def evaluated_systems(self) -> tuple[PlannedSystem, ...]:
        """The systems that answer questions; a family is the average of some of them."""
        return tuple(system for system in self.systems if not system.members)

    @property
    def shown_systems(self) -> tuple[PlannedSystem, ...]:
        """The systems that tables have a row for, in the order of the table."""
        return tuple(system for system in self.systems if system.shown)

    def reading_order(self, system: PlannedSystem) -> tuple[bool, bool]:
        """Return a key that sorts systems for readers of debates: the trained team's first, then the reference."""
        return not (system.is_debate and system.parameters), system.name != self.reference

    def members_of(self, system: PlannedSystem) -> Iterator[str]:
        """Yield the names under which a system's scores are recorded: its members', or its own."""
        yield from system.members or (system.name,)


def _digest(problem: Problem) -> str:
    return digest_of({"question": problem.question, "answer": problem.answer})[:16]
