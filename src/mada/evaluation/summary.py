"""From single scores to what a report shows: averages, rates and costs per system, and comparisons (E1–E3, B3).

Every benchmark has equal weight in every average, however many problems it has (`grid`). Two questions are asked, and
they differ. *Over seeds*: would other samples on these problems give the same result? Seeds are the sample: a seed's
average over benchmarks is one value; this is Welch's test (E2). *Over problems*: would other problems of the same kind?
Problems are the sample, each with all of its seeds, and systems are compared problem by problem. Both sides of a
comparison have the same measure. Axes: P problem, S seed.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Self

from mada.evaluation.at_k import majority_at_k, pass_at_k
from mada.evaluation.grid import MEASURES, Grid, Measure
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.statistics import (
    ROUNDING,
    Comparison,
    Estimate,
    Floats,
    Interval,
    PairedAnswers,
    PairedCounts,
    benjamini_hochberg,
    bootstrap_mean,
    detectable_difference,
    estimate,
    holm,
    mcnemar,
    paired_answers,
    paired_permutation,
    welch,
    welch_from_moments,
)


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
        """Return a system's accuracy by a measure."""
        value = MEASURES[measure]
        averages = grid.seed_averages(system, value)
        reference = grid.plan.reference_system
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


def summarize(grid: Grid) -> Summary:
    """Return what the tables show of an evaluation."""
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


EVERY_K_UP_TO = 8
"""Above that k is doubled: curves are smooth there, and counting draws of many is slow."""


@dataclass(frozen=True, slots=True)
class AgainstReference:
    """A system's verdicts against the reference's, system minus reference.

    Over seeds: `seeds` is Welch's test of the seeds' averages and `benchmarks` the same on each benchmark; `holm` and
    `benjamini_hochberg` are the p-values of `seeds`, adjusted for there being one such test for every other system.
    Over problems: `pairs`, `permutation` and `bootstrap` test the same difference, benchmarks having equal weight.
    `mcnemar` counts problems of all benchmarks alike: a problem is right if its answers are right more often than not
    over the seeds, and exactly half is not.
    """

    system: PlannedSystem
    seeds: Comparison
    holm: float | None
    benjamini_hochberg: float | None
    benchmarks: Mapping[str, Comparison]
    pairs: PairedAnswers
    permutation: Comparison
    mcnemar: PairedCounts
    bootstrap: Interval


@dataclass(frozen=True, slots=True)
class AtK:
    """What k of a system's samples reach: a right one among them (pass@k), and a right majority (maj@k)."""

    k: int
    passed: Estimate
    majority: Estimate


