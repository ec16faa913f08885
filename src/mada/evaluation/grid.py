"""The scores of an evaluation by system, benchmark, seed and problem, and the averages that all tables are made of.

Every benchmark has equal weight in every average, however many problems it has. What a family is shown as is the mean
over its members, question by question.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mada.errors import EvaluationError
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score, Transcript

Value = Callable[[Score], float]
"""What is averaged: something that one score tells by itself."""
Measure = Literal["verdict", "mean"]
MEASURES: Mapping[Measure, Value] = MappingProxyType(
    {"verdict": lambda score: score.verdict_correct, "mean": lambda score: score.accuracy}
)
"""What counts as accuracy on a question: whether the system's one answer is right, or the share of right answers in its
last round (the paper's, I2). Every system has both, and is compared with others by the same one."""
ScoreKey = tuple[str, str, int, str]
"""System, benchmark, seed and problem."""
Name = TypeVar("Name", bound=Hashable)


def score_key(item: Score | Transcript) -> ScoreKey:
    """Return the key of a score; its transcript, if there is one, has the same."""
    return item.system, item.benchmark, item.seed, item.problem


@dataclass(frozen=True, slots=True)
class Omitted:
    """What of an unfinished evaluation is not in its grid; false where nothing is."""

    seeds: tuple[int, ...] = ()
    systems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.seeds or self.systems)

    def __str__(self) -> str:
        kinds = {"seed": self.seeds, "system": self.systems}
        return " and ".join(
            f"{kind}{'s' if len(which) > 1 else ''} {', '.join(map(str, which))}"
            for kind, which in kinds.items()
            if which
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """Scores by system, benchmark, seed and problem, with none missing; made by `Grid.of`.

    Systems that answered different questions would have means that differ for that reason alone, so there is no grid
    of scores that are missing or repeated.
    """

    plan: EvaluationPlan
    scores: Mapping[ScoreKey, Score]
    problems: Mapping[str, tuple[str, ...]]
    """The problems of each benchmark in sorted order; benchmarks in the order of the table."""
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, scores: Iterable[Score], plan: EvaluationPlan) -> Self:
        """Return the grid of some scores; missing or repeated ones and unknown systems are errors."""
        by_key = _by_key(scores, plan)
        problems: dict[str, set[str]] = {}
        for _, benchmark, _, problem in by_key:
            problems.setdefault(benchmark, set()).add(problem)
        order = _benchmark_order(problems, plan)
        seeds = tuple(sorted({score.seed for score in by_key.values()}))
        sorted_problems = {benchmark: tuple(sorted(problems[benchmark])) for benchmark in order}
        _refuse_gaps(by_key, plan, sorted_problems, seeds)
        return cls(plan, by_key, sorted_problems, seeds)

    @classmethod
    def of_finished(cls, scores: Iterable[Score], plan: EvaluationPlan) -> "tuple[Self | None, Omitted]":
        """Return the grid of an unfinished evaluation, and what was left out.

        A seed counts once every system has answered every question with it: what is left out then has nothing to do
        with what was easy. If there is none, it is the seeds of the reference that count, and systems that have not
        finished them are left out instead. Without those there is no grid.
        """
        by_key = _by_key(scores, plan)
        known = {(benchmark, problem) for _, benchmark, _, problem in by_key}
        begun = {seed for _, _, seed, _ in by_key}
        # A benchmark that nobody has begun shows in the plan alone.
        if {benchmark for benchmark, _ in known} < set(plan.benchmarks):
            return None, Omitted(tuple(sorted(begun)))
        questions = sum(plan.problems.values()) if plan.problems else len(known)
        answered = Counter((system, seed) for system, _, seed, _ in by_key)
        complete = {
            one.name: {seed for seed in begun if answered[one.name, seed] == questions}
            for one in plan.evaluated_systems
        }
        seeds = set.intersection(*complete.values())
        if not seeds:
            seeds = set.intersection(*(complete[name] for name in plan.members_of(plan.reference_system)))
        if not seeds:
            return None, Omitted(tuple(sorted(begun)))
        kept = plan.restricted_to({name for name, own in complete.items() if own >= seeds})
        names = {system.name for system in kept.evaluated_systems}
        finished = cls.of((one for one in by_key.values() if one.seed in seeds and one.system in names), kept)
        others = tuple(system.name for system in plan.evaluated_systems if system.name not in names)
        return finished, Omitted(tuple(sorted(begun - seeds)), others)

    def members_of(self, system: PlannedSystem) -> tuple[PlannedSystem, ...]:
        """Return the systems that answered for this one: its members, or itself."""
        names = set(self.plan.members_of(system))
        return tuple(one for one in self.plan.evaluated_systems if one.name in names)

    def scores_of(self, system: PlannedSystem) -> Iterator[Score]:
        """Yield all scores of a system, of a family those of all its members."""
        for benchmark in self.problems:
            yield from self._scores_on(system, benchmark)

    def values(self, system: PlannedSystem, value: Value) -> dict[str, NDArray[np.float64]]:
        """Return a system's values as an array per benchmark, a row per problem and a column per seed.

        Arrays of two systems have the same rows and columns, so they can be compared question by question.
        """
        return {
            benchmark: np.array(
                [self._values_of_seed(system, benchmark, seed, value=value) for seed in self.seeds], dtype=np.float64
            ).T
            for benchmark in self.problems
        }

    def mean(self, system: PlannedSystem, benchmark: str, seed: int, *, value: Value) -> float:
        """Return the mean over a benchmark's problems with one seed."""
        return fmean(self._values_of_seed(system, benchmark, seed, value=value))

    def seed_averages(self, system: PlannedSystem, value: Value) -> list[float]:
        """Return for each seed the average over benchmarks of the mean over problems: the sample of every test."""
        return [
            fmean(self.mean(system, benchmark, seed, value=value) for benchmark in self.problems) for seed in self.seeds
        ]

    def average(self, system: PlannedSystem, value: Value) -> float:
        """Return the mean over seeds of the seeds' averages."""
        return fmean(self.seed_averages(system, value))

    def averages(self, system: PlannedSystem, values: Callable[[Score], Mapping[Name, float]]) -> dict[Name, float]:
        """Return many averages at once, by name, each as `average` would; a value that a score does not name is 0.

        No score is missing, so the steps of `average` come to one weight per benchmark, and scores are read only once.
        """
        averages: dict[Name, float] = defaultdict(float)
        for benchmark in self.problems:
            sums: dict[Name, float] = defaultdict(float)
            count = 0
            for score in self._scores_on(system, benchmark):
                count += 1
                for name, value in values(score).items():
                    sums[name] += value
            for name, total in sums.items():
                averages[name] += total / count / len(self.problems)
        return dict(averages)

    def _values_of_seed(self, system: PlannedSystem, benchmark: str, seed: int, *, value: Value) -> list[float]:
        """Return the values of a benchmark's problems with one seed; of a family, the means over its members."""
        rows = [self._row(name, benchmark, seed) for name in self.plan.members_of(system)]
        if len(rows) == 1:
            return [value(score) for score in rows[0]]
        return [fmean(map(value, scores)) for scores in zip(*rows, strict=True)]

    def _row(self, name: str, benchmark: str, seed: int) -> list[Score]:
        return [self.scores[name, benchmark, seed, problem] for problem in self.problems[benchmark]]

    def _scores_on(self, system: PlannedSystem, benchmark: str) -> Iterator[Score]:
        for name in self.plan.members_of(system):
            for seed in self.seeds:
                yield from self._row(name, benchmark, seed)


