"""What generated tokens bring, and what plain votes bring for as many: whether debating is worth its tokens (B1)."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from mada.evaluation.analysis import SampleCurve, at_k
from mada.evaluation.grid import Grid
from mada.report.figures.data import TokensFigure, VoteCurve, VotePoint
from mada.report.figures.points import run_title, system_points
from mada.report.reading import Source


def tokens_figure(sources: Sequence[Source]) -> TokensFigure | None:
    """Return right verdicts against generated tokens per question, with curves of votes; None before an evaluation."""
    points = system_points(
        sources, lambda grid, system: grid.average(system, lambda score: score.generated_tokens), measure="verdict"
    )
    curves = tuple(
        _curve(source.grid, curve, run=run_title(source, sources))
        for source in sources
        if source.grid is not None
        for curve in _longest(at_k(source.grid))
    )
    return TokensFigure(points, curves) if points else None


def _longest(curves: Sequence[SampleCurve]) -> Iterator[SampleCurve]:
    """Yield one curve per agent, the first of those with most samples.

    Votes of one agent under several budgets, weighted ones too, share their samples: their curves would lie upon each
    other, since maj@k is the plain vote whatever the system's own rule is.
    """
    agents: dict[str, SampleCurve] = {}
    for curve in curves:
        agent = curve.system.generators[0]
        if agent not in agents or curve.points[-1].k > agents[agent].points[-1].k:
            agents[agent] = curve
    yield from agents.values()


def _curve(grid: Grid, curve: SampleCurve, *, run: str) -> VoteCurve:
    tokens = grid.average(curve.system, lambda score: fmean(score.tokens[0]))
    return VoteCurve(
        run=run,
        title=f"votes of {curve.system.generators[0]}",
        points=tuple(
            VotePoint(at.k, at.k * tokens, accuracy=at.majority.mean, error=at.majority.standard_error)
            for at in curve.points
        ),
    )
