"""What more samples of one agent would reach: the best that any choice among them could do, and a plain vote."""

from collections.abc import Sequence

from mada.evaluation.analysis import SampleCurve, at_k
from mada.evaluation.grid import Grid
from mada.evaluation.statistics import Estimate
from mada.report.markdown import escaped, table
from mada.report.numbers import NOTHING, share_text


def samples_section(grid: Grid) -> str:
    """Return pass@k and maj@k of every system that is several samples of one agent; nothing without any."""
    curves = at_k(grid)
    if not curves:
        return ""
    explanation = (
        "Of k samples of one agent, in percent: pass@k, how often a right one is among them, which is the best that a "
        "judge or critics could choose; maj@k, how often a majority vote is right, where tied answers win with equal "
        "chance. Both are means over all choices of k from the samples there are."
    )
    return f"## More samples\n\n{explanation}\n\n{samples_markdown(curves)}"


def samples_markdown(curves: Sequence[SampleCurve]) -> str:
    """Return the curves as a table with a column for every k."""
    numbers = sorted({point.k for curve in curves for point in curve.points})
    rows: list[list[str]] = []
    for curve in curves:
        points = {point.k: point for point in curve.points}
        title = escaped(curve.system.title)
        rows.append([title, "pass@k", *(_cell(points[k].passed) if k in points else NOTHING for k in numbers)])
        rows.append([title, "maj@k", *(_cell(points[k].majority) if k in points else NOTHING for k in numbers)])
    return table(["system", "", *(f"k = {k}" for k in numbers)], rows, left=2)


def _cell(one: Estimate) -> str:
    return share_text(one.mean) + ("" if one.standard_error is None else f" ± {share_text(one.standard_error)}")
