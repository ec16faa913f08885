"""Who beats whom by their verdicts, and how sure that is: over seeds, over problems, per benchmark, all with all."""

from collections.abc import Mapping, Sequence

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
from mada.report.numbering import numbered_titles
from mada.report.numbers import NOTHING, REFERENCE, p_text, points_text, quoted, range_text, share_text
from mada.report.sections.entries import SPREAD, figure_place, uncertain_difference
from mada.text import counted


def comparisons_section(grid: Grid) -> Section | None:
    """Return the comparisons of an evaluation; None for a system that is alone."""
    if len(shown_systems(grid)) < 2:
        return None
    compared = against_reference(grid)
    opening = paragraph(
        f"Verdict against verdict, in points, system minus {quoted(grid.plan.chosen.title)}. One, two or three stars "
        "stand for p below .05, .01 and .001. Intervals are 95 %."
    )
    titles = numbered_titles([grid.plan])
    blocks: list[Block] = [opening, _over_seeds(grid, compared, titles), _over_problems(grid, compared, titles)]
    if len(grid.problems) > 1:
        blocks.append(_by_benchmark(compared, titles, seeds=grid.seeds))
    blocks += [figure_place(PairsFigure), paragraph(power_text(power_note(grid)))]
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


def _over_seeds(grid: Grid, compared: Sequence[AgainstReference], titles: Mapping[str, str]) -> Table:
    """Return Welch's comparisons with the reference, adjusted for their number; the paper's measure stands beside."""
    columns = (
        Column("system", "text"),
        *map(Column, ("difference", "95 % interval", "p", "Holm", "BH")),
        *(Column(heading, group="mean against mean") for heading in ("difference", "p")),
    )
    means = {one.system.name: one.mean.against_reference for one in summary_of(grid).systems}
    rows = tuple(
        row(
            titles[one.system.name],
            [
                uncertain_difference(one.seeds),
                range_text(one.seeds.low, one.seeds.high),
                *map(p_text, (one.seeds.p, one.holm, one.benjamini_hochberg)),
                *_difference_and_p(means[one.system.name]),
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
            "Verdict against verdict, by Welch's t-test of seeds' averages. Holm and BH (Benjamini–Hochberg) adjust "
            f"its p for the {counted(len(compared), 'test')} of this table: Holm for claims that must all stand, BH "
            "where some false findings among many may pass. Mean against mean: the same test of both systems' single "
            "answers in their last round (the paper's measure), its p not adjusted.",
            *_spread_note(grid.seeds),
        ),
    )


def _over_problems(grid: Grid, compared: Sequence[AgainstReference], titles: Mapping[str, str]) -> Table:
    """Return what problem-by-problem comparisons of verdicts say; the reference has its own accuracy."""
    by_name = {one.system.name: one for one in compared}
    accuracies = accuracies_over_problems(grid)
    rows: list[Row] = []
    for system in shown_systems(grid):
        one = by_name.get(system.name)
        cells = [REFERENCE, *[NOTHING] * 8] if one is None else _over_problems_cells(one)
        rows.append(row(titles[system.name], [*_share_and_range(accuracies[system.name]), *cells]))
    interval = "95 % interval"
    return Table(
        "over-problems",
        "Over problems: would other problems of the same kind say so?",
        (
            Column("system", "text"),
            *(Column(heading, group="right verdicts") for heading in ("mean", interval)),
            *(Column(heading, group="difference") for heading in ("mean", interval, "p")),
            *(Column(heading, group="problem and seed") for heading in ("wins", "losses", "p")),
            *(Column(heading, group="McNemar") for heading in ("wins", "losses", "p")),
        ),
        (tuple(rows),),
        (
            "Verdict against verdict. Intervals are bootstrapped by drawing problems, each with all of its seeds, and "
            "the difference's p is that of a permutation test on per-problem differences. Problem and seed: how many "
            "pairs of these the system alone gets right (wins), or the reference alone (losses); p is a paired t-test "
            "with problems as clusters. McNemar's test counts problems that one of them alone gets right more often "
            "than not over the seeds (exactly half is not), whatever their benchmark. No p of this table is adjusted.",
        ),
    )


def _by_benchmark(compared: Sequence[AgainstReference], titles: Mapping[str, str], *, seeds: Sequence[int]) -> Table:
    """Return the difference of verdicts on each benchmark, with its error, its stars and p."""
    columns = [Column(heading, group=name) for name in compared[0].benchmarks for heading in ("difference", "p")]
    rows = tuple(
        row(titles[one.system.name], [cell for each in one.benchmarks.values() for cell in _difference_and_p(each)])
        for one in compared
    )
    return Table(
        "by-benchmark",
        "Benchmark by benchmark, over seeds",
        (Column("system", "text"), *columns),
        (rows,),
        (" ".join(["Verdict against verdict, by Welch's t-test. p is not adjusted.", *_spread_note(seeds)]),),
    )


def _spread_note(seeds: Sequence[int]) -> tuple[str, ...]:
    """Say what ± is; one seed has no standard error."""
    return (f"{SPREAD}.",) if len(seeds) > 1 else ()


def _over_problems_cells(one: AgainstReference) -> list[str]:
    return [
        points_text(one.bootstrap.value),
        range_text(one.bootstrap.low, one.bootstrap.high),
        p_text(one.permutation.p),
        f"{one.pairs.first_better:,}",
        f"{one.pairs.second_better:,}",
        p_text(one.pairs.comparison.p),
        f"{one.mcnemar.only_first:,}",
        f"{one.mcnemar.only_second:,}",
        p_text(one.mcnemar.p),
    ]


def _difference_and_p(comparison: Comparison | None) -> list[Cell]:
    if comparison is None:
        return [Cell(NOTHING)] * 2
    return [uncertain_difference(comparison), Cell(p_text(comparison.p))]


def _share_and_range(interval: Interval) -> list[str]:
    if interval.low is None or interval.high is None:
        return [share_text(interval.value), NOTHING]
    return [share_text(interval.value), f"{share_text(interval.low)} to {share_text(interval.high)}"]
