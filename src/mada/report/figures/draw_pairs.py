"""Drawing all comparisons as a map: who is better than whom, coloured only where it is more than chance."""

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mada.report.figures.data import PairCell, PairsFigure
from mada.report.figures.drawing import BLACK, BLUE, GRAY, ONE_COLUMN, SMALL, TINY, TWO_COLUMNS, new_figure
from mada.report.figures.lettering import shortened
from mada.report.numbers import points_text

LEVEL = 0.05
"""From this p on a difference is not coloured."""
MOST_NUMBERED = 12
"""More systems than that leave no room for numbers; a sign then says which way a difference goes."""
FEW = 6
"""So many systems fit into one column."""
KEY = 0.6
"""Inches for the key of the colours."""
LOWEST = 1.8
"""Inches that the key's label needs, however few systems there are."""
EDGE = "#C8C8C8"
COLOURS = LinearSegmentedColormap.from_list("differences", ["#B8341B", "#FFFFFF", BLUE])
"""Blue is better and red is worse, with white between: a pair that the colour-blind can tell."""


def draw_pairs(data: PairsFigure) -> Figure:
    """Draw the matrix of differences, row minus column."""
    count = len(data.systems)
    one_column = count <= FEW
    width = ONE_COLUMN if one_column else TWO_COLUMNS
    named = 1.25 if one_column else 1.9
    # The cells are square; what is left of the width is for names on the left and the colours' key on the right.
    side = min((width - named - KEY) / count, 0.42)
    figure = new_figure(named + side * count + KEY, max(side * count + 0.5, LOWEST))
    axes = figure.add_subplot()
    limit = max((abs(cell.difference) for row in data.cells for cell in row if cell and _is_clear(cell)), default=0.0)
    scale = Normalize(-100 * (limit or 0.01), 100 * (limit or 0.01))
    for row, cells in enumerate(data.cells):
        for column, cell in enumerate(cells):
            _draw_cell(axes, row, column, cell, scale=scale, numbered=count <= MOST_NUMBERED)
    size = SMALL if count <= 2 * MOST_NUMBERED else TINY * 2 * MOST_NUMBERED / count
    names = [f"{shortened(title, 24 if one_column else 40)}  {place}" for place, title in enumerate(data.systems, 1)]
    axes.set_yticks(range(count), names, size=size)
    axes.set_xticks(range(count), [str(place) for place in range(1, count + 1)], size=size)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    if limit:
        bar = figure.colorbar(ScalarMappable(scale, COLOURS), ax=axes, shrink=0.9, aspect=25, pad=0.02)
        bar.set_label("Row minus column (points)")
        bar.outline.set_linewidth(0.4)
        bar.ax.tick_params(size=2)
    else:
        axes.set_xlabel("Row minus column (points)")
    return figure


def _is_clear(cell: PairCell) -> bool:
    return cell.p is not None and cell.p < LEVEL


def _draw_cell(axes: Axes, row: int, column: int, cell: PairCell | None, *, scale: Normalize, numbered: bool) -> None:
    corner = (column - 0.5, row - 0.5)
    if cell is None:
        axes.add_patch(Rectangle(corner, 1, 1, facecolor="#EDEDED", edgecolor=EDGE, linewidth=0.4))
        return
    clear = _is_clear(cell)
    colour = COLOURS(scale(100 * cell.difference)) if clear else "white"
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=EDGE, linewidth=0.4))
    dark = clear and abs(scale(100 * cell.difference) - 0.5) > 0.33
    ink = "white" if dark else BLACK if clear else GRAY
    if numbered:
        text = f"{points_text(cell.difference)}\n{cell.stars}".rstrip()
    else:
        text = ("+" if cell.difference > 0 else "−") if clear else ""
    written = axes.text(column, row, text, size=TINY, color=ink, ha="center", va="center", linespacing=0.9)
    # What is inside a cell never needs more room; asking hundreds of them is slow.
    written.set_in_layout(False)