def _refuse_gaps(
    by_key: Mapping[ScoreKey, Score], plan: EvaluationPlan, problems: Mapping[str, Sequence[str]], seeds: Sequence[int]
) -> None:
    for system in plan.evaluated_systems:
        wanted = [
            (system.name, benchmark, seed, problem)
            for benchmark, names in problems.items()
            for seed in seeds
            for problem in names
        ]
        missing = [key for key in wanted if key not in by_key]
        if missing:
            raise EvaluationError(
                f"{len(missing):,} of the {len(wanted):,} scores of {system.name!r} are missing, the first of them "
                f"{_described(missing[0])}; every system needs every seed and problem: finish the evaluation"
            )


def _by_key(scores: Iterable[Score], plan: EvaluationPlan) -> dict[ScoreKey, Score]:
    by_key: dict[ScoreKey, Score] = {}
    known = {system.name for system in plan.evaluated_systems}
    for score in scores:
        key = score_key(score)
        if score.system not in known:
            raise EvaluationError(
                f"there is a score of the system {score.system!r}, which is none of {', '.join(sorted(known))}; "
                "use the plan that the scores were made with"
            )
        if key in by_key:
            raise EvaluationError(f"{_described(key)} is scored twice; remove one of the two, or evaluate again")
        by_key[key] = score
    if not by_key:
        raise EvaluationError("there are no scores to sum up; run the evaluation first")
    return by_key


def _benchmark_order(found: Mapping[str, object], plan: EvaluationPlan) -> list[str]:
    if not plan.benchmarks:
        return sorted(found)
    if set(found) != set(plan.benchmarks):
        raise EvaluationError(
            f"there are scores of the benchmarks {', '.join(sorted(found))}, and the plan has "
            f"{', '.join(plan.benchmarks)}; finish the evaluation, or use the plan that the scores were made with"
        )
    return list(plan.benchmarks)


def _described(key: ScoreKey) -> str:
    system, benchmark, seed, problem = key
    return f"{system!r} on {benchmark} with seed {seed}, problem {problem!r}"
