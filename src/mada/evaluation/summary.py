"""From single scores to what a table shows: per system means over seeds, rates, costs, and a comparison (E1–E3).

Every benchmark has equal weight in every average, however many problems it has. Seeds are the sample: a seed's average
over benchmarks is one value, and standard errors and tests are over those values.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from mada.errors import EvaluationError
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.statistics import Comparison, Estimate, estimate, welch


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """How good a system is and what it costs, as shares from 0 to 1.

    `accuracy` and `benchmarks` are what the system is measured by, `vote` is its vote whatever it is measured by;
    `seed_averages` are the values that `accuracy` is the mean of. `improves` and `damages` are shares of all questions,
    None without a second round. `tokens` are generated tokens per question. `against_reference` is None for the
    reference itself.
    """

    system: PlannedSystem
    accuracy: Estimate
    vote: Estimate
    benchmarks: Mapping[str, Estimate]
    seed_averages: tuple[float, ...]
    improves: float | None
    damages: float | None
    tokens: float
    truncated: float
    unanswered: float
    ties: float
    against_reference: Comparison | None


@dataclass(frozen=True, slots=True)
class Summary:
    """All systems of an evaluation, and what they were measured on."""

    systems: tuple[SystemSummary, ...]
    reference: PlannedSystem
    benchmarks: Mapping[str, int]
    """Number of problems of each benchmark, in the order of the table."""
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Scores by system, benchmark, seed and problem, with no place empty."""

    scores: Mapping[tuple[str, str, int, str], Score]
    problems: Mapping[str, tuple[str, ...]]
    seeds: tuple[int, ...]

    def of_seed(self, system: str, benchmark: str, seed: int) -> list[Score]:
        return [self.scores[system, benchmark, seed, problem] for problem in self.problems[benchmark]]

    def mean(self, system: str, benchmark: str, seed: int, *, value: Callable[[Score], float]) -> float:
        return fmean(value(score) for score in self.of_seed(system, benchmark, seed))

    def seed_averages(self, system: str, value: Callable[[Score], float]) -> list[float]:
        """Return for each seed the average over benchmarks of the mean over problems."""
        return [
            fmean(self.mean(system, benchmark, seed, value=value) for benchmark in self.problems) for seed in self.seeds
        ]


def summarize(scores: Iterable[Score], plan: EvaluationPlan) -> Summary:
    """Sum up an evaluation; scores that are missing, repeated or of an unknown system are refused."""
    grid = _grid(scores, plan)
    [reference] = [system for system in plan.systems if system.name == plan.reference]
    reference_averages = grid.seed_averages(reference.name, _measured(reference))
    summaries = tuple(
        _summary_of(system, grid, reference_averages=None if system is reference else reference_averages)
        for system in plan.systems
    )
    counts = {benchmark: len(problems) for benchmark, problems in grid.problems.items()}
    return Summary(summaries, reference, counts, grid.seeds)


def _summary_of(system: PlannedSystem, grid: _Grid, *, reference_averages: list[float] | None) -> SystemSummary:
    measured = _measured(system)
    averages = grid.seed_averages(system.name, measured)

    def average(value: Callable[[Score], float]) -> float:
        return fmean(grid.seed_averages(system.name, value))

    debates = all(score.rounds > 1 for score in grid.scores.values() if score.system == system.name)
    return SystemSummary(
        system=system,
        accuracy=estimate(averages),
        vote=estimate(grid.seed_averages(system.name, lambda score: score.vote_correct)),
        benchmarks={
            benchmark: estimate([grid.mean(system.name, benchmark, seed, value=measured) for seed in grid.seeds])
            for benchmark in grid.problems
        },
        seed_averages=tuple(averages),
        improves=average(lambda score: score.vote_correct and not score.first_vote_correct) if debates else None,
        damages=average(lambda score: score.first_vote_correct and not score.vote_correct) if debates else None,
        tokens=average(lambda score: score.generated_tokens),
        truncated=average(lambda score: score.truncated / score.calls),
        unanswered=average(lambda score: score.unanswered / score.calls),
        ties=average(lambda score: score.tie),
        against_reference=None if reference_averages is None else welch(averages, reference_averages),
    )


def _measured(system: PlannedSystem) -> Callable[[Score], float]:
    if system.measure == "vote":
        return lambda score: score.vote_correct
    return lambda score: score.accuracy


def _grid(scores: Iterable[Score], plan: EvaluationPlan) -> _Grid:
    placed: dict[tuple[str, str, int, str], Score] = {}
    known = {system.name for system in plan.systems}
    for score in scores:
        place = (score.system, score.benchmark, score.seed, score.problem)
        if score.system not in known:
            raise EvaluationError(
                f"there is a score of the system {score.system!r}, which is none of {', '.join(sorted(known))}; "
                "use the plan that the scores were made with"
            )
        if place in placed:
            raise EvaluationError(f"{_worded(place)} is scored twice; remove one of the two, or evaluate again")
        placed[place] = score
    if not placed:
        raise EvaluationError("there are no scores to sum up; run the evaluation first")
    problems: dict[str, set[str]] = {}
    for _, benchmark, _, problem in placed:
        problems.setdefault(benchmark, set()).add(problem)
    order = _benchmark_order(problems, plan)
    seeds = tuple(sorted({score.seed for score in placed.values()}))
    grid = _Grid(placed, {benchmark: tuple(sorted(problems[benchmark])) for benchmark in order}, seeds)
    _refuse_gaps(grid, plan)
    return grid


def _benchmark_order(found: Mapping[str, object], plan: EvaluationPlan) -> list[str]:
    if not plan.benchmarks:
        return sorted(found)
    if set(found) != set(plan.benchmarks):
        raise EvaluationError(
            f"there are scores of the benchmarks {', '.join(sorted(found))}, and the plan has "
            f"{', '.join(plan.benchmarks)}; finish the evaluation, or use the plan that the scores were made with"
        )
    return list(plan.benchmarks)


def _refuse_gaps(grid: _Grid, plan: EvaluationPlan) -> None:
    """Refuse systems that answered different questions: their means would differ for that reason alone."""
    for system in plan.systems:
        wanted = [
            (system.name, benchmark, seed, problem)
            for benchmark, problems in grid.problems.items()
            for seed in grid.seeds
            for problem in problems
        ]
        missing = [place for place in wanted if place not in grid.scores]
        if missing:
            raise EvaluationError(
                f"{len(missing):,} of the {len(wanted):,} scores of {system.name!r} are missing, the first of them "
                f"{_worded(missing[0])}; every system needs every seed and problem: finish the evaluation"
            )


def _worded(place: tuple[str, str, int, str]) -> str:
    system, benchmark, seed, problem = place
    return f"{system!r} on {benchmark} with seed {seed}, problem {problem!r}"