@dataclass(frozen=True, slots=True)
class SampleCurve:
    """A system's samples by their number; `points` are in the order of k, from 1."""

    system: PlannedSystem
    points: tuple[AtK, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkPower:
    """What so many problems can tell at the reference's accuracy, if every answer is right with that chance.

    `detectable` is None where the reference has all or nothing right, or one seed allows no test.
    """

    problems: int
    accuracy: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class PowerNote:
    """How small a true difference this evaluation finds four times in five, at the level of .05.

    `spread` is the standard deviation of a system's averages from seed to seed, pooled over the shown systems, and
    `detectable` the difference of averages that it allows; None with a single seed.
    """

    seeds: int
    spread: float | None
    detectable: float | None
    benchmarks: Mapping[str, BenchmarkPower]


def against_reference(grid: Grid) -> list[AgainstReference]:
    """Compare every other shown system with the reference, over seeds and over problems (B3)."""
    reference = grid.plan.reference_system
    others = [system for system in grid.plan.shown_systems if system != reference]
    own, own_verdicts = Accuracy.of(grid, reference, "verdict"), grid.values(reference, MEASURES["verdict"])
    accuracies = [Accuracy.of(grid, system, "verdict") for system in others]
    tests = [welch(one.seed_averages, own.seed_averages) for one in accuracies]
    p_values = [one.p for one in tests]
    compared: list[AgainstReference] = []
    for system, accuracy, seeds, by_holm, by_share in zip(
        others, accuracies, tests, holm(p_values), benjamini_hochberg(p_values), strict=True
    ):
        verdicts = grid.values(system, MEASURES["verdict"])
        differences = [values_PS - own_verdicts[name] for name, values_PS in verdicts.items()]
        compared.append(
            AgainstReference(
                system=system,
                seeds=seeds,
                holm=by_holm,
                benjamini_hochberg=by_share,
                benchmarks={
                    name: welch_from_moments(one, own.benchmarks[name]) for name, one in accuracy.benchmarks.items()
                },
                pairs=paired_answers(differences),
                permutation=paired_permutation(differences),
                mcnemar=mcnemar(_mostly_right(verdicts), _mostly_right(own_verdicts)),
                bootstrap=bootstrap_mean(differences),
            )
        )
    return compared


def accuracies_over_problems(grid: Grid) -> dict[str, Interval]:
    """Return the bootstrap interval over problems of every shown system's accuracy, by name (B3)."""
    return {
        system.name: bootstrap_mean(grid.values(system, MEASURES["verdict"]).values())
        for system in grid.plan.shown_systems
    }


def at_k(grid: Grid) -> list[SampleCurve]:
    """Return pass@k and maj@k of every shown system that is several samples of one agent.

    k goes up to the smallest number of samples of any question: a budget allows some questions more than others.
    """
    curves: list[SampleCurve] = []
    for system in grid.plan.shown_systems:
        if system.rounds > 1 or len(set(system.generators)) != 1:
            continue
        most = min(len(score.correct[0]) for score in grid.scores_of(system))
        if most > 1:
            curves.append(SampleCurve(system, tuple(_at(grid, system, k) for k in _numbers_up_to(most))))
    return curves


def power_note(grid: Grid) -> PowerNote:
    """Say how small a difference of verdicts this many seeds and problems can find."""
    seeds = len(grid.seeds)
    spread = None
    if seeds > 1:
        averages = [grid.seed_averages(system, MEASURES["verdict"]) for system in grid.plan.shown_systems]
        spread = math.sqrt(fmean(map(variance, averages)))
    benchmarks: dict[str, BenchmarkPower] = {}
    for benchmark, values_PS in grid.values(grid.plan.reference_system, MEASURES["verdict"]).items():
        accuracy, problems = float(values_PS.mean()), len(values_PS)
        found = None
        # Every answer is taken to be right with that chance. Without any spread one would promise to find everything.
        if seeds > 1 and ROUNDING < accuracy < 1 - ROUNDING:
            found = detectable_difference(math.sqrt(accuracy * (1 - accuracy) / problems), seeds)
        benchmarks[benchmark] = BenchmarkPower(problems, accuracy, found)
    return PowerNote(seeds, spread, None if spread is None else detectable_difference(spread, seeds), benchmarks)


def _mostly_right(verdicts: Mapping[str, Floats]) -> list[bool]:
    # Rounding must not make more than half of exactly half.
    return [bool(right) for values_PS in verdicts.values() for right in values_PS.mean(axis=1) > 0.5 + ROUNDING]


def _numbers_up_to(most: int) -> Iterator[int]:
    """Yield every k of a few, then doubled ones, and the last."""
    yield from range(1, min(most, EVERY_K_UP_TO) + 1)
    k = 2 * EVERY_K_UP_TO
    while k < most:
        yield k
        k *= 2
    if most > EVERY_K_UP_TO:
        yield most


def _at(grid: Grid, system: PlannedSystem, k: int) -> AtK:
    def passed(score: Score) -> float:
        return pass_at_k(sum(score.correct[0]), len(score.correct[0]), k=k)

    def majority(score: Score) -> float:
        return majority_at_k(*_group_sizes(score), k=k)

    return AtK(k, estimate(grid.seed_averages(system, passed)), majority=estimate(grid.seed_averages(system, majority)))


def _group_sizes(score: Score) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the sizes of right groups and of wrong ones, and how many gave no answer: all that a vote depends on.

    Equality is not quite transitive, so answers of one group may differ in being right: then most of them decide.
    """
    sizes: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for group, correct in zip(score.groups[0], score.correct[0], strict=True):
        if group is not None:
            sizes[group] += 1
            right[group] += correct
    rights = {group for group, size in sizes.items() if 2 * right[group] > size}
    return (
        tuple(sorted(sizes[group] for group in rights)),
        tuple(sorted(size for group, size in sizes.items() if group not in rights)),
        len(score.groups[0]) - sizes.total(),
    )
