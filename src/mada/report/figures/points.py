"""Systems as points, accuracy against trained parameters or generated tokens, with the Pareto front and vote curves."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from mada.evaluation.grid import MEASURES, Grid, Measure
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import ROUNDING, estimate
from mada.evaluation.summary import SampleCurve, at_k
from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    LIGHT_GRAY,
    SMALL,
    TWO_COLUMNS,
    VERMILLION,
    WHITE,
    line_style,
    new_figure,
    percent_axis,
    shortened,
    tooltip,
)
from mada.report.numbers import numbered_titles, share_text
from mada.report.reading import Source, run_title

LINE_HEIGHT = 9.5
"""Height of a label in points of print."""
LONGEST_LABEL = 34
MOST_CURVES = 4
"""More vote curves than that share one entry in the legend."""
DOTTED = (0, (1, 1.2))
LARGEST_LINEAR_RATIO = 12.0
"""Costs that differ by more than this factor are shown on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class SystemPoint:
    """A system at its cost: `x` is trained parameters or generated tokens per question."""

    run: str
    name: str
    title: str
    x: float
    accuracy: float
    error: float | None
    is_reference: bool
    is_on_front: bool
    """Whether no other is at least as good and at most as expensive, and one of the two strictly (Pareto)."""


@dataclass(frozen=True, slots=True)
class VotePoint:
    """A majority vote of k samples (maj@k), at what k samples cost."""

    k: int
    tokens: float
    accuracy: float
    error: float | None


@dataclass(frozen=True, slots=True)
class VoteCurve:
    """Votes of one agent's samples, k = 1, 2, …"""

    run: str
    title: str
    points: tuple[VotePoint, ...]


@dataclass(frozen=True)
class ParametersFigure:
    """Mean accuracy against trained parameters, with the Pareto front (the paper's figure)."""

    name: ClassVar = "parameters"
    points: tuple[SystemPoint, ...]


@dataclass(frozen=True)
class TokensFigure:
    """Right verdicts against generated tokens per question, with plain votes at the same tokens."""

    name: ClassVar = "tokens"
    points: tuple[SystemPoint, ...]
    curves: tuple[VoteCurve, ...]


def parameters_figure(sources: Sequence[Source]) -> ParametersFigure | None:
    """Return mean accuracy against trained parameters; None where no system has any."""
    points = _system_points(sources, lambda _, system: system.parameters, measure="mean")
    return ParametersFigure(points) if any(point.x > 0 for point in points) else None


def tokens_figure(sources: Sequence[Source]) -> TokensFigure | None:
    """Return right verdicts against generated tokens per question, with vote curves; None before an evaluation."""
    points = _system_points(
        sources, lambda grid, system: grid.average(system, lambda score: score.generated_tokens), measure="verdict"
    )
    curves = tuple(
        _vote_curve(source.grid, curve, run=run_title(source, sources))
        for source in sources
        if source.grid is not None
        for curve in _longest(at_k(source.grid))
    )
    return TokensFigure(points, curves) if points else None


def with_front(points: Sequence[SystemPoint]) -> tuple[SystemPoint, ...]:
    """Mark the Pareto front: points that no other beats. Equal points are on it together."""

    def beats(other: SystemPoint, point: SystemPoint) -> bool:
        # Averages of the same answers may differ by rounding alone, which is no advantage.
        better = other.accuracy - point.accuracy
        return (other.x < point.x and better >= -ROUNDING) or (other.x == point.x and better > ROUNDING)

    return tuple(replace(point, is_on_front=not any(beats(other, point) for other in points)) for point in points)


def draw_parameters(data: ParametersFigure) -> Figure:
    """Draw mean answers against trained parameters."""
    return _draw(data.points, (), label="Trained parameters", measure="Right answers of the last round (%)")


def draw_tokens(data: TokensFigure) -> Figure:
    """Draw right verdicts against generated tokens per question, and votes at as many."""
    return _draw(data.points, data.curves, label="Generated tokens per question", measure="Right verdicts (%)")


