"""Tables in a terminal: rules between groups, shaded cells where there are colours, and no line wider than the window.

A terminal that is too narrow gets the columns in several tables, each with the first column in front; columns of one
group stay together where that is possible.
"""

from collections.abc import Sequence
from io import StringIO
from itertools import groupby

from rich.box import Box
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from mada.report.document import Cell, Colour, Column, Shade, Table
from mada.text import printable

LONGEST_TITLE, SHORT_TITLE = 34, 24
"""Wider text is folded, so that numbers keep their room; still shorter where that makes fewer tables."""
_GAP = 2
_WIDEST_TEXT = 160
# Rules below the headings and between groups, and nothing else.
_RULES = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
_LIGHT = (0xED, 0xED, 0xED)
_COLOURS: dict[Colour, tuple[int, int, int]] = {
    "green": (0x36, 0xB7, 0x00),
    "red": (0xE7, 0x71, 0x73),
    "gray": (0xB8, 0xB8, 0xB8),
}


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title above and its notes below, as wide as the console allows."""
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
    file = StringIO()
    print_table(table, Console(file=file, width=_WIDEST_TEXT, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def terminal_tables(table: Table, *, width: int) -> list[RichTable]:
    """Return the table for a terminal: one if it fits, or several with the first column in front of each."""
    headings = [[printable(text) for text in (one.group, one.heading) if text] for one in table.columns]
    cells = [_texts([row[index] for row in table.rows], column) for index, column in enumerate(table.columns)]
    folded = [index == 0 or column.kind == "text" for index, column in enumerate(table.columns)]
    widest = [max(map(cell_len, (*head, *texts)), default=0) for head, texts in zip(headings, cells, strict=True)]

    def parts(longest: int) -> list[list[int]]:
        widths = [min(one, longest) if fold else one for one, fold in zip(widest, folded, strict=True)]
        return _parts(table.columns, widths, width=width)

    def part(indices: Sequence[int]) -> RichTable:
        shown = RichTable(box=_RULES, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        columns: list[list[Text]] = []
        for index in indices:
            # Numbers are aligned here, since rich would strip the room for stars.
            room = 0 if folded[index] else widest[index]
            lines = [" " * (room - cell_len(line)) + line for line in headings[index]]
            if folded[index]:
                shown.add_column(Text("\n".join(lines)), max_width=longest, overflow="fold", vertical="top")
            else:
                shown.add_column(Text("\n".join(lines)), no_wrap=True)
            shades = (_style(row[index].shade) for row in table.rows)
            texts = (" " * (room - cell_len(text)) + text for text in cells[index])
            columns.append([Text(text, style=style) for text, style in zip(texts, shades, strict=True)])
        rows = zip(*columns, strict=True)
        for group in table.groups:
            for _ in group:
                shown.add_row(*next(rows))
            shown.add_section()
        return shown

    longest = min((LONGEST_TITLE, SHORT_TITLE), key=lambda one: len(parts(one)))
    return [part(indices) for indices in parts(longest)]


def _parts(columns: Sequence[Column], widths: Sequence[int], *, width: int) -> list[list[int]]:
    """Return the indices of the columns of each part; the first column is in all of them."""

    def fits(indices: Sequence[int]) -> bool:
        return sum(widths[index] + _GAP for index in indices) - _GAP <= width

    parts = [[0]]
    # Columns without a group are alone.
    for _, members in groupby(range(1, len(columns)), key=lambda index: columns[index].group or index):
        group = list(members)
        for indices in [group] if fits([0, *group]) else [[index] for index in group]:
            if len(parts[-1]) > 1 and not fits([*parts[-1], *indices]):
                parts.append([0])
            parts[-1] += indices
    return parts


def _texts(cells: Sequence[Cell], column: Column) -> list[str]:
    """Return a column's cells with their stars; numbers without any keep room for them, to be aligned."""
    texts = [printable(cell.text) + (f" {printable(cell.stars)}" if cell.stars else "") for cell in cells]
    if column.kind == "text":
        return texts
    room = [len(cell.stars) + 1 if cell.stars else 0 for cell in cells]
    widest, most = max(map(cell_len, texts), default=0), max(room, default=0)
    # Words such as `reference` need not leave room where that would make the column wider.
    return [text + " " * min(most - own, widest - cell_len(text)) for own, text in zip(room, texts, strict=True)]


def _style(shade: Shade | None) -> Style | str:
    """Return black on the colour mixed over light gray: as readable on dark terminals as on light ones."""
    if shade is None:
        return ""
    mixed = (
        round((shade.intensity * deep + (100 - shade.intensity) * light) / 100)
        for deep, light in zip(_COLOURS[shade.colour], _LIGHT, strict=True)
    )
    return Style(color="black", bgcolor=Color.from_rgb(*mixed))
