"""Drawing systems by their cost: accuracy against parameters or tokens, with the Pareto front and curves of votes."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from mada.report.figures.data import ParametersFigure, SystemPoint, TokensFigure, VoteCurve
from mada.report.figures.draw_names import PointName, write_names
from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    ONE_COLUMN,
    SMALL,
    TINY,
    TWO_COLUMNS,
    VERMILLION,
    look,
    new_figure,
    percent_axis,
)
from mada.report.figures.lettering import shortened, wrapped

FEW = 8
"""So many names find room in a column."""
MANY = 20
"""From so many on their letters are smaller."""
MOST_CURVES = 4
"""More curves of votes than that have one entry in the legend between them."""
DOTTED = (0, (1, 1.2))
SPAN_OF_A_LINE = 12.0
"""Costs that differ by more than that factor are shown on a logarithmic axis."""


def draw_parameters(data: ParametersFigure) -> Figure:
    """Draw accuracy against trained parameters."""
    figure, axes = _figure(data.points)
    _scale(axes, [point.x for point in data.points])
    axes.set_xlabel("Trained parameters")
    _draw_systems(figure, axes, data.points, curves=())
    return figure


def draw_tokens(data: TokensFigure) -> Figure:
    """Draw accuracy against generated tokens per question, and what votes reach for as many."""
    figure, axes = _figure(data.points)
    _scale(axes, [*(point.x for point in data.points), *(at.tokens for curve in data.curves for at in curve.points)])
    axes.set_xlabel("Generated tokens per question")
    _draw_systems(figure, axes, data.points, curves=data.curves)
    return figure


def _figure(points: Sequence[SystemPoint]) -> tuple[Figure, Axes]:
    few = len(points) <= FEW
    figure = new_figure(ONE_COLUMN if few else TWO_COLUMNS, 2.7 if few else 3.4 + 0.03 * min(len(points), 40))
    axes = figure.add_subplot()
    axes.set_ylabel("Accuracy (%)")
    percent_axis(axes)
    return figure, axes


def _scale(axes: Axes, costs: Sequence[float]) -> None:
    """Choose a scale that shows small costs beside large ones; what costs nothing has its place on it too."""
    positive = [cost for cost in costs if cost > 0]
    spread = max(positive) / min(positive) if positive else 1.0
    if spread > SPAN_OF_A_LINE and len(positive) == len(costs):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif spread > SPAN_OF_A_LINE:
        axes.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
        powers = range(math.ceil(math.log10(min(positive))), math.floor(math.log10(max(positive))) + 1)
        axes.set_xticks([0, *(10.0**power for power in powers)])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: count_text(cost)))
    axes.margins(x=0.08, y=0.12)


def count_text(count: float) -> str:
    """Return a count as axes write it: `500`, `200k`, `1.5M`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size and (letter != "k" or count >= 10_000):
            return f"{count / size:.6g}{letter}"
    return f"{count:,.6g}"


def _draw_systems(figure: Figure, axes: Axes, points: Sequence[SystemPoint], *, curves: Sequence[VoteCurve]) -> None:
    runs = list(dict.fromkeys([*(point.run for point in points), *(curve.run for curve in curves)]))
    front = sorted((point for point in points if point.is_on_front), key=lambda point: (point.x, point.accuracy))
    handles: list[Line2D] = []
    for curve in curves:
        handles.append(_draw_curve(axes, curve, place=runs.index(curve.run)))
    if len(handles) > MOST_CURVES:
        # The colours of the runs then tell the curves apart.
        handles = [Line2D([], [], color=GRAY, linestyle=DOTTED, linewidth=1.0, label="votes of k = 1, 2, … samples")]
    if len(front) > 1:
        xs, ys = [point.x for point in front], [point.accuracy for point in front]
        handles += axes.plot(
            xs, ys, drawstyle="steps-post", color=GRAY, linewidth=0.9, zorder=1.5, label="Pareto front (full marks)"
        )
    for point in points:
        _draw_point(axes, point, place=runs.index(point.run), alone=len(runs) == 1)
    if len(runs) == 1:
        handles += [_reference_handle(point) for point in points if point.is_reference]
    else:
        handles += [_run_handle(run, place) for place, run in enumerate(runs)]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=2 if figure.get_figwidth() < TWO_COLUMNS else 4,
        columnspacing=1.2,
        handletextpad=0.5,
    )
    write_names(
        figure,
        axes,
        [
            _label(
                point, few=len(points) <= FEW, colour=BLACK if len(runs) == 1 else look(runs.index(point.run)).colour
            )
            for point in points
        ],
        size=SMALL if len(points) <= MANY else TINY,
        lines=_lines(front, curves),
    )


def _draw_curve(axes: Axes, curve: VoteCurve, *, place: int) -> Line2D:
    name = f"{curve.run}: {curve.title}" if curve.run else curve.title
    xs, ys = [at.tokens for at in curve.points], [at.accuracy for at in curve.points]
    (line,) = axes.plot(
        xs,
        ys,
        color=look(place).colour if curve.run else BLACK,
        linestyle=DOTTED,
        linewidth=1.0,
        marker=".",
        markersize=2.5,
        zorder=1.8,
        label=f"{shortened(name, 34)}, k = 1 to {curve.points[-1].k}",
    )
    return line


def _draw_point(axes: Axes, point: SystemPoint, *, place: int, alone: bool) -> None:
    """Draw a system: full on the front and hollow below it; of one run, the reference is a diamond."""
    if alone:
        colour = VERMILLION if point.is_reference else BLUE if point.is_on_front else GRAY
        marker = "D" if point.is_reference else "o"
    else:
        colour, marker = look(place).colour, look(place).marker
    axes.errorbar(
        [point.x],
        [point.accuracy],
        yerr=None if point.error is None else [point.error],
        fmt=marker,
        color=colour,
        markerfacecolor=colour if point.is_on_front else "white",
        markeredgewidth=1.0,
        markersize=5.0 if point.is_reference else 4.5,
        elinewidth=0.7,
        capsize=1.5,
        capthick=0.7,
        zorder=3.5 if point.is_reference else 3,
    )


def _reference_handle(point: SystemPoint) -> Line2D:
    face = VERMILLION if point.is_on_front else "white"
    return Line2D(
        [], [], color=VERMILLION, marker="D", markersize=5.0, markerfacecolor=face, linestyle="", label="reference"
    )


def _run_handle(run: str, place: int) -> Line2D:
    own = look(place)
    return Line2D([], [], color=own.colour, marker=own.marker, linestyle="", label=shortened(run, 30))


def _label(point: SystemPoint, *, few: bool, colour: str) -> PointName:
    return PointName(
        text=wrapped(point.title, 18 if few else 24),
        x=point.x,
        y=point.accuracy,
        error=point.error or 0.0,
        is_bold=point.is_reference,
        colour=colour,
    )


def _lines(front: Sequence[SystemPoint], curves: Sequence[VoteCurve]) -> list[list[tuple[float, float]]]:
    """Return the corners of all lines, which names should not be written upon."""
    steps: list[tuple[float, float]] = []
    for point in front:
        if steps:
            steps.append((point.x, steps[-1][1]))
        steps.append((point.x, point.accuracy))
    return [steps, *([(at.tokens, at.accuracy) for at in curve.points] for curve in curves)]
