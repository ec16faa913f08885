"""What tables and sections are made of in many places: estimates, differences, places of figures."""

from dataclasses import fields

from mada.evaluation.statistics import Comparison, Estimate
from mada.report.document import Cell, Figure
from mada.report.figures.data import FigureData
from mada.report.numbers import points_text, spread_text

SPREAD = "± is the standard error over seeds"
"""What is said of `80.1 ± 2.4` below a table."""


def accuracy(one: Estimate) -> str:
    """Return an accuracy in percent, with its standard error where there is one: `80.1 ± 2.4`."""
    return spread_text(one.mean, one.standard_error)


def difference(comparison: Comparison) -> Cell:
    """Return a difference in points with its stars, for tables that have no room for its error."""
    return Cell(points_text(comparison.difference), comparison.stars)


def uncertain_difference(comparison: Comparison) -> Cell:
    """Return a difference in points with its standard error and its stars: `−5.2 ± 0.5` and `**`."""
    return Cell(spread_text(comparison.difference, comparison.standard_error, signed=True), comparison.stars)


def figure_place(kind: type[FigureData]) -> Figure:
    """Return the place of a figure: the name and title that all figures of this kind have."""
    defaults = {field.name: field.default for field in fields(kind)}
    return Figure(str(defaults["name"]), str(defaults["title"]))