def axis_count(count: float) -> str:
    """Return a count as axes write it: `500`, `200k`, `1.5M`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size and (letter != "k" or count >= 10_000):
            return f"{count / size:.6g}{letter}"
    return f"{count:,.6g}"


def _system_points(
    sources: Sequence[Source], cost: Callable[[Grid, PlannedSystem], float | None], *, measure: Measure
) -> tuple[SystemPoint, ...]:
    """Return the shown systems of all runs whose cost is known, with one Pareto front."""
    titles = numbered_titles(source.grid.plan for source in sources if source.grid)
    points: list[SystemPoint] = []
    for source, grid in ((source, source.grid) for source in sources if source.grid):
        for system in grid.plan.shown_systems:
            x = cost(grid, system)
            if x is not None:
                average = estimate(grid.seed_averages(system, MEASURES[measure]))
                points.append(
                    SystemPoint(
                        run=run_title(source, sources),
                        name=system.name,
                        title=titles[system.name],
                        x=float(x),
                        accuracy=average.mean,
                        error=average.standard_error,
                        is_reference=system.name == grid.plan.reference,
                        is_on_front=False,
                    )
                )
    return with_front(points)


def _longest(curves: Sequence[SampleCurve]) -> Iterator[SampleCurve]:
    """Yield one curve per agent, the first of those with most samples: votes under several budgets share samples."""
    agents: dict[str, SampleCurve] = {}
    for curve in curves:
        agent = curve.system.generators[0]
        if agent not in agents or curve.points[-1].k > agents[agent].points[-1].k:
            agents[agent] = curve
    yield from agents.values()


def _vote_curve(grid: Grid, curve: SampleCurve, *, run: str) -> VoteCurve:
    tokens = grid.average(curve.system, lambda score: fmean(score.tokens[0]))
    points = (VotePoint(at.k, at.k * tokens, at.majority.mean, at.majority.standard_error) for at in curve.points)
    return VoteCurve(run, f"votes of {curve.system.generators[0]}", tuple(points))


def _draw(points: Sequence[SystemPoint], curves: Sequence[VoteCurve], *, label: str, measure: str) -> Figure:
    figure = new_figure(TWO_COLUMNS, max(3.2, (len(points) + 5) * LINE_HEIGHT / 72))
    axes = figure.add_subplot()
    axes.set_xlabel(label)
    axes.set_ylabel(measure)
    percent_axis(axes)
    _set_scale(axes, [*(point.x for point in points), *(at.tokens for curve in curves for at in curve.points)])
    runs = list(dict.fromkeys([*(point.run for point in points), *(curve.run for curve in curves)]))
    handles = [_draw_curve(axes, curve, index=runs.index(curve.run)) for curve in curves]
    if len(handles) > MOST_CURVES:
        # The colours of the runs then tell the curves apart.
        handles = [Line2D([], [], color=GRAY, linestyle=DOTTED, linewidth=1.0, label="votes of k = 1, 2, … samples")]
    front = sorted((point.x, point.accuracy) for point in points if point.is_on_front)
    if len(front) > 1:
        handles += axes.plot(
            *zip(*front, strict=True),
            drawstyle="steps-post",
            color=GRAY,
            linewidth=0.9,
            zorder=1.5,
            label="Pareto front",
        )
    colours = [_draw_point(axes, point, index=runs.index(point.run), is_alone=len(runs) == 1) for point in points]
    if len(runs) > 1:
        styles = [(line_style(index), run) for index, run in enumerate(runs)]
        handles += [
            Line2D([], [], color=style.colour, marker=style.marker, linestyle="", label=shortened(run, 30))
            for style, run in styles
        ]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.2, handletextpad=0.5)
    _label_points(figure, axes, points, colours)
    return figure


def _set_scale(axes: Axes, costs: Sequence[float]) -> None:
    """Choose a scale that shows small costs beside large ones, with a place for zero."""
    positive = [cost for cost in costs if cost > 0]
    ratio = max(positive) / min(positive) if positive else 1.0
    if ratio > LARGEST_LINEAR_RATIO and len(positive) == len(costs):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif ratio > LARGEST_LINEAR_RATIO:
        axes.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
        powers = range(math.ceil(math.log10(min(positive))), math.floor(math.log10(max(positive))) + 1)
        axes.set_xticks([0, *(10.0**power for power in powers)])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: axis_count(cost)))
    axes.margins(x=0.05, y=0.08)


def _draw_curve(axes: Axes, curve: VoteCurve, *, index: int) -> Line2D:
    name = f"{curve.run}: {curve.title}" if curve.run else curve.title
    (line,) = axes.plot(
        [at.tokens for at in curve.points],
        [at.accuracy for at in curve.points],
        color=line_style(index).colour if curve.run else BLACK,
        linestyle=DOTTED,
        linewidth=1.0,
        marker=".",
        markersize=2.5,
        zorder=1.8,
        label=f"{shortened(name, 34)}, k = 1 to {curve.points[-1].k}",
    )
    return line


def _draw_point(axes: Axes, point: SystemPoint, *, index: int, is_alone: bool) -> str:
    """Draw a system, filled on the front and hollow below it, and return its colour.

    Runs differ in colour and marker; within a single run the reference is a diamond.
    """
    colour, marker = line_style(index).colour, line_style(index).marker
    if is_alone:
        colour, marker = (VERMILLION, "D") if point.is_reference else (BLUE if point.is_on_front else GRAY, "o")
    if point.error is not None:
        axes.errorbar([point.x], [point.accuracy], yerr=[point.error], fmt="none", ecolor=colour, elinewidth=0.7)
    (mark,) = axes.plot(
        [point.x],
        [point.accuracy],
        marker=marker,
        color=colour,
        markerfacecolor=colour if point.is_on_front else WHITE,
        markersize=5.0,
        zorder=3.5 if point.is_reference else 3,
    )
    error = "" if point.error is None else f" ± {share_text(point.error)}"
    name = f"{point.run}: {point.title}" if point.run else point.title
    tooltip(mark, f"{name}: {share_text(point.accuracy)}{error} %; {axis_count(round(point.x))}")
    return colour


def _label_points(figure: Figure, axes: Axes, points: Sequence[SystemPoint], colours: Sequence[str]) -> None:
    """Write the labels in a column at the right, as high as their points where there is room, with a line to each."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    line = LINE_HEIGHT / (72 * figure.get_figheight() * 0.72)
    order = sorted(range(len(points)), key=lambda index: (-points[index].accuracy, points[index].x))
    heights: list[float] = []
    for index in order:
        wanted = (points[index].accuracy - low) / (high - low)
        heights.append(min(wanted, heights[-1] - line) if heights else wanted)
    # Labels that were pushed below the axes push those above them up again.
    floor = 0.0
    for index in reversed(range(len(heights))):
        heights[index] = max(heights[index], floor)
        floor = heights[index] + line
    for index, height in zip(order, heights, strict=True):
        point = points[index]
        leader = {"arrowstyle": "-", "color": LIGHT_GRAY, "linewidth": 0.4, "shrinkA": 1, "shrinkB": 4}
        axes.annotate(
            shortened(point.title, LONGEST_LABEL),
            xy=(point.x, point.accuracy),
            xytext=(1.03, height),
            textcoords="axes fraction",
            size=SMALL,
            va="center",
            color=colours[index] if point.is_reference or point.run else BLACK,
            weight="bold" if point.is_reference else "normal",
            arrowprops={**leader, "relpos": (0, 0.5)},
            zorder=1,
        )
