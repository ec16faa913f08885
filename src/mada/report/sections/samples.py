"""What more samples of one agent would reach: the best that any choice among them could do, and a plain vote."""

from collections.abc import Sequence

from mada.evaluation.analysis import SampleCurve, at_k
from mada.evaluation.grid import Grid
from mada.report.document import Column, Row, Section, Table, paragraph, row
from mada.report.numbering import numbered_titles
from mada.report.numbers import NOTHING
from mada.report.sections.entries import SPREAD, accuracy


def samples_section(grid: Grid) -> Section | None:
    """Return pass@k and maj@k of every system that is several samples of one agent; None without any."""
    curves = at_k(grid)
    titles = numbered_titles([grid.plan])
    if not curves:
        return None
    explanation = paragraph(
        "Of k samples of one agent, in percent: pass@k, how often a right one is among them, which is the best that a "
        "judge or critics could choose; maj@k, how often a majority vote is right, where tied answers win with equal "
        "chance. Both are means over all choices of k from the samples there are."
    )
    numbers = sorted({point.k for curve in curves for point in curve.points})
    table = Table(
        "samples",
        "pass@k and maj@k",
        (Column("system", "text"), Column("measure", "text"), *(Column(f"k = {k}") for k in numbers)),
        tuple(_rows(titles[curve.system.name], curve, numbers) for curve in curves),
        (f"{SPREAD}.",) if len(grid.seeds) > 1 else (),
    )
    return Section("samples", "More samples", (explanation, table))


def _rows(title: str, curve: SampleCurve, numbers: Sequence[int]) -> tuple[Row, ...]:
    points = {point.k: point for point in curve.points}
    passed = [accuracy(points[k].passed) if k in points else NOTHING for k in numbers]
    majority = [accuracy(points[k].majority) if k in points else NOTHING for k in numbers]
    return row(title, ["pass@k", *passed]), row(title, ["maj@k", *majority])
