"""Systems beside each other: accuracy against parameters or tokens, and all against all over seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from mada.evaluation.grid import MEASURES, Grid, Measure
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import ROUNDING, Comparison, estimate, welch
from mada.evaluation.summary import AtK, SampleCurve, at_k
from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    LIGHT_GRAY,
    SMALL,
    TINY,
    TWO_COLUMNS,
    VERMILLION,
    WHITE,
    Drawn,
    line_style,
    percent_axis,
    tooltip,
)
from mada.report.numbers import numbered_titles, p_text, points_text, share_text
from mada.report.reading import Source, evaluated
from mada.text import excerpt

LINE_HEIGHT = 9.5
"""Height of a label in points of print."""
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
    is_on_front: bool = False
    """Whether no other is at least as good and at most as expensive, and one of the two strictly (Pareto)."""


@dataclass(frozen=True, slots=True)
class VoteCurve:
    """Majority votes of one agent's samples (maj@k), k = 1, 2, …, and the tokens of one sample."""

    run: str
    agent: str
    tokens: float
    points: Sequence[AtK]


def parameters_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw mean answers against trained parameters (the paper's figure); None where no system has any."""
    points = _system_points(sources, lambda _, system: system.parameters, measure="mean")
    if not any(point.x > 0 for point in points):
        return None
    return _draw_points(points, (), label="Trained parameters", measure="Right answers of the last round (%)")


def tokens_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw right verdicts against generated tokens per question, and votes at as many; None before an evaluation."""
    points = _system_points(
        sources, lambda grid, system: grid.average(system, lambda score: score.generated_tokens), measure="verdict"
    )
    curves: list[VoteCurve] = []
    for run, grid in evaluated(sources):
        # One curve per agent, the first of those with most samples: votes under several budgets share samples.
        agents: dict[str, SampleCurve] = {}
        for curve in at_k(grid):
            agent = curve.system.generators[0]
            if agent not in agents or curve.points[-1].k > agents[agent].points[-1].k:
                agents[agent] = curve
        for agent, curve in agents.items():
            tokens = grid.average(curve.system, lambda score: fmean(score.tokens[0]))
            curves.append(VoteCurve(run, agent, tokens, curve.points))
    if not points:
        return None
    return _draw_points(points, curves, label="Generated tokens per question", measure="Right verdicts (%)")


def with_front(points: Sequence[SystemPoint]) -> tuple[SystemPoint, ...]:
    """Mark the Pareto front: points that no other beats. Equal points are on it together."""

    def beats(other: SystemPoint, point: SystemPoint) -> bool:
        # Averages of the same answers may differ by rounding alone, which is no advantage.
        better = other.accuracy - point.accuracy
        return (other.x < point.x and better >= -ROUNDING) or (other.x == point.x and better > ROUNDING)

    return tuple(replace(point, is_on_front=not any(beats(other, point) for other in points)) for point in points)


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
    grids = evaluated(sources)
    titles = numbered_titles(grid.plan for _, grid in grids)
    points: list[SystemPoint] = []
    for run, grid in grids:
        for system in grid.plan.shown_systems:
            x = cost(grid, system)
            if x is not None:
                average = estimate(grid.seed_averages(system, MEASURES[measure]))
                measured = float(x), average.mean, average.standard_error
                is_reference = system.name == grid.plan.reference
                points.append(SystemPoint(run, system.name, titles[system.name], *measured, is_reference))
    return with_front(points)


def _draw_points(points: Sequence[SystemPoint], curves: Sequence[VoteCurve], *, label: str, measure: str) -> Drawn:
    height = max(3.2, (len(points) + 5) * LINE_HEIGHT / 72)
    figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(label)
    axes.set_ylabel(measure)
    percent_axis(axes)
    votes = [at.k * curve.tokens for curve in curves for at in curve.points]
    _set_scale(axes, [*(point.x for point in points), *votes])
    runs = list(dict.fromkeys([*(point.run for point in points), *(curve.run for curve in curves)]))
    handles: list[Line2D] = []
    for curve in curves:
        name = f"{curve.run}: votes of {curve.agent}" if curve.run else f"votes of {curve.agent}"
        handles += axes.plot(
            [at.k * curve.tokens for at in curve.points],
            [at.majority.mean for at in curve.points],
            color=line_style(runs.index(curve.run)).colour if curve.run else BLACK,
            linestyle=DOTTED,
            linewidth=1.0,
            marker=".",
            markersize=2.5,
            zorder=1.8,
            label=f"{excerpt(name, 34)}, k = 1 to {curve.points[-1].k}",
        )
    if len(handles) > MOST_CURVES:
        # The colours of the runs then tell the curves apart.
        handles = [Line2D([], [], color=GRAY, linestyle=DOTTED, linewidth=1.0, label="votes of k = 1, 2, … samples")]
    front = sorted((point.x, point.accuracy) for point in points if point.is_on_front)
    if len(front) > 1:
        look: dict[str, Any] = {"drawstyle": "steps-post", "color": GRAY, "linewidth": 0.9, "zorder": 1.5}
        handles += axes.plot(*zip(*front, strict=True), label="Pareto front", **look)
    colours = [_draw_point(axes, point, index=runs.index(point.run), is_alone=len(runs) == 1) for point in points]
    for style, run in ((line_style(index), run) for index, run in enumerate(runs) if len(runs) > 1):
        handle = Line2D([], [], color=style.colour, marker=style.marker, linestyle="", label=excerpt(run, 30))
        handles.append(handle)
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.2, handletextpad=0.5)
    _label_points(figure, axes, points, colours)
    systems = [
        {"run": one.run, "name": one.name, "title": one.title, "x": one.x, "accuracy": one.accuracy, "error": one.error}
        for one in points
    ]
    of_votes = [
        {"run": curve.run, "title": f"votes of {curve.agent}", "k": at.k, "tokens": at.k * curve.tokens}
        | {"accuracy": at.majority.mean, "error": at.majority.standard_error}
        for curve in curves
        for at in curve.points
    ]
    return Drawn(figure, {"points": systems, "curves": of_votes})


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
    leader = {"arrowstyle": "-", "color": LIGHT_GRAY, "linewidth": 0.4, "shrinkA": 1, "shrinkB": 4}
    for index, height in zip(order, heights, strict=True):
        point = points[index]
        axes.annotate(
            excerpt(point.title, 34),
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


MOST_NUMBERED = 16
"""More systems than that leave no room for numbers; a sign then says which way a difference goes."""
LABELS = 2.2
"""Inches for the labels on the left."""


def pairs_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw the matrix of all shown systems of all runs, verdict against verdict; None where there are less than two.

    Several runs make one matrix if they were evaluated on the same problems, and none otherwise: a difference between
    accuracies on different problems would say nothing. Welch's test needs no pairs, so seeds may differ.
    """
    grids = evaluated(sources)
    if any(dict(grid.problems) != dict(grids[0][1].problems) for _, grid in grids):
        return None
    # Titles need not be different, indices are.
    shown = [(run, grid, system) for run, grid in grids for system in grid.plan.shown_systems]
    if len(shown) < 2:
        return None
    titles = [f"{run}: {system.title}" if run else system.title for run, _, system in shown]
    averages = [grid.seed_averages(system, MEASURES["verdict"]) for _, grid, system in shown]
    cells = {
        (row, column): welch(averages[row], averages[column]) for row, column in permutations(range(len(shown)), 2)
    }
    values = [
        {"row": titles[row], "column": titles[column], "difference": cell.difference, "p": cell.p}
        for (row, column), cell in cells.items()
        if column < row
    ]
    return Drawn(draw_pairs(titles, cells), {"pairs": values})


def draw_pairs(titles: Sequence[str], cells: Mapping[tuple[int, int], Comparison]) -> Figure:
    """Draw the matrix of differences, row minus column: blue is better, red worse."""
    count = len(titles)
    side = min((TWO_COLUMNS - LABELS) / count, 0.42)
    figure = Figure(figsize=(LABELS + side * count, side * count + 0.6), layout="constrained")
    axes = figure.add_subplot()
    limit = max((abs(cell.difference) for cell in cells.values() if cell.stars), default=0.0)
    for row, column in product(range(count), repeat=2):
        cell, colour, opacity = cells.get((row, column)), WHITE, 0.5
        if cell is None:
            colour = LIGHT_GRAY
        elif cell.stars:
            colour = BLUE if cell.difference > 0 else VERMILLION
            # Light enough for text, on white paper and on black.
            opacity = 0.15 + 0.35 * abs(cell.difference) / limit
        square = Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, alpha=opacity, linewidth=0)
        axes.add_patch(square)
        if cell is None:
            continue
        p = "" if cell.p is None else f", p {p_text(cell.p)}"
        tooltip(square, f"{titles[row]} minus {titles[column]}: {points_text(cell.difference)}{p}")
        text = ("+" if cell.difference > 0 else "−") if cell.stars else ""
        if count <= MOST_NUMBERED:
            text = f"{points_text(cell.difference)}\n{cell.stars}".rstrip()
        ink = BLACK if cell.stars else GRAY
        written = axes.text(column, row, text, size=TINY, color=ink, ha="center", va="center", linespacing=0.9)
        # Text inside a cell never needs more room; measuring hundreds of them is slow.
        written.set_in_layout(False)
    size = SMALL if count <= 2 * MOST_NUMBERED else TINY * 2 * MOST_NUMBERED / count
    labels = [f"{number} {excerpt(title, 38)}" for number, title in enumerate(titles, 1)]
    axes.set_yticks(range(count), labels, size=size)
    axes.set_xticks(range(count), [str(number) for number in range(1, count + 1)], size=size)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("Row minus column (points); coloured: p < 0.05")
    return figure
