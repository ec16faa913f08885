"""From single scores to what a table shows: per system means over seeds, rates, costs, and a comparison (E1–E3).

Every benchmark has equal weight in every average, however many problems it has (`grid`). Seeds are the sample: a seed's
average over benchmarks is one value, and standard errors and tests are over those values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.statistics import Comparison, Estimate, estimate, welch


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """How good a system is and what it costs, as shares from 0 to 1.

    `accuracy` and `benchmarks` are what the system is measured by, `verdict` is its one answer whatever it is measured
    by; `seed_averages` are the values that `accuracy` is the mean of. `improves` and `damages` are shares of all
    questions, None for a system that is no debate. `tokens` are generated tokens per question and `calls` the times
    that a model is asked, which varies where a budget decides; `truncated`, `unanswered`, `unfit` and `failed` are
    shares of replies. `against_reference` is None for the reference itself, and `per_benchmark`, the same test on each
    benchmark, is empty.
    """

    system: PlannedSystem
    accuracy: Estimate
    verdict: Estimate
    benchmarks: Mapping[str, Estimate]
    seed_averages: tuple[float, ...]
    improves: float | None
    damages: float | None
    calls: float
    tokens: float
    truncated: float
    unanswered: float
    unfit: float
    failed: float
    ties: float
    against_reference: Comparison | None
    per_benchmark: Mapping[str, Comparison]


@dataclass(frozen=True, slots=True)
class Summary:
    """The systems of an evaluation that are shown, and what they were measured on."""

    systems: tuple[SystemSummary, ...]
    reference: PlannedSystem
    benchmarks: Mapping[str, int]
    """Number of problems of each benchmark, in the order of the table."""
    seeds: tuple[int, ...]


def summarize(scores: Iterable[Score], plan: EvaluationPlan) -> Summary:
    """Sum up an evaluation; scores that are missing, repeated or of an unknown system are refused."""
    return summary_of(Grid.of(scores, plan))


def summary_of(grid: Grid) -> Summary:
    """Sum up an evaluation whose scores are in their places already, as they are where more is made of them."""
    reference = grid.plan.chosen
    against = _Accuracies.of(grid, reference)
    summaries = tuple(
        _summary_of(system, grid, against=None if system is reference else against)
        for system in grid.plan.systems
        if system.shown
    )
    counts = {benchmark: len(problems) for benchmark, problems in grid.problems.items()}
    return Summary(summaries, reference, counts, grid.seeds)


@dataclass(frozen=True, slots=True)
class _Accuracies:
    """What a system is measured by, seed by seed: the samples that tests compare."""

    averages: list[float]
    benchmarks: dict[str, list[float]]

    @classmethod
    def of(cls, grid: Grid, system: PlannedSystem) -> Self:
        measured = grid.measured(system)
        benchmarks = {
            benchmark: [grid.mean(system, benchmark, seed, value=measured) for seed in grid.seeds]
            for benchmark in grid.problems
        }
        return cls(grid.seed_averages(system, measured), benchmarks)


def _summary_of(system: PlannedSystem, grid: Grid, *, against: _Accuracies | None) -> SystemSummary:
    own = _Accuracies.of(grid, system)
    is_debate = all(member.is_debate for member in grid.members_of(system))
    return SystemSummary(
        system=system,
        accuracy=estimate(own.averages),
        verdict=estimate(grid.seed_averages(system, lambda score: score.verdict_correct)),
        benchmarks={benchmark: estimate(values) for benchmark, values in own.benchmarks.items()},
        seed_averages=tuple(own.averages),
        improves=grid.average(system, _improves) if is_debate else None,
        damages=grid.average(system, _damages) if is_debate else None,
        calls=grid.average(system, lambda score: score.calls),
        tokens=grid.average(system, lambda score: score.generated_tokens),
        truncated=grid.average(system, lambda score: score.truncated / score.calls),
        unanswered=grid.average(system, lambda score: score.unanswered / score.calls),
        unfit=grid.average(system, lambda score: score.unfit / score.calls),
        failed=grid.average(system, lambda score: score.failed / score.calls),
        ties=grid.average(system, lambda score: score.tie),
        against_reference=welch(own.averages, against.averages) if against else None,
        per_benchmark={
            benchmark: welch(own.benchmarks[benchmark], values) for benchmark, values in against.benchmarks.items()
        }
        if against
        else {},
    )


def _improves(score: Score) -> bool:
    return score.verdict_correct and not score.first_vote_correct


def _damages(score: Score) -> bool:
    return score.first_vote_correct and not score.verdict_correct
