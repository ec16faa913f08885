"""How figures look: sizes, letters, colours, marks; and a drawn figure as the bytes of its files or as part of a page.

Every distinction is made twice, by a colour that the colour-blind can tell (Okabe and Ito's) and by a marker, a dash
or a hatching, so that a figure says the same when it is printed in black. There are no titles: a caption has them.
"""

import html
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mada.report.figures.lettering import FONTS
from mada.text import printable

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches: figures are drawn at the size at which they are printed, so 8 points are 8 points."""
DOTS_PER_INCH = 200

BLACK, GRAY, LIGHT_GRAY, GRID, WHITE = "#000000", "#707070", "#D9D9D9", "#E6E6E6", "#ffffff"
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY_BLUE, PURPLE = "#56B4E9", "#CC79A7"
RIGHT, WRONG = BLUE, ORANGE
"""Right answers and wrong ones: the two of the palette that differ most in lightness too."""

SMALL, TINY = 6.5, 5.5

TIP = "tip:"
"""Begins the id of an artist that shows a text on the page when pointed at."""
ON_PAGE = {
    BLACK: "ink",
    GRAY: "muted",
    LIGHT_GRAY: "line",
    GRID: "line",
    WHITE: "paper",
    BLUE: "series-1",
    VERMILLION: "series-2",
    GREEN: "series-3",
    PURPLE: "series-4",
    ORANGE: "series-5",
    SKY_BLUE: "series-6",
}
"""The page's names for the colours, which it has a light and a dark version of."""

_STYLE: dict[str, Any] = {
    "font.family": list(FONTS),
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 7.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GRAY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
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
    "svg.fonttype": "none",
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


def tip(artist: Artist, text: str) -> None:
    """Show a text on the page when somebody points at this."""
    artist.set_gid(TIP + printable(text))


def picture_bytes(figure: Figure, form: Literal["pdf", "png", "svg"], *, transparent: bool = False) -> bytes:
    """Return a figure as a file's content; the same figure gives the same bytes, so there are no dates in it."""
    unnamed = {"pdf": ("Creator", "Producer", "CreationDate"), "png": ("Software",), "svg": ("Creator", "Date")}
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": form}):
        figure.savefig(buffer, format=form, metadata=dict.fromkeys(unnamed[form]), transparent=transparent)
    return buffer.getvalue()


def page_svg(figure: Figure, *, name: str, title: str) -> str:
    """Return a figure as an element of a page: in the page's colours, with tips, and with ids that no other has."""
    text = picture_bytes(figure, "svg", transparent=True).decode()
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(rf'id="{TIP}([^"]*)"', r'class="tip" data-tip="\1"', text)
    text = re.sub(r'((?:url\(|href=")#|id=")([mp][0-9a-f]{10}\b)', rf"\1{name}-\2", text)
    referred = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda one: one[0] if one[1] in referred else "", text)
    text = re.sub(r'(<g class="tip") data-tip="([^"]*)">', r"\1><title>\2</title>", text)
    text = re.sub(r'style="[^"]*"', _in_page_colours, text)
    # On the page letters of 6.5 points are as large as its notes.
    start = (
        f'<svg role="img" aria-label="{html.escape(title)}" style="--width: {1.6 * 72 * figure.get_figwidth():.0f}px"'
    )
    return re.sub(r'<svg\b[^>]*?( viewBox="[^"]*")[^>]*>', lambda one: f"{start}{one[1]}>", text, count=1).strip()


def _in_page_colours(style: re.Match[str]) -> str:
    colours = {colour.lower(): f"var(--{name})" for colour, name in ON_PAGE.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: colours.get(found[0], found[0]), style[0])
