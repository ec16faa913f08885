"""Drawing systems by their cost: accuracy against parameters or tokens, with the Pareto front and curves of votes.

Names stand in a column at the right, as high as their points as far as there is room, with a thin line to each.
"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from mada.report.figures.data import ParametersFigure, SystemPoint, TokensFigure, VoteCurve
from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    LIGHT_GRAY,
    SMALL,
    TWO_COLUMNS,
    VERMILLION,
    WHITE,
    look,
    new_figure,
    percent_axis,
    tip,
)
from mada.report.figures.lettering import shortened
from mada.report.numbers import share_text

LINE = 9.5
"""Height of a name in points of print."""
LONGEST_NAME = 34
MOST_CURVES = 4
"""More curves of votes than that have one entry in the legend between them."""
DOTTED = (0, (1, 1.2))
SPAN_OF_A_LINE = 12.0
"""Costs that differ by more than that factor are shown on a logarithmic axis."""


def draw_parameters(data: ParametersFigure) -> Figure:
    """Draw mean answers against trained parameters."""
    return _draw(data.points, (), label="Trained parameters", measure="Right answers of the last round (%)")


def draw_tokens(data: TokensFigure) -> Figure:
    """Draw right verdicts against generated tokens per question, and what votes reach for as many."""
    return _draw(data.points, data.curves, label="Generated tokens per question", measure="Right verdicts (%)")


def _draw(points: Sequence[SystemPoint], curves: Sequence[VoteCurve], *, label: str, measure: str) -> Figure:
    figure = new_figure(TWO_COLUMNS, max(3.2, (len(points) + 5) * LINE / 72))
    axes = figure.add_subplot()
    axes.set_xlabel(label)
    axes.set_ylabel(measure)
    percent_axis(axes)
    _scale(axes, [*(point.x for point in points), *(at.tokens for curve in curves for at in curve.points)])
    runs = list(dict.fromkeys([*(point.run for point in points), *(curve.run for curve in curves)]))
    front = sorted((point for point in points if point.is_on_front), key=lambda point: (point.x, point.accuracy))
    handles = [_draw_curve(axes, curve, place=runs.index(curve.run)) for curve in curves]
    if len(handles) > MOST_CURVES:
        # The colours of the runs then tell the curves apart.
        handles = [Line2D([], [], color=GRAY, linestyle=DOTTED, linewidth=1.0, label="votes of k = 1, 2, … samples")]
    if len(front) > 1:
        xs, ys = [point.x for point in front], [point.accuracy for point in front]
        handles += axes.plot(
            xs, ys, drawstyle="steps-post", color=GRAY, linewidth=0.9, zorder=1.5, label="Pareto front"
        )
    looks = [_look(point, place=runs.index(point.run), alone=len(runs) == 1) for point in points]
    for point, (colour, marker) in zip(points, looks, strict=True):
        _draw_point(axes, point, colour=colour, marker=marker)
    if len(runs) > 1:
        handles += [
            Line2D([], [], color=look(k).colour, marker=look(k).marker, linestyle="", label=shortened(run, 30))
            for k, run in enumerate(runs)
        ]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.2, handletextpad=0.5)
    _write_names(figure, axes, points, [colour for colour, _ in looks])
    return figure


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
    axes.margins(x=0.05, y=0.08)


def count_text(count: float) -> str:
    """Return a count as axes write it: `500`, `200k`, `1.5M`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size and (letter != "k" or count >= 10_000):
            return f"{count / size:.6g}{letter}"
    return f"{count:,.6g}"


def _draw_curve(axes: Axes, curve: VoteCurve, *, place: int) -> Line2D:
    name = f"{curve.run}: {curve.title}" if curve.run else curve.title
    (line,) = axes.plot(
        [at.tokens for at in curve.points],
        [at.accuracy for at in curve.points],
        color=look(place).colour if curve.run else BLACK,
        linestyle=DOTTED,
        linewidth=1.0,
        marker=".",
        markersize=2.5,
        zorder=1.8,
        label=f"{shortened(name, 34)}, k = 1 to {curve.points[-1].k}",
    )
    return line


def _look(point: SystemPoint, *, place: int, alone: bool) -> tuple[str, str]:
    """Return colour and marker: runs differ in both; of one run, the reference is a diamond."""
    if not alone:
        return look(place).colour, look(place).marker
    return (VERMILLION, "D") if point.is_reference else (BLUE if point.is_on_front else GRAY, "o")


def _draw_point(axes: Axes, point: SystemPoint, *, colour: str, marker: str) -> None:
    """Draw a system: full on the front and hollow below it."""
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
    tip(mark, f"{name}: {share_text(point.accuracy)}{error} %; {count_text(round(point.x))}")


def _write_names(figure: Figure, axes: Axes, points: Sequence[SystemPoint], colours: Sequence[str]) -> None:
    """Write the names at the right, from the highest point to the lowest, each pushed down by those above it."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    line = LINE / (72 * figure.get_figheight() * 0.72)
    order = sorted(range(len(points)), key=lambda place: (-points[place].accuracy, points[place].x))
    heights: list[float] = []
    for place in order:
        wanted = (points[place].accuracy - low) / (high - low)
        heights.append(min(wanted, heights[-1] - line) if heights else wanted)
    # Those that were pushed over the lower edge push back.
    floor = 0.0
    for place in reversed(range(len(heights))):
        heights[place] = max(heights[place], floor)
        floor = heights[place] + line
    for place, height in zip(order, heights, strict=True):
        point = points[place]
        axes.annotate(
            shortened(point.title, LONGEST_NAME),
            xy=(point.x, point.accuracy),
            xytext=(1.03, height),
            textcoords="axes fraction",
            size=SMALL,
            va="center",
            color=colours[place] if point.is_reference or point.run else BLACK,
            weight="bold" if point.is_reference else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": LIGHT_GRAY,
                "linewidth": 0.4,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
            zorder=1,
        )
