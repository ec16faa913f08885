"""Untrusted text in Markdown. Whatever a model, a data set or a recipe says is shown, and nothing it says is obeyed."""

import re
import unicodedata
from collections.abc import Sequence

# What means something inside a line: code, emphasis, links, tags, table cells, entities, mathematics.
_MEANINGFUL = re.compile(r"([\\`*_\[\]<>|~&$#!{}])")
_BARE_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_BACKTICKS = re.compile("`+")


def escaped(text: str) -> str:
    """Return text for the inside of a line or a table cell, with every character standing for itself."""
    return _BARE_ADDRESS.sub(r"\\", _MEANINGFUL.sub(r"\\\1", printable(text)))


def code(text: str) -> str:
    """Return a code span. Not for table cells, where a bar would end the cell."""
    line = printable(text)
    if not line:
        return "(empty)"
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fenced(text: str) -> str:
    """Return a block of code whose fence is longer than any row of backticks in it, so that no text can end it."""
    shown = _harmless(text).strip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return a table whose cells are Markdown already; the first `left` columns are text, the others numbers."""
    rule = ["---" if place < left else "---:" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def printable(text: str) -> str:
    """Return text on one line, without what steers a terminal or an editor."""
    return " ".join(_harmless(text).split())


def _harmless(text: str) -> str:
    """Replace controls, bidi marks and halves of characters: they steer terminals, or cannot be written at all."""
    return "".join(
        character if character in "\n\t" or not unicodedata.category(character).startswith("C") else "�"
        for character in _LINE_ENDS.sub("\n", text)
    )
