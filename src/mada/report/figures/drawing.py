"""How figures look: fonts, colours, line styles, panels; and a drawn figure as bytes or as part of a page.

Every distinction is made twice, by a colour-blind safe colour (Okabe and Ito) and by a marker or a dash, so that a
figure says the same when printed in black. There are no titles: a caption has them.
"""

import html
import re
import textwrap
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mada.text import printable, shortened

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches: figures are drawn at the size at which they are printed, so 8 points are 8 points."""
SMALL, TINY = 6.5, 5.5

BLACK, GRAY, LIGHT_GRAY, GRID, WHITE = "#000000", "#707070", "#D9D9D9", "#E6E6E6", "#ffffff"
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY_BLUE, PURPLE = "#56B4E9", "#CC79A7"
RIGHT, WRONG = BLUE, ORANGE
"""Right answers and wrong ones: the two of the palette that differ most in lightness too."""
PAGE_COLOURS = {
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
"""The page's variables for the colours, which have a light and a dark version."""
_TOOLTIP = "tip:"
"""Begins the id of an artist that has a tooltip on the page."""

_STYLE: dict[str, Any] = {
    # Both come with matplotlib, so figures are the same on every machine; the second has letters that the first lacks.
    "font.family": ["DejaVu Sans", "STIXGeneral"],
    "font.size": 7.5,
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
    "figure.dpi": 72.0,
    "savefig.dpi": 200,
    # Type 42 are whole letters, which journals ask for and editors can search and change.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.hinting": "none",
    # Titles are untrusted: a dollar is a dollar.
    "text.parse_math": False,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn figure, and the rows of the tables of its values by their titles."""

    figure: Figure
    values: dict[str, Sequence[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How one of several runs or agents is told from the others."""

    colour: str
    marker: str
    dash: Literal["-"] | tuple[int, tuple[float, ...]]


_LINE_STYLES = (
    LineStyle(BLUE, "o", "-"),
    LineStyle(VERMILLION, "s", (0, (4, 1.5))),
    LineStyle(GREEN, "^", (0, (1, 1))),
    LineStyle(PURPLE, "D", (0, (5, 1.5, 1, 1.5))),
    LineStyle(ORANGE, "v", (0, (2.5, 1))),
    LineStyle(SKY_BLUE, "P", (0, (5, 1, 1, 1, 1, 1))),
    LineStyle(BLACK, "X", (0, (7, 2))),
)


def line_style(index: int) -> LineStyle:
    """Return the style of the run or agent at an index; styles repeat after the last."""
    return _LINE_STYLES[index % len(_LINE_STYLES)]


@contextmanager
def print_style() -> Generator[None]:
    """Use the style of printed figures, whatever the user's own matplotlib settings; these are restored."""
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # Letters that neither font has, such as Chinese ones, are boxes in print; pages have fonts of their own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panels(
    count: int, *, most_per_row: int, height: float, in_column: int = 1, label: str = ""
) -> tuple[Figure, list[Axes]]:
    """Return a figure of equal panels in rows, all with the same y range.

    Up to `in_column` panels fit into one column of a page; more take its width. `label` is that of the y axis.
    """
    columns = min(count, most_per_row)
    rows = -(-count // columns)
    width = ONE_COLUMN if count <= in_column else TWO_COLUMNS
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    flat = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    for axes in flat[count:]:
        axes.remove()
    for axes in flat[:count:columns]:
        axes.set_ylabel(label)
    return figure, flat[:count]


def percent_axis(axes: Axes) -> None:
    """Write the shares of the y axis in percent, without the sign."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}".replace("-", "−")))


def tooltip(artist: Artist, text: str) -> None:
    """Show a text on the page when the mouse is over this."""
    artist.set_gid(_TOOLTIP + printable(text))


def wrapped(text: str, width: int) -> str:
    """Return the text in at most two lines of so many letters; what does not fit ends in an ellipsis."""
    words = [shortened(word, width) for word in printable(text).split()]
    parts = textwrap.wrap(" ".join(words), width, max_lines=2, placeholder="…")
    # Lines of similar length take less room than a long one and a word.
    longest = max(map(len, words), default=width)
    while width > longest and len(closer := textwrap.wrap(" ".join(words), width - 1)) == len(parts):
        parts, width = closer, width - 1
    return "\n".join(parts)


def picture_bytes(figure: Figure, form: Literal["pdf", "png", "svg"], *, transparent: bool = False) -> bytes:
    """Return a figure as a file's content, without dates: the same figure gives the same bytes."""
    unnamed = {"pdf": ("Creator", "Producer", "CreationDate"), "png": ("Software",), "svg": ("Creator", "Date")}
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": form}):
        figure.savefig(buffer, format=form, metadata=dict.fromkeys(unnamed[form]), transparent=transparent)
    return buffer.getvalue()


def page_svg(figure: Figure, *, name: str, title: str) -> str:
    """Return a figure as an SVG element of a page: in its colours, with tooltips, and with unique ids."""
    text = picture_bytes(figure, "svg", transparent=True).decode()
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(rf'id="{_TOOLTIP}([^"]*)"', r'class="tip" data-tip="\1"', text)
    text = re.sub(r'((?:url\(|href=")#|id=")([mp][0-9a-f]{10}\b)', rf"\1{name}-\2", text)
    referred = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda one: one[0] if one[1] in referred else "", text)
    text = re.sub(r'(<g class="tip") data-tip="([^"]*)">', r"\1><title>\2</title>", text)
    colours = {colour.lower(): f"var(--{name})" for colour, name in PAGE_COLOURS.items()}
    in_page_colours = re.compile(r"#[0-9a-f]{6}\b")
    text = re.sub(
        r'style="[^"]*"',
        lambda style: in_page_colours.sub(lambda colour: colours.get(colour[0], colour[0]), style[0]),
        text,
    )
    # Text of 6.5 points then has the size of the page's notes.
    start = (
        f'<svg role="img" aria-label="{html.escape(title)}" style="--width: {1.6 * 72 * figure.get_figwidth():.0f}px"'
    )
    return re.sub(r'<svg\b[^>]*?( viewBox="[^"]*")[^>]*>', lambda one: f"{start}{one[1]}>", text, count=1).strip()
