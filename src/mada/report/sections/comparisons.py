"""Who beats whom, and how sure that is: over seeds, over problems, per benchmark, all with all (E2, B3)."""

from collections.abc import Sequence

from mada.evaluation.analysis import (
    AgainstReference,
    PowerNote,
    accuracies_over_problems,
    against_reference,
    power_note,
    shown_systems,
)
from mada.evaluation.grid import Grid
from mada.evaluation.statistics import Comparison, Interval
from mada.evaluation.summary import summary_of
from mada.report.document import Block, Cell, Column, Row, Section, Table, paragraph, row
from mada.report.figures.data import PairsFigure
from mada.report.numbers import NOTHING, REFERENCE, counted, p_text, points_text, quoted, range_text, share_text
from mada.report.paper.lineup import Lineup
from mada.report.paper.matrices import FEWEST, MOST, differences_table, p_table, pairs_of
from mada.report.sections.entries import brackets_note, figure_place, uncertain_difference


def comparisons_section(grid: Grid) -> Section | None:
    """Return the comparisons of an evaluation; None for a system that is alone."""
    if len(shown_systems(grid)) < 2:
        return None
    compared = against_reference(grid)
    opening = paragraph(
        f"Differences are in points, system minus {quoted(grid.plan.chosen.title)}, and one, two or three stars stand "
        "for p below .05, .01 and .001. Intervals are 95 %."
    )
    blocks: list[Block] = [opening, _over_seeds(compared, seeds=grid.seeds), _over_problems(grid, compared)]
    if len(grid.problems) > 1:
        blocks.append(_by_benchmark(compared, seeds=grid.seeds))
    blocks += _all_with_all(grid)
    blocks.append(paragraph(power_text(power_note(grid))))
    return Section("comparisons", "Comparisons", tuple(blocks))


def power_text(note: PowerNote) -> str:
    """Say in sentences how small a difference the evaluation could have found."""
    if note.detectable is None or note.spread is None:
        return "One seed allows no test over seeds: run more of them before calling two systems alike or different."
    # Estimates beyond 100 points say that nothing is found, not that much is.
    found = f"find a true difference of {share_text(note.detectable)} points four times in five"
    parts = [
        f"Power: a system's average varies by {share_text(note.spread)} points from seed to seed (standard deviation), "
        f"so {note.seeds} seeds {found if note.detectable < 1 else 'are too few to find anything reliably'}. "
        "Smaller differences are often missed: no star is no proof that two systems are alike."
    ]
    benchmarks = [
        f"{share_text(one.detectable)} on {name} ({counted(one.problems, 'problem')})"
        for name, one in note.benchmarks.items()
        if one.detectable is not None and one.detectable < 1
    ]
    if benchmarks:
        parts.append(
            f"On a single benchmark, at the reference's accuracy and if all problems were equally hard, {note.seeds} "
            f"seeds find this many points: {', '.join(benchmarks)}."
        )
    return " ".join(parts)


def _over_seeds(compared: Sequence[AgainstReference], *, seeds: Sequence[int]) -> Table:
    """Return Welch's comparisons with the reference, adjusted for their number."""
    columns = (
        Column("system", "text"),
        *map(Column, ("difference", "95 % interval", "p", "Holm", "BH")),
        *(Column(heading, group="verdict against verdict") for heading in ("difference", "p")),
    )
    rows = tuple(
        row(
            one.system.title,
            [
                uncertain_difference(one.seeds),
                range_text(one.seeds.low, one.seeds.high),
                *map(p_text, (one.seeds.p, one.holm, one.benjamini_hochberg)),
                *_difference_and_p(one.verdicts),
            ],
        )
        for one in compared
    )
    return Table(
        "over-seeds",
        "Over seeds: would other samples on the same problems say so again?",
        columns,
        (rows,),
        (
            "Welch's t-test of the seeds' averages. Holm and BH (Benjamini–Hochberg) adjust its p for the "
            f"{counted(len(compared), 'test')} of this table: Holm for claims that must all stand, BH where some false "
            "findings among many may pass. A vote against the mean of single answers is no fair match, so the last "
            "columns have the same test of both systems' verdicts, its p not adjusted.",
            *brackets_note(seeds),
        ),
    )


def _over_problems(grid: Grid, compared: Sequence[AgainstReference]) -> Table:
    """Return what problem-by-problem comparisons say; the reference has its own accuracy."""
    by_name = {one.system.name: one for one in compared}
    accuracies = accuracies_over_problems(grid)
    rows: list[Row] = []
    for system in shown_systems(grid):
        one = by_name.get(system.name)
        cells = [REFERENCE, *[NOTHING] * 5] if one is None else _over_problems_cells(one)
        rows.append(row(system.title, [*_share_and_range(accuracies[system.name]), *cells]))
    interval = "95 % interval"
    return Table(
        "over-problems",
        "Over problems: would other problems of the same kind say so?",
        (
            Column("system", "text"),
            *(Column(heading, group="accuracy") for heading in ("mean", interval)),
            *(Column(heading, group="difference") for heading in ("mean", interval, "p")),
            *(Column(heading, group="McNemar") for heading in ("it alone is right", "the reference alone", "p")),
        ),
        (tuple(rows),),
        (
            "Intervals are bootstrapped by drawing problems, each with all of its seeds, and the difference's p is "
            "that of a permutation test on the per-problem differences. McNemar's test counts problems that one system "
            "alone gets right more often than not over the seeds (exactly half is not), whatever their benchmark.",
        ),
    )


def _by_benchmark(compared: Sequence[AgainstReference], *, seeds: Sequence[int]) -> Table:
    """Return the difference on each benchmark, with its error, its stars and p."""
    columns = [Column(heading, group=name) for name in compared[0].benchmarks for heading in ("difference", "p")]
    rows = tuple(
        row(one.system.title, [cell for each in one.benchmarks.values() for cell in _difference_and_p(each)])
        for one in compared
    )
    return Table(
        "by-benchmark",
        "Benchmark by benchmark, over seeds",
        (Column("system", "text"), *columns),
        (rows,),
        (" ".join(["p is not adjusted.", *brackets_note(seeds)]),),
    )


def _all_with_all(grid: Grid) -> list[Block]:
    """Return the paper's matrices; two systems are compared already, and for too many there is no room."""
    if len(shown_systems(grid)) < FEWEST:
        return []
    pairs = pairs_of(Lineup.of(summary_of(grid)))
    if pairs is None:
        return [figure_place(PairsFigure), paragraph(f"Matrices of more than {MOST} systems are not shown.")]
    p_values = p_table(pairs)
    return [figure_place(PairsFigure), differences_table(pairs), *([p_values] if p_values else [])]


def _over_problems_cells(one: AgainstReference) -> list[str]:
    return [
        points_text(one.bootstrap.value),
        range_text(one.bootstrap.low, one.bootstrap.high),
        p_text(one.permutation.p),
        f"{one.mcnemar.only_first:,}",
        f"{one.mcnemar.only_second:,}",
        p_text(one.mcnemar.p),
    ]


def _difference_and_p(comparison: Comparison) -> list[Cell]:
    return [uncertain_difference(comparison), Cell(p_text(comparison.p))]


def _share_and_range(interval: Interval) -> list[str]:
    if interval.low is None or interval.high is None:
        return [share_text(interval.value), NOTHING]
    return [share_text(interval.value), f"{share_text(interval.low)} to {share_text(interval.high)}"]
