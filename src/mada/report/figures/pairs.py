"""Every system against every other over seeds, coloured where a difference is more than chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mada.evaluation.grid import MEASURES
from mada.evaluation.statistics import Comparison, compare_all
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
    new_figure,
    shortened,
    tooltip,
)
from mada.report.numbers import p_text, points_text
from mada.report.reading import Source, run_title

LEVEL = 0.05
"""From this p on a difference is not coloured."""
MOST_NUMBERED = 16
"""More systems than that leave no room for numbers; a sign then says which way a difference goes."""
LABELS = 2.2
"""Inches for the labels on the left."""


@dataclass(frozen=True)
class PairsFigure:
    """Verdict against verdict: `cells[row][column]` is row minus column, None on the diagonal."""

    name: ClassVar = "pairs"
    systems: tuple[str, ...]
    cells: tuple[tuple[Comparison | None, ...], ...]


def pairs_figure(sources: Sequence[Source]) -> PairsFigure | None:
    """Return the matrix of all shown systems of all runs; None where there are less than two.

    Several runs make one matrix if they were evaluated on the same problems, and none otherwise: a difference between
    accuracies on different problems would say nothing. Welch's test needs no pairs, so seeds may differ.
    """
    evaluated = [(run_title(source, sources), source.grid) for source in sources if source.grid]
    if any(dict(grid.problems) != dict(evaluated[0][1].problems) for _, grid in evaluated):
        return None
    titles: list[str] = []
    averages: dict[str, list[float]] = {}
    for run, grid in evaluated:
        for system in grid.plan.shown_systems:
            # Titles need not be different, indices are.
            averages[str(len(titles))] = grid.seed_averages(system, MEASURES["verdict"])
            titles.append(f"{run}: {system.title}" if run else system.title)
    if len(titles) < 2:
        return None
    comparisons = compare_all(averages)
    cells = (tuple(None if row == column else comparisons[row, column] for column in averages) for row in averages)
    return PairsFigure(tuple(titles), tuple(cells))


def draw_pairs(data: PairsFigure) -> Figure:
    """Draw the matrix of differences, row minus column: blue is better, red worse."""
    count = len(data.systems)
    side = min((TWO_COLUMNS - LABELS) / count, 0.42)
    figure = new_figure(LABELS + side * count, side * count + 0.6)
    axes = figure.add_subplot()
    limit = max((abs(cell.difference) for row in data.cells for cell in row if _is_clear(cell) and cell), default=0.0)
    for row, cells in enumerate(data.cells):
        for column, cell in enumerate(cells):
            _draw_cell(axes, row, column, cell, systems=data.systems, limit=limit)
    size = SMALL if count <= 2 * MOST_NUMBERED else TINY * 2 * MOST_NUMBERED / count
    labels = [f"{number} {shortened(title, 38)}" for number, title in enumerate(data.systems, 1)]
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


def _is_clear(cell: Comparison | None) -> bool:
    return cell is not None and cell.p is not None and cell.p < LEVEL


def _draw_cell(
    axes: Axes, row: int, column: int, cell: Comparison | None, *, systems: Sequence[str], limit: float
) -> None:
    colour, opacity = LIGHT_GRAY, 0.5
    if cell is not None:
        is_clear = _is_clear(cell)
        colour = (BLUE if cell.difference > 0 else VERMILLION) if is_clear else WHITE
        # Light enough for text, on white paper and on black.
        opacity = 0.15 + 0.35 * abs(cell.difference) / limit if is_clear else 0.5
    square = Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, alpha=opacity, linewidth=0)
    axes.add_patch(square)
    if cell is None:
        return
    p = "" if cell.p is None else f", p {p_text(cell.p)}"
    tooltip(square, f"{systems[row]} minus {systems[column]}: {points_text(cell.difference)}{p}")
    if len(systems) <= MOST_NUMBERED:
        text = f"{points_text(cell.difference)}\n{cell.stars}".rstrip()
    else:
        text = ("+" if cell.difference > 0 else "−") if _is_clear(cell) else ""
    ink = BLACK if _is_clear(cell) else GRAY
    written = axes.text(column, row, text, size=TINY, color=ink, ha="center", va="center", linespacing=0.9)
    # Text inside a cell never needs more room; measuring hundreds of them is slow.
    written.set_in_layout(False)
