"""Numbers as people read them: shares in percent, differences in points, p-values; and the numbers of systems."""

from collections.abc import Iterable

from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.statistics import Comparison, Estimate
from mada.report.document import Cell

NOTHING = "–"
REFERENCE = "reference"
SPREAD = "± is the standard error over seeds"
"""Explains `80.1 ± 2.4` below a table."""


def numbered_titles(plans: Iterable[EvaluationPlan]) -> dict[str, str]:
    """Return the titles of shown systems by name, each with the number that it has in all tables and figures."""
    titles: dict[str, str] = {}
    for system in (system for plan in plans for system in plan.shown_systems):
        titles.setdefault(system.name, f"{len(titles) + 1} {system.title}")
    return titles


def optional(number: float | None, form: str) -> str:
    """Return a number in a format, and a dash where there is none."""
    return NOTHING if number is None else format(number, form)


def share_text(share: float | None) -> str:
    """Return a share as a percentage without its sign: `72.0`."""
    return NOTHING if share is None else f"{100 * share:.1f}"


def points_text(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign: `−5.2`."""
    return _number_text(difference, digits=1, signed=True)


def spread_text(share: float, error: float | None, *, signed: bool = False) -> str:
    """Return a share in percent with its standard error: `28.4 ± 1.3`, `+2.0 ± 0.5`, `72.81 ± 0.19`."""
    digits = _digits(error)
    number = _number_text(share, digits=digits, signed=signed)
    return number if error is None else f"{number} ± {100 * error:.{digits}f}"


def uncertain_text(share: float, error: float | None, *, signed: bool = False) -> str:
    """Return a share in percent with its standard error as the paper writes it: `41.9(3)`, `28.4(1.3)`, `72.81(19)`.

    An error below 1 counts in the last digit. Below 0.2 one digit of it would be coarse, so there are two.
    """
    number, _, spread = spread_text(share, error, signed=signed).partition(" ± ")
    if not spread:
        return number
    return f"{number}({spread if float(spread) >= 1 else int(spread.replace('.', ''))})"


def accuracy(one: Estimate) -> str:
    """Return an accuracy in percent, with its standard error where there is one: `80.1 ± 2.4`."""
    return spread_text(one.mean, one.standard_error)


def difference(one: Comparison) -> Cell:
    """Return a difference in points with its stars, for tables that have no room for its error."""
    return Cell(points_text(one.difference), one.stars)


def uncertain_difference(one: Comparison) -> Cell:
    """Return a difference in points with its standard error and its stars: `−5.2 ± 0.5` and `**`."""
    return Cell(spread_text(one.difference, one.standard_error, signed=True), one.stars)


def p_text(p: float | None) -> str:
    """Return a p-value: `0.012`."""
    return "<0.001" if p is not None and p < 0.001 else optional(p, ".3f")


def range_text(low: float | None, high: float | None) -> str:
    """Return an interval of differences in points: `−1.0 to +2.5`."""
    return NOTHING if low is None or high is None else f"{points_text(low)} to {points_text(high)}"


def count_text(number: float) -> str:
    """Return a mean of counts, without a fraction where it is an integer: `6`, `5.9`."""
    return f"{number:,.1f}".removesuffix(".0")


def small_text(number: float | None) -> str:
    """Return a small quantity with three significant digits: `0.00412`."""
    return optional(number, ",.0f" if number is not None and number >= 100 else ".3g")


def quoted(title: str) -> str:
    """Return a title as it stands in a sentence."""
    return f"“{title}”"


def _digits(error: float | None) -> int:
    return 1 if error is None or 100 * error >= 0.195 else 2


def _number_text(share: float, *, digits: int, signed: bool) -> str:
    # Adding 0.0 turns the −0.0 of a tiny negative number into 0.0.
    return f"{round(100 * share, digits) + 0.0:{'+' if signed else ''}.{digits}f}".replace("-", "−")
