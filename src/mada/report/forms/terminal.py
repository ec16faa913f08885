"""Tables in a terminal: rules between groups, shaded cells where there are colours, and no line wider than the window.

A terminal that is too narrow gets the columns in several tables, each with the first column in front; columns of one
group stay together where that is possible.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mada.report.document import Cell, Colour, Column, Shade, Table
from mada.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.table import Table as RichTable
    from rich.text import Text

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

    console = Console(file=StringIO(), width=_WIDEST_TEXT, color_system=None, force_terminal=False)
    print_table(table, console)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def terminal_tables(table: Table, *, width: int) -> "list[RichTable]":
    """Return the table for a terminal: one if it fits, or several with the first column in front of each."""
    ways = [(_parts(table, width=width, longest=longest), longest) for longest in (LONGEST_TITLE, SHORT_TITLE)]
    parts, longest = min(ways, key=lambda way: len(way[0]))
    return [_part(table, places, longest=longest) for places in parts]


def _parts(table: Table, *, width: int, longest: int) -> list[list[int]]:
    """Return the columns of each part by their places."""
    widths = [_column_width(table, place, longest=longest) + _GAP for place in range(len(table.columns))]
    parts = [[0]]
    for bound in _bound(table.columns):
        wanted = sum(widths[place] for place in bound)
        together = [bound] if widths[0] + wanted - _GAP <= width else [[place] for place in bound]
        for places in together:
            taken = sum(widths[place] for place in [*parts[-1], *places]) - _GAP
            if len(parts[-1]) > 1 and taken > width:
                parts.append([0])
            parts[-1] += places
    return parts


def _bound(columns: Sequence[Column]) -> list[list[int]]:
    """Return the places of columns that should stay together, since they are a group; the first one is in all parts."""
    found: list[list[int]] = []
    for place in range(1, len(columns)):
        group = columns[place].group
        if found and group and columns[place - 1].group == group:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _column_width(table: Table, place: int, *, longest: int) -> int:
    from rich.cells import cell_len

    lines = [*_heading_lines(table.columns[place]), *_texts(table, place)]
    widest = max(map(cell_len, lines), default=0)
    return min(widest, longest) if _folds(table, place) else widest


def _folds(table: Table, place: int) -> bool:
    return place == 0 or table.columns[place].kind == "text"


def _heading_lines(column: Column) -> list[str]:
    """Return a heading, below the name of its group where it has one."""
    return [printable(text) for text in (column.group, column.heading) if text]


def _texts(table: Table, place: int) -> list[str]:
    """Return a column's cells with their stars; numbers without any keep room for them, to stand under the others."""
    from rich.cells import cell_len

    cells = [row[place] for row in table.rows]
    starred = [_starred(cell) for cell in cells]
    if table.columns[place].kind == "text":
        return starred
    widest = max(map(cell_len, starred), default=0)
    most = max((_room_for_stars(cell) for cell in cells), default=0)
    # Words such as `reference` need not leave room, where that would make the column wider.
    return [
        text + " " * min(most - _room_for_stars(cell), widest - cell_len(text))
        for cell, text in zip(cells, starred, strict=True)
    ]


def _starred(cell: Cell) -> str:
    return f"{printable(cell.text)} {printable(cell.stars)}" if cell.stars else printable(cell.text)


def _room_for_stars(cell: Cell) -> int:
    return len(cell.stars) + 1 if cell.stars else 0


def _part(table: Table, places: Sequence[int], *, longest: int) -> "RichTable":
    from rich.box import Box
    from rich.table import Table as RichTable
    from rich.text import Text

    # Rules below the headings and between groups, and nothing else.
    rules = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
    shown = RichTable(box=rules, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    columns: list[list[Text]] = []
    for place in places:
        lines = _heading_lines(table.columns[place])
        if _folds(table, place):
            width = 0
            shown.add_column(Text("\n".join(lines)), max_width=longest, overflow="fold", vertical="top")
        else:
            # Aligned here, since rich would take the room for stars away.
            width = _column_width(table, place, longest=longest)
            shown.add_column(Text("\n".join(_at_the_right(line, width) for line in lines)), no_wrap=True)
        columns.append(_shaded(table, place, width=width))
    rows = iter(list(zip(*columns, strict=True)))
    for group in table.groups:
        for _ in group:
            shown.add_row(*next(rows))
        shown.add_section()
    return shown


def _at_the_right(text: str, width: int) -> str:
    from rich.cells import cell_len

    return " " * (width - cell_len(text)) + text


def _shaded(table: Table, place: int, *, width: int) -> "list[Text]":
    from rich.text import Text

    cells = (row[place] for row in table.rows)
    return [
        Text(_at_the_right(text, width), style=_style(cell.shade) if cell.shade else "")
        for cell, text in zip(cells, _texts(table, place), strict=True)
    ]


def _style(shade: Shade) -> "Style":
    """Return black on the colour mixed over light gray: as readable on dark terminals as on light ones."""
    from rich.color import Color
    from rich.style import Style

    mixed = (
        round((shade.intensity * deep + (100 - shade.intensity) * light) / 100)
        for deep, light in zip(_COLOURS[shade.colour], _LIGHT, strict=True)
    )
    return Style(color="black", bgcolor=Color.from_rgb(*mixed))
