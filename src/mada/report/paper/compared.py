"""Rows that compare: accuracy, difference with its standard error, 95 % interval and p (the paper's Tables 2, 4, 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from mada.evaluation.statistics import Comparison, Estimate
from mada.report.document import Cell, Column, Row, Shade
from mada.report.numbers import NOTHING, p_text, points_text, uncertain_text
from mada.report.paper.shading import by_difference, largest_significant


@dataclass(frozen=True, slots=True)
class Compared:
    """A system's accuracy and how it compares with another; None for the one that others are compared with."""

    title: str
    accuracy: Estimate
    comparison: Comparison | None


def comparison_columns(first: str, *, accuracy: str) -> tuple[Column, ...]:
    """Return the columns, of which the first names systems and the second has accuracies."""
    return (
        Column(first, "text"),
        Column(accuracy),
        Column("difference"),
        Column("95 % interval"),
        Column("p"),
    )


def comparison_row(one: Compared, *, accuracy: Shade | None = None, difference: Shade | None = None) -> Row:
    """Return a row with these shades for its accuracy and its difference."""
    measured = Cell(uncertain_text(one.accuracy.mean, one.accuracy.standard_error), shade=accuracy)
    compared = one.comparison
    if compared is None:
        return Cell(one.title), measured, *[Cell(NOTHING)] * 3
    return (
        Cell(one.title),
        measured,
        Cell(uncertain_text(compared.difference, compared.standard_error, signed=True), shade=difference),
        Cell(interval_text(compared)),
        Cell(p_text(compared.p), compared.stars),
    )


def shaded_groups(groups: Sequence[Sequence[Compared]]) -> list[tuple[Row, ...]]:
    """Return rows with accuracy and difference shaded alike; the largest significant difference is the scale."""
    scale = largest_significant(one.comparison for group in groups for one in group)
    return [
        tuple(
            comparison_row(one, accuracy=shade, difference=shade)
            for one in group
            for shade in [by_difference(one.comparison, scale=scale)]
        )
        for group in groups
    ]


def interval_text(compared: Comparison) -> str:
    """Return a 95 % interval in points: `[+1.0, +3.0]`."""
    if compared.low is None or compared.high is None:
        return NOTHING
    return f"[{points_text(compared.low)}, {points_text(compared.high)}]"
