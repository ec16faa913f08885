"""How figures look in print: sizes, letters, colours, marks; and a drawn figure as the bytes of its files.

Every distinction is made twice, by a colour that the colour-blind can tell (Okabe and Ito's) and by a marker, a dash
or a hatching, so that a figure says the same when it is printed in black. There are no titles: a caption has them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mada.report.figures.lettering import FONTS

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches: figures are drawn at the size at which they are printed, so 8 points are 8 points."""
DOTS_PER_INCH = 200

BLACK, GRAY, LIGHT_GRAY = "#000000", "#707070", "#D9D9D9"
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY_BLUE, PURPLE = "#56B4E9", "#CC79A7"
RIGHT, WRONG = BLUE, ORANGE
"""Right answers and wrong ones: the two of the palette that differ most in lightness too."""

SMALL, TINY = 7.0, 6.0

_STYLE: dict[str, Any] = {
    "font.family": list(FONTS),
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "mathtext.fontset": "stix",
    "axes.linewidth": 0.6,
    "axes.edgecolor": GRAY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.borderaxespad": 0.2,
    "hatch.linewidth": 0.4,
    "figure.dpi": 72.0,
    "savefig.dpi": DOTS_PER_INCH,
    # Type 42 are whole letters, which journals ask for and editors can search and change.
    "pdf.fonttype": 42,
    "text.hinting": "none",
    "text.usetex": False,
    "path.simplify": True,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several things is told from the others."""

    colour: str
    marker: str
    dash: Literal["-", "--", "-."] | tuple[int, tuple[float, ...]]


_LOOKS = (
    Look(BLUE, "o", "-"),
    Look(VERMILLION, "s", (0, (4, 1.5))),
    Look(GREEN, "^", (0, (1, 1))),
    Look(PURPLE, "D", (0, (5, 1.5, 1, 1.5))),
    Look(ORANGE, "v", (0, (2.5, 1))),
    Look(SKY_BLUE, "P", (0, (5, 1, 1, 1, 1, 1))),
    Look(BLACK, "X", (0, (7, 2))),
)


def look(place: int) -> Look:
    """Return the look of the thing at a place; colours, markers and dashes come again after the last."""
    return _LOOKS[place % len(_LOOKS)]


@contextmanager
def print_style() -> Generator[None]:
    """Draw the way it is meant for print, whatever the reader's own settings of matplotlib are; they are kept."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches that finds room for its letters; pyplot knows nothing of it."""
    return Figure(figsize=(width, height), layout="constrained")


def panels(
    count: int, *, most_per_row: int, height: float, in_column: int = 1, label: str = ""
) -> tuple[Figure, list[Axes]]:
    """Return a figure of equal panels side by side, in as many rows as they need, all with the same height of values.

    As many panels as `in_column` says fit into one column; more take the width of the page. The label is
    that of the values, written beside the first of each row.
    """
    columns = min(count, most_per_row)
    rows = -(-count // columns)
    figure = new_figure(ONE_COLUMN if count <= in_column else TWO_COLUMNS, height * rows)
    grid = figure.subplots(rows, columns, sharex=False, sharey=True, squeeze=False)
    flat = [axes for row in grid for axes in row]
    for axes in flat[count:]:
        axes.remove()
    for axes in flat[:count:columns]:
        axes.set_ylabel(label)
    return figure, flat[:count]


def percent_axis(axes: Axes, which: Literal["x", "y"] = "y") -> None:
    """Write an axis of shares in percent; the label of the axis says so."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}".replace("-", "−")))


def settle(figure: Figure) -> None:
    """Lay a figure out for good, so that all its files, and what is placed in it by measure, agree to the point."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def picture_bytes(figure: Figure, form: Literal["pdf", "png"]) -> bytes:
    """Return a figure as a file's content; the same figure gives the same bytes, so there are no dates in it."""
    metadata: dict[str, None] = (
        {"Software": None} if form == "png" else {"Creator": None, "Producer": None, "CreationDate": None}
    )
    buffer = BytesIO()
    figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()
