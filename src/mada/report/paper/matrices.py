"""The matrices of the paper's appendix: every system against every other, as differences and as p-values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mada.evaluation.statistics import Comparison, welch_from_moments
from mada.evaluation.summary import Summary
from mada.report.document import Cell, Column, Table
from mada.report.numbers import NOTHING, p_text, uncertain_text
from mada.report.paper.lineup import MEASURED, about_the_test, averaged
from mada.report.paper.shading import by_difference, by_stars, largest_significant

FEWEST, MOST = 3, 24
"""Systems that make a matrix: a pair is one comparison, and more columns than that fit no page."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Systems by title, and their comparisons by (row, column) places, row minus column."""

    titles: tuple[str, ...]
    comparisons: Mapping[tuple[int, int], Comparison]
    seeds: int
    benchmarks: int


def pairs_of(summary: Summary) -> Pairs | None:
    """Compare all shown systems with each other; None where they are too few or too many for a matrix."""
    systems = summary.systems
    if not FEWEST <= len(systems) <= MOST:
        return None
    comparisons = {
        (i, j): welch_from_moments(row.mean.average, column.mean.average)
        for i, row in enumerate(systems)
        for j, column in enumerate(systems)
        if i != j
    }
    titles = tuple(one.system.title for one in systems)
    return Pairs(titles, comparisons, seeds=len(summary.seeds), benchmarks=len(summary.benchmarks))


def differences_table(pairs: Pairs) -> Table:
    """Return all differences, row minus column, with their standard errors."""
    scale = largest_significant(pairs.comparisons.values())

    def cell(one: Comparison) -> Cell:
        text = uncertain_text(one.difference, one.standard_error, signed=True)
        return Cell(text, shade=by_difference(one, scale=scale))

    shading = (
        "Green: the row's system is significantly more accurate than the column's; red: significantly less (Welch's "
        f"two-sided t-test over {pairs.seeds} seeds, p < 0.05, not corrected for the number of tests); the deeper, the "
        "larger the difference, as a share of the largest significant one. White pairs do not differ significantly."
    )
    notes = (
        f"{averaged(pairs.seeds, what='Points of accuracy, row minus column')} Columns have the rows' numbers.",
        MEASURED,
        *([shading] if pairs.seeds > 1 else []),
    )
    return _matrix("pairwise-differences", "All pairs: differences of accuracy", pairs, cell=cell, notes=notes)


def p_table(pairs: Pairs) -> Table | None:
    """Return the p-values of all differences; None where one seed allows no test."""
    if all(one.p is None for one in pairs.comparisons.values()):
        return None
    count = len(pairs.titles) * (len(pairs.titles) - 1) // 2
    notes = (
        f"{about_the_test(pairs.seeds, benchmarks=pairs.benchmarks)} A pair and its mirror are one test; "
        f"the {count} tests are not corrected for their number. Columns have the rows' numbers.",
        "Light, medium and dark gray: p < 0.05, p < 0.01, p < 0.001. White pairs do not differ significantly.",
    )
    return _matrix(
        "pairwise-p",
        "All pairs: significance of the differences",
        pairs,
        cell=lambda one: Cell(p_text(one.p), shade=by_stars(one)),
        notes=notes,
    )


def _matrix(
    name: str, title: str, pairs: Pairs, *, cell: Callable[[Comparison], Cell], notes: tuple[str, ...]
) -> Table:
    places = range(len(pairs.titles))
    rows = tuple(
        (
            Cell(f"{i + 1} {pairs.titles[i]}"),
            *(Cell(NOTHING) if i == j else cell(pairs.comparisons[i, j]) for j in places),
        )
        for i in places
    )
    columns = (Column("row minus column", "text"), *(Column(str(place + 1)) for place in places))
    return Table(name, title, columns, (rows,), notes=notes)
