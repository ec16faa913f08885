"""A report as Markdown, with every text escaped: untrusted text is shown and never interpreted."""

import re
from collections.abc import Collection

from mada.report.document import Block, Code, Figure, Heading, Listing, Paragraph, Section, Strong, Table
from mada.text import printable, sanitize

FIGURES = "report/figures"
"""The folder within a run that holds its drawn figures."""

# What means something inside a line: code, emphasis, links, tags, table cells, entities, mathematics.
_MEANINGFUL = re.compile(r"([\\`*_\[\]<>|~&$#!{}])")
# A line that begins like this is an item of a list, or a rule.
_BEGINS_A_BLOCK = re.compile(r"^(\d*)(?=[-+.)](?:\s|$)|--)")
_BARE_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)


def markdown(section: Section, *, figures: Collection[str] = ()) -> str:
    """Return a section as Markdown; `figures` names those of which there are files to link to."""
    blocks = filter(None, (block_markdown(block, figures=figures) for block in section.blocks))
    return "\n\n".join([f"## {escaped(section.title)}", *blocks])


def table_markdown(table: Table) -> str:
    """Return a table under its title, and its notes; Markdown has no groups of rows, and no shades."""
    rule = ["---" if column.kind == "text" else "---:" for column in table.columns]
    header = [escaped(f"{one.group}, {one.heading}" if one.group else one.heading) for one in table.columns]
    rows = [[escaped(f"{cell.text} {cell.stars}".rstrip()) for cell in row] for row in table.rows]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))
    return "\n\n".join([f"**{escaped(table.title)}**", lines, *(_line(escaped(note)) for note in table.notes)])


def paragraph_markdown(paragraph: Paragraph) -> str:
    """Return a paragraph as one line."""
    return _line("".join(map(_span, paragraph.spans)).strip())


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


def _span(span: str | Code | Strong) -> str:
    match span:
        case Code():
            return code(span.text)
        case Strong():
            return f"**{escaped(span.text)}**"
        case str():
            # Spans follow each other closely, so spaces at the ends are kept.
            before = " " if span[:1].isspace() else ""
            after = " " if span[-1:].isspace() and span.strip() else ""
            return f"{before}{escaped(span)}{after}"


def _line(inline: str) -> str:
    """Return a line of Markdown that is a paragraph, whatever it begins with."""
    return _BEGINS_A_BLOCK.sub(r"\1\\", inline)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
