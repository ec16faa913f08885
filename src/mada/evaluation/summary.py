"""From single scores to what a table shows: per system means over seeds, rates, costs, and a comparison (E1–E3).

Every benchmark has equal weight in every average, however many problems it has (`grid`). Seeds are the sample: a seed's
average over benchmarks is one value, and standard errors and tests are over those values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from mada.evaluation.grid import MEASURES, Grid, Measure
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.statistics import Comparison, Estimate, estimate, welch


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How right a system is by one measure, as shares from 0 to 1.

    `average` is the mean of `seed_averages`. `against_reference` compares them with those of the reference by the same
    measure; it is None for the reference itself.
    """

    average: Estimate
    benchmarks: Mapping[str, Estimate]
    seed_averages: tuple[float, ...]
    against_reference: Comparison | None

    @classmethod
    def of(cls, grid: Grid, system: PlannedSystem, measure: Measure) -> Self:
        """Sum up a system by a measure."""
        value = MEASURES[measure]
        averages = grid.seed_averages(system, value)
        reference = grid.plan.chosen
        return cls(
            estimate(averages),
            {
                benchmark: estimate([grid.mean(system, benchmark, seed, value=value) for seed in grid.seeds])
                for benchmark in grid.problems
            },
            tuple(averages),
            None if system == reference else welch(averages, grid.seed_averages(reference, value)),
        )


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """How good a system is and what it costs.

    `verdict` is about its one answer, `mean` about the answers of its last round one by one. `improves` and `damages`
    are shares of all questions, None for a system that is no debate. `tokens` are generated tokens and `prompt_tokens`
    tokens read per question, and `calls` the times that a model is asked, which varies where a budget decides;
    `truncated`, `unanswered`, `unfit` and `failed` are shares of replies.
    """

    system: PlannedSystem
    verdict: Accuracy
    mean: Accuracy
    improves: float | None
    damages: float | None
    calls: float
    tokens: float
    prompt_tokens: float
    truncated: float
    unanswered: float
    unfit: float
    failed: float
    ties: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The systems of an evaluation that are shown, and what they were measured on."""

    systems: tuple[SystemSummary, ...]
    plan: EvaluationPlan
    benchmarks: Mapping[str, int]
    """Number of problems of each benchmark, in the order of the table."""
    seeds: tuple[int, ...]

    @property
    def reference(self) -> SystemSummary:
        """The system that all others are compared with."""
        [reference] = [one for one in self.systems if one.system.name == self.plan.reference]
        return reference


def summarize(scores: Iterable[Score], plan: EvaluationPlan) -> Summary:
    """Sum up an evaluation; scores that are missing, repeated or of an unknown system are refused."""
    return summary_of(Grid.of(scores, plan))


def summary_of(grid: Grid) -> Summary:
    """Sum up an evaluation whose scores are in their places already, as they are where more is made of them."""
    summaries = tuple(_summary_of(system, grid) for system in grid.plan.systems if system.shown)
    counts = {benchmark: len(problems) for benchmark, problems in grid.problems.items()}
    return Summary(summaries, grid.plan, counts, grid.seeds)


def _summary_of(system: PlannedSystem, grid: Grid) -> SystemSummary:
    is_debate = all(member.is_debate for member in grid.members_of(system))
    return SystemSummary(
        system=system,
        verdict=Accuracy.of(grid, system, "verdict"),
        mean=Accuracy.of(grid, system, "mean"),
        improves=grid.average(system, _improves) if is_debate else None,
        damages=grid.average(system, _damages) if is_debate else None,
        calls=grid.average(system, lambda score: score.calls),
        tokens=grid.average(system, lambda score: score.generated_tokens),
        prompt_tokens=grid.average(system, lambda score: score.prompt_tokens),
        truncated=grid.average(system, lambda score: score.truncated / score.calls),
        unanswered=grid.average(system, lambda score: score.unanswered / score.calls),
        unfit=grid.average(system, lambda score: score.unfit / score.calls),
        failed=grid.average(system, lambda score: score.failed / score.calls),
        ties=grid.average(system, lambda score: score.tie),
    )


def _improves(score: Score) -> bool:
    return score.verdict_correct and not score.first_vote_correct


def _damages(score: Score) -> bool:
    return score.first_vote_correct and not score.verdict_correct
