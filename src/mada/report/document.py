"""A report as a value: sections of paragraphs, tables, figures and listings, which forms turn into text.

Everything in it is plain text, whoever wrote it: models, data sets and recipes included. The forms (Markdown, LaTeX,
HTML, terminal) make every character stand for itself, so nothing that is shown is ever obeyed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Colour = Literal["green", "red", "gray"]
"""Better, worse, and neither: only a magnitude."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A cell's background: so many percent of a colour over light gray (see `paper.shading` for the rule)."""

    colour: Colour
    intensity: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as people read it: `41.9(3)`, `−5.2(5)`, `<0.001`, `1.10e8`, or a name; stars apart, to be raised."""

    text: str
    stars: str = ""
    shade: Shade | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers stand under each other at the right, text at the left.

    Neighbouring columns of one `group` have its name above their headings.
    """

    heading: str
    kind: Literal["number", "text"] = "number"
    group: str = ""


Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: rows in groups with a rule between them, and notes below that say what the numbers are.

    `name` is for files and links, `title` for people. Every row has a cell for every column.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    groups: tuple[tuple[Row, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, whatever their group."""
        return tuple(row for group in self.groups for row in group)


@dataclass(frozen=True, slots=True)
class Code:
    """A name within a paragraph that is meant letter by letter."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Words within a paragraph that stand out."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; plain strings, names and strong words one after the other."""

    spans: tuple[str | Code | Strong, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section; `level` 1 is the highest of them."""

    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Listing:
    """Text that keeps its lines: what a model said, a recipe, a command; a long one is folded under its `summary`."""

    text: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """The place of a figure, by its name; forms that cannot draw show the picture file or nothing."""

    name: str
    title: str


Block = Paragraph | Table | Heading | Listing | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a report; `name` is what links to it say, and `only` keeps it out of the text or off the page."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    only: Literal["page", "text"] | None = None


def paragraph(*spans: str | Code | Strong) -> Paragraph:
    """Return a paragraph of these spans."""
    return Paragraph(spans)


def row(title: str, cells: Sequence[str | Cell]) -> Row:
    """Return a row of a title and its cells, where plain texts will do."""
    return Cell(title), *(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
