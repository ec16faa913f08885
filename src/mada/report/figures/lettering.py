"""Text of anybody's making as letters in a figure: nothing in it is markup, all of it can be drawn, and it is short."""

import textwrap
import unicodedata
from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font

FONTS = ("DejaVu Sans", "STIXGeneral")
"""Both come with matplotlib, so figures are the same on every machine. What the first has no letter for, the second may
have. The first is wide: the fonts of a reader's browser, which the page uses, need no more room."""
UNKNOWN = "□"
"""For a letter that neither font has, such as a Chinese one; the tables of the page show it."""
ELLIPSIS = "…"


def plain(text: str) -> str:
    """Return the text in one line as letters that stand for themselves.

    matplotlib reads what is between dollars as a formula, and warns of letters that its fonts do not have. Invisible
    ones, which could turn the direction of what follows, are left out.
    """
    kinds = [(letter, unicodedata.category(letter)) for letter in text]
    spaced = "".join(" " if kind in ("Cc", "Zl", "Zp") else letter for letter, kind in kinds if kind != "Cf")
    drawable = _drawable()
    letters = "".join(letter if ord(letter) in drawable else UNKNOWN for letter in " ".join(spaced.split()))
    return letters.replace("$", r"\$")


def shortened(text: str, width: int) -> str:
    """Return the text in one line of at most so many letters, with an ellipsis for what is missing."""
    line = " ".join(text.split())
    return plain(line if len(line) <= width else line[: width - 1].rstrip() + ELLIPSIS)


def wrapped(text: str, width: int, *, lines: int = 2) -> str:
    """Return the text in at most so many lines of so many letters; what does not fit ends in an ellipsis."""
    words = [word if len(word) <= width else word[: width - 1] + ELLIPSIS for word in text.split()]
    text = " ".join(words)
    parts = textwrap.wrap(text, width, max_lines=lines, placeholder=ELLIPSIS)
    # Lines of like length take less room beside a point than a long one and a word.
    longest_word = max(map(len, words), default=width)
    while width > longest_word and len(closer := textwrap.wrap(text, width - 1)) == len(parts):
        parts, width = closer, width - 1
    return "\n".join(plain(part) for part in parts)


@cache
def _drawable() -> frozenset[int]:
    """Return what the regular and the bold faces of the fonts have between them."""
    common: set[int] | None = None
    for weight in ("normal", "bold"):
        letters: set[int] = set()
        for family in FONTS:
            letters.update(get_font(findfont(FontProperties(family=family, weight=weight))).get_charmap())
        common = letters if common is None else common & letters
    return frozenset(common or ())
