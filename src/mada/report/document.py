"""A report as a value: sections of paragraphs, tables, figures and listings, which forms turn into text.

Everything in it is plain text, whoever wrote it: models, data sets and recipes included. The forms (Markdown, LaTeX,
HTML, terminal) escape every character, so nothing that is shown is ever interpreted.
"""

from collections.abc import Iterable
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
    """A cell as people read it: `41.9(3)`, `−5.2(5)`, `<0.001`, `1.10e8`, or a name; stars are superscripts."""

    text: str
    stars: str = ""
    shade: Shade | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, which neighbouring columns of one `group` have below the group's name, and its kind."""

    heading: str
    kind: Literal["number", "text"] = "number"
    group: str = ""


Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: groups of rows with a rule between them, and notes below; `name` is for files and links."""

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
    """A name within a paragraph, set in a fixed-width font."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Bold words within a paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text: plain strings, names and bold words one after the other."""

    spans: tuple[str | Code | Strong, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section; `level` 1 is the highest of them."""

    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Listing:
    """Text that keeps its lines: a reply, a recipe, a command; with a `summary` it can be folded."""

    text: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """The place of a figure, by its name; forms that cannot draw link to its file or leave it out."""

    name: str
    title: str


Block = Paragraph | Table | Heading | Listing | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a report; `name` is its anchor, and `only` keeps it out of the text or off the page."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    only: Literal["page", "text"] | None = None

    @property
    def tables(self) -> list[Table]:
        """Its tables in their order."""
        return [block for block in self.blocks if isinstance(block, Table)]


def paragraph(*spans: str | Code | Strong) -> Paragraph:
    """Return a paragraph of these spans."""
    return Paragraph(spans)


def row(title: str, cells: Iterable[str | Cell]) -> Row:
    """Return a row of a title and its cells, where plain texts will do."""
    return Cell(title), *(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)


def columns(*headings: str, kind: Literal["number", "text"] = "number", group: str = "") -> tuple[Column, ...]:
    """Return columns of one kind and group."""
    return tuple(Column(heading, kind, group) for heading in headings)


def table(
    name: str,
    title: str,
    headings: Iterable[Column],
    rows: Iterable[tuple[str, Iterable[str | Cell]]],
    *notes: str,
    first: str = "system",
) -> Table:
    """Return a table of one group of rows, each a title and its cells; `first` is the heading above the titles."""
    return Table(name, title, (*columns(first, kind="text"), *headings), (tuple(row(*one) for one in rows),), notes)
