"""Sections of a run's report, each made from stored records by one function; None where there is nothing to say."""

from mada.evaluation.statistics import Comparison, Estimate
from mada.report.document import Cell
from mada.report.numbers import points_text, spread_text

SPREAD = "± is the standard error over seeds"
"""Explains `80.1 ± 2.4` below a table."""


def accuracy(one: Estimate) -> str:
    """Return an accuracy in percent, with its standard error where there is one: `80.1 ± 2.4`."""
    return spread_text(one.mean, one.standard_error)


def difference(comparison: Comparison) -> Cell:
    """Return a difference in points with its stars, for tables that have no room for its error."""
    return Cell(points_text(comparison.difference), comparison.stars)


def uncertain_difference(comparison: Comparison) -> Cell:
    """Return a difference in points with its standard error and its stars: `−5.2 ± 0.5` and `**`."""
    return Cell(spread_text(comparison.difference, comparison.standard_error, signed=True), comparison.stars)
