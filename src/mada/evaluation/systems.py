"""Systems under test with their agents seated. Everything that is compared is a debate of some shape (see `plan`).

A sample's seed depends on the round and on the seat, or the number of the draw, not on the system. So systems that seat
the same model draw the same samples: they differ by what they are, not by luck, and what they share needs to be sampled
only once (`SharingEngine`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from mada.debate.protocol import Agent, check_agents, run_debate
from mada.debate.transcript import Debate
from mada.debate.verdict import Rule
from mada.evaluation.plan import PlannedSystem


@dataclass(frozen=True, slots=True)
class System:
    """Something that answers a question, by a debate of some shape and a rule for its one answer."""

    name: str
    generators: tuple[Agent, ...]
    critics: tuple[Agent, ...] = ()
    rounds: int = 1
    rule: Rule = "vote"
    draws: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_agents(self.generators, self.critics, rounds=self.rounds)

    @classmethod
    def of(cls, planned: PlannedSystem, *, seat: Callable[[str], Agent]) -> Self:
        """Fill the seats of a planned system."""
        return cls(
            name=planned.name,
            generators=tuple(map(seat, planned.generators)),
            critics=tuple(map(seat, planned.critics)) if planned.rounds > 1 else (),
            rounds=planned.rounds,
            rule=planned.rule,
            draws=planned.draws,
        )

    @property
    def calls(self) -> int:
        """How often a model is asked per question."""
        return len(self.generators) + (self.rounds - 1) * len(self.critics)

    async def debate(self, question: str, *, seed: int) -> Debate:
        """Hold the debate about one question; the verdict is left to the rule."""
        return await run_debate(
            question,
            generators=self.generators,
            critics=self.critics,
            rounds=self.rounds,
            seed=seed,
            draws=self.draws,
        )
