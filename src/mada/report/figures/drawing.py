"""How figures look: fonts, colours, line styles, labels, panels; and a drawn figure as bytes or as part of a page.

Every distinction is made twice, by a colour-blind safe colour (Okabe and Ito) and by a marker or a dash, so that a
figure says the same when printed in black. There are no titles: a caption has them.
"""

import html
import re
import textwrap
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, Literal

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter

from mada.text import printable

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches: figures are drawn at the size at which they are printed, so 8 points are 8 points."""
DOTS_PER_INCH = 200
SMALL, TINY = 6.5, 5.5
FONTS = ("DejaVu Sans", "STIXGeneral")
"""Both come with matplotlib, so figures are the same on every machine; the second has some letters the first lacks."""
UNKNOWN = "□"
"""Stands for a letter that neither font has, such as a Chinese one; the tables of the page show it."""
ELLIPSIS = "…"

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
class LineStyle:
    """How one of several runs or agents is told from the others."""

    colour: str
    marker: str
    dash: Literal["-", "--", "-."] | tuple[int, tuple[float, ...]]


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
    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches with constrained layout; pyplot is not involved."""
    return Figure(figsize=(width, height), layout="constrained")


def panels(
    count: int, *, most_per_row: int, height: float, in_column: int = 1, label: str = ""
) -> tuple[Figure, list[Axes]]:
    """Return a figure of equal panels in rows, all with the same y range.

    Up to `in_column` panels fit into one column of a page; more take its width. `label` is that of the y axis.
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
    """Write the shares of an axis in percent, without the sign."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g}".replace("-", "−")))


def fix_layout(figure: Figure) -> None:
    """Lay a figure out once, so that all its files agree."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def tooltip(artist: Artist, text: str) -> None:
    """Show a text on the page when the mouse is over this."""
    artist.set_gid(_TOOLTIP + printable(text))


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
    text = re.sub(r'style="[^"]*"', _in_page_colours, text)
    # Text of 6.5 points then has the size of the page's notes.
    start = (
        f'<svg role="img" aria-label="{html.escape(title)}" style="--width: {1.6 * 72 * figure.get_figwidth():.0f}px"'
    )
    return re.sub(r'<svg\b[^>]*?( viewBox="[^"]*")[^>]*>', lambda one: f"{start}{one[1]}>", text, count=1).strip()


def _in_page_colours(style: re.Match[str]) -> str:
    colours = {colour.lower(): f"var(--{name})" for colour, name in PAGE_COLOURS.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: colours.get(found[0], found[0]), style[0])


def plain(text: str) -> str:
    """Return untrusted text as a label on one line.

    matplotlib reads text between dollars as a formula and warns of letters that its fonts lack; invisible letters,
    which could change the direction of what follows, are left out.
    """
    kinds = [(letter, unicodedata.category(letter)) for letter in text]
    spaced = "".join(" " if kind in ("Cc", "Zl", "Zp") else letter for letter, kind in kinds if kind != "Cf")
    drawable = _drawable()
    letters = "".join(letter if ord(letter) in drawable else UNKNOWN for letter in " ".join(spaced.split()))
    return letters.replace("$", r"\$")


def shortened(text: str, width: int) -> str:
    """Return the text in one line of at most so many letters, cut off with an ellipsis."""
    line = " ".join(text.split())
    return plain(line if len(line) <= width else line[: width - 1].rstrip() + ELLIPSIS)


def wrapped(text: str, width: int, *, lines: int = 2) -> str:
    """Return the text in at most so many lines of so many letters; what does not fit ends in an ellipsis."""
    words = [word if len(word) <= width else word[: width - 1] + ELLIPSIS for word in text.split()]
    text = " ".join(words)
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=ELLIPSIS)
    # Lines of similar length take less room than a long one and a word.
    longest_word = max(map(len, words), default=width)
    while width > longest_word and len(closer := textwrap.wrap(text, width - 1)) == len(parts):
        parts, width = closer, width - 1
    return "\n".join(plain(part) for part in parts)


@cache
def _drawable() -> frozenset[int]:
    """Return the letters that both the regular and the bold faces of the fonts have."""
    common: set[int] | None = None
    for weight in ("normal", "bold"):
        letters: set[int] = set()
        for family in FONTS:
            letters.update(get_font(findfont(FontProperties(family=family, weight=weight))).get_charmap())
        common = letters if common is None else common & letters
    return frozenset(common or ())
