"""Drawing all comparisons as a map: who is better than whom, coloured only where it is more than chance."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mada.report.figures.data import PairCell, PairsFigure
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
    tip,
)
from mada.report.figures.lettering import shortened
from mada.report.numbers import p_text, points_text

LEVEL = 0.05
"""From this p on a difference is not coloured."""
MOST_NUMBERED = 16
"""More systems than that leave no room for numbers; a sign then says which way a difference goes."""
NAMES = 2.2
"""Inches for the names on the left."""


def draw_pairs(data: PairsFigure) -> Figure:
    """Draw the matrix of differences, row minus column: blue is better, red worse."""
    count = len(data.systems)
    side = min((TWO_COLUMNS - NAMES) / count, 0.42)
    figure = new_figure(NAMES + side * count, side * count + 0.6)
    axes = figure.add_subplot()
    limit = max((abs(cell.difference) for row in data.cells for cell in row if cell and _is_clear(cell)), default=0.0)
    for row, cells in enumerate(data.cells):
        for column, cell in enumerate(cells):
            _draw_cell(axes, (row, column), cell, data=data, limit=limit)
    size = SMALL if count <= 2 * MOST_NUMBERED else TINY * 2 * MOST_NUMBERED / count
    names = [f"{place} {shortened(title, 38)}" for place, title in enumerate(data.systems, 1)]
    axes.set_yticks(range(count), names, size=size)
    axes.set_xticks(range(count), [str(place) for place in range(1, count + 1)], size=size)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("Row minus column (points); coloured: p < 0.05")
    return figure


def _is_clear(cell: PairCell) -> bool:
    return cell.p is not None and cell.p < LEVEL


def _draw_cell(axes: Axes, place: tuple[int, int], cell: PairCell | None, *, data: PairsFigure, limit: float) -> None:
    row, column = place
    clear = cell is not None and _is_clear(cell)
    axes.add_patch(
        square := Rectangle(
            (column - 0.5, row - 0.5),
            1,
            1,
            facecolor=LIGHT_GRAY if cell is None else (BLUE if cell.difference > 0 else VERMILLION) if clear else WHITE,
            # Light enough for letters upon it, on white paper and on black.
            alpha=0.15 + 0.35 * abs(cell.difference) / limit if cell and clear else 0.5,
            linewidth=0,
        )
    )
    if cell is None:
        return
    p = "" if cell.p is None else f", p {p_text(cell.p)}"
    tip(square, f"{data.systems[row]} minus {data.systems[column]}: {points_text(cell.difference)}{p}")
    if len(data.systems) <= MOST_NUMBERED:
        text = f"{points_text(cell.difference)}\n{cell.stars}".rstrip()
    else:
        text = ("+" if cell.difference > 0 else "−") if clear else ""
    ink = BLACK if clear else GRAY
    written = axes.text(column, row, text, size=TINY, color=ink, ha="center", va="center", linespacing=0.9)
    # What is inside a cell never needs more room; asking hundreds of them is slow.
    written.set_in_layout(False)
