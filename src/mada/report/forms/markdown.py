"""A report as Markdown, with every text escaped: untrusted text is shown and never interpreted."""

import re
from collections.abc import Collection, Iterator

from mada.report.document import Block, Cell, Code, Column, Figure, Heading, Listing, Paragraph, Section, Strong, Table
from mada.text import printable, sanitize

FIGURES = "report/figures"
"""The folder within a run that holds its drawn figures."""

# What means something inside a line: code, emphasis, links, tags, table cells, entities, mathematics.
_MEANINGFUL = re.compile(r"([\\`*_\[\]<>|~&$#!{}])")
# A line that begins like this is an item of a list, or a rule.
_BEGINS_A_BLOCK = re.compile(r"^(\d*)(?=[-+.)](?:\s|$)|--)")
_BARE_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_BACKTICKS = re.compile("`+")


def markdown(section: Section, *, figures: Collection[str] = ()) -> str:
    """Return a section as Markdown; `figures` names those of which there are files to link to."""
    blocks = (block_markdown(block, figures=figures) for block in section.blocks)
    return "\n\n".join([f"## {escaped(section.title)}", *(block for block in blocks if block)])


def table_markdown(table: Table) -> str:
    """Return a table under its title, and its notes; Markdown has no groups of rows, and no shades."""
    rule = ["---" if column.kind == "text" else "---:" for column in table.columns]
    header = [_heading(column) for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))
    return "\n\n".join([_strong(table.title), lines, *(_line(escaped(note)) for note in table.notes)])


def paragraph_markdown(paragraph: Paragraph) -> str:
    """Return a paragraph as one line."""
    return _line("".join(_spans(paragraph)).strip())


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


def fenced(text: str, language: str = "text") -> str:
    """Return a block of code whose fence is longer than any row of backticks in it, so that no text can end it."""
    shown = sanitize(text).strip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def block_markdown(block: Block, *, figures: Collection[str] = ()) -> str:
    """Return a block as Markdown; nothing for a figure without a file."""
    match block:
        case Paragraph():
            return paragraph_markdown(block)
        case Table():
            return table_markdown(block)
        case Heading():
            return f"{'#' * (block.level + 2)} {escaped(block.text)}"
        case Listing():
            title = f"**{escaped(block.summary)}**\n\n" if block.summary else ""
            return title + fenced(block.text)
        case Figure():
            return f"![{escaped(block.title)}]({FIGURES}/{block.name}.png)" if block.name in figures else ""


def _spans(paragraph: Paragraph) -> Iterator[str]:
    for span in paragraph.spans:
        match span:
            case Code():
                yield code(span.text)
            case Strong():
                yield _strong(span.text)
            case str():
                yield _kept_apart(span)


def _kept_apart(text: str) -> str:
    """Return escaped text with a space at either end where it had one: spans follow each other closely."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and text.strip() else ""
    return f"{before}{escaped(text)}{after}"


def _strong(text: str) -> str:
    return f"**{escaped(text)}**"


def _line(inline: str) -> str:
    """Return a line of Markdown that is a paragraph, whatever it begins with."""
    return _BEGINS_A_BLOCK.sub(r"\1\\", inline)


def _heading(column: Column) -> str:
    return escaped(f"{column.group}, {column.heading}" if column.group else column.heading)


def _cell(cell: Cell) -> str:
    return escaped(f"{cell.text} {cell.stars}".rstrip())


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
