"""Tables in a terminal: rules between groups, shaded cells where there are colours, and no line wider than the window.

A terminal that is too narrow gets the columns in several tables, each with the first column in front; columns of one
group stay together where that is possible.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mada.report.document import Cell, Colour, Column, Shade, Table
from mada.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.table import Table as RichTable

LONGEST_TITLE, SHORT_TITLE = 34, 24
"""Wider text is folded, so that numbers keep their room; still shorter where that makes fewer tables."""
_GAP = 2
_WIDEST_TEXT = 160

_LIGHT = (0xED, 0xED, 0xED)
_COLOURS: dict[Colour, tuple[int, int, int]] = {
    "green": (0x36, 0xB7, 0x00),
    "red": (0xE7, 0x71, 0x73),
    "gray": (0xB8, 0xB8, 0xB8),
}


def print_table(table: Table, console: "Console") -> None:
    """Print a table with its title above and its notes below, as wide as the console allows."""
    from rich.text import Text

    console.print(Text(printable(table.title), style="bold"))
    for part in terminal_tables(table, width=console.width):
        console.print()
        console.print(part)
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(printable(note)))


def table_text(table: Table) -> str:
    """Return a table as plain text, for a file that any editor shows."""
    from io import StringIO

    from rich.console import Console

    file = StringIO()
    print_table(table, Console(file=file, width=_WIDEST_TEXT, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def terminal_tables(table: Table, *, width: int) -> "list[RichTable]":
    """Return the table for a terminal: one if it fits, or several with the first column in front of each."""
    ways = [(_parts(table, width=width, longest=longest), longest) for longest in (LONGEST_TITLE, SHORT_TITLE)]
    parts, longest = min(ways, key=lambda way: len(way[0]))
    return [_part(table, indices, longest=longest) for indices in parts]


def _parts(table: Table, *, width: int, longest: int) -> list[list[int]]:
    """Return the indices of the columns of each part."""
    widths = [_column_width(table, index, longest=longest) + _GAP for index in range(len(table.columns))]
    parts = [[0]]
    for group in _groups(table.columns):
        fits = widths[0] + sum(widths[index] for index in group) - _GAP <= width
        for indices in [group] if fits else [[index] for index in group]:
            taken = sum(widths[index] for index in [*parts[-1], *indices]) - _GAP
            if len(parts[-1]) > 1 and taken > width:
                parts.append([0])
            parts[-1] += indices
    return parts


def _groups(columns: Sequence[Column]) -> Iterator[list[int]]:
    """Yield the indices of columns that should stay together; the first column is in all parts."""
    # Columns without a group are alone.
    for _, group in groupby(range(1, len(columns)), key=lambda index: columns[index].group or index):
        yield list(group)


def _column_width(table: Table, index: int, *, longest: int) -> int:
    from rich.cells import cell_len

    widest = max(map(cell_len, [*_heading_lines(table.columns[index]), *_texts(table, index)]), default=0)
    return min(widest, longest) if _is_folded(table, index) else widest


def _is_folded(table: Table, index: int) -> bool:
    return index == 0 or table.columns[index].kind == "text"


def _heading_lines(column: Column) -> list[str]:
    return [printable(text) for text in (column.group, column.heading) if text]


def _texts(table: Table, index: int) -> list[str]:
    """Return a column's cells with their stars; numbers without any keep room for them, to be aligned."""
    from rich.cells import cell_len

    def room(cell: Cell) -> int:
        return len(cell.stars) + 1 if cell.stars else 0

    cells = [row[index] for row in table.rows]
    texts = [printable(cell.text) + (f" {printable(cell.stars)}" if cell.stars else "") for cell in cells]
    if table.columns[index].kind == "text":
        return texts
    widest, most = max(map(cell_len, texts), default=0), max(map(room, cells), default=0)
    # Words such as `reference` need not leave room where that would make the column wider.
    return [
        text + " " * min(most - room(cell), widest - cell_len(text)) for cell, text in zip(cells, texts, strict=True)
    ]


def _part(table: Table, indices: Sequence[int], *, longest: int) -> "RichTable":
    from rich.box import Box
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    # Rules below the headings and between groups, and nothing else.
    rules = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
    shown = RichTable(box=rules, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    columns: list[list[Text]] = []
    for index in indices:
        # Numbers are aligned here, since rich would strip the room for stars.
        width = 0 if _is_folded(table, index) else _column_width(table, index, longest=longest)
        heading, *cells = (
            [" " * (width - cell_len(line)) + line for line in lines]
            for lines in (_heading_lines(table.columns[index]), *([text] for text in _texts(table, index)))
        )
        if _is_folded(table, index):
            shown.add_column(Text("\n".join(heading)), max_width=longest, overflow="fold", vertical="top")
        else:
            shown.add_column(Text("\n".join(heading)), no_wrap=True)
        shades = (row[index].shade for row in table.rows)
        columns.append(
            [Text(text, style=_style(shade) if shade else "") for (text,), shade in zip(cells, shades, strict=True)]
        )
    rows = zip(*columns, strict=True)
    for group in table.groups:
        for _ in group:
            shown.add_row(*next(rows))
        shown.add_section()
    return shown


def _style(shade: Shade) -> "Style":
    """Return black on the colour mixed over light gray: as readable on dark terminals as on light ones."""
    from rich.color import Color
    from rich.style import Style

    mixed = (
        round((shade.intensity * deep + (100 - shade.intensity) * light) / 100)
        for deep, light in zip(_COLOURS[shade.colour], _LIGHT, strict=True)
    )
    return Style(color="black", bgcolor=Color.from_rgb(*mixed))
