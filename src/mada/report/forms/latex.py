"""Tables in LaTeX, set as the paper sets its own: booktabs rules, numbers under each other, cells shaded.

Three packages do: booktabs, siunitx (version 3) and xcolor with its `table` option; `graphicx` for wide tables. Paste
`PREAMBLE` before `\\begin{document}`, and a table from `latex` where it belongs.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

from mada.report.document import Cell, Column, Row, Shade, Table
from mada.report.forms.latex_text import latex_text

PREAMBLE = r"""\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{siunitx}
\usepackage[table]{xcolor}
\sisetup{
  group-digits=integer,
  retain-explicit-plus=true,
  retain-zero-uncertainty=true,
  uncertainty-mode=compact-marker,
}
\definecolor{madagray}{HTML}{B8B8B8}
\definecolor{madagreen}{HTML}{36B700}
\definecolor{madalightgray}{HTML}{EDEDED}
\definecolor{madared}{HTML}{E77173}
"""
"""What the tables need, to be pasted before `\\begin{document}`: packages, how numbers are written, and colours."""

MOST_COLUMNS, MOST_CHARACTERS = 9, 80
"""What fits a page without being scaled down; a guess, since only LaTeX knows how wide a table is."""

LONGEST_NUMBER, LONGEST_CELL = 24, 100
"""Longer ones are no measurements, and TeX gives up on boxes of some metres; so cells are cut off there."""

_NUMBER = re.compile(
    r"(?P<comparator>[<>]?)(?P<sign>[+−-]?)(?P<whole>\d+|\d{1,3}(?:,\d{3})+)(?:\.(?P<decimals>\d+))?"
    r"(?:\((?P<error>\d+(?:\.\d+)?)\))?(?:e(?P<exponent>[+-]?\d+))?",
    re.ASCII,
)


def latex(table: Table) -> str:
    """Return a table as a `table` environment, which compiles wherever `PREAMBLE` was pasted."""
    columns = [_SetColumn.of(table, place) for place in range(len(table.columns))]
    tabular = _tabular(table, columns)
    if _is_wide(table):
        # Narrower than the page it stays as it is: blown up it would shout.
        fitting = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
        tabular = [rf"\resizebox{{{fitting}}}{{!}}{{%", *tabular[:-1], f"{tabular[-1]}%", "}"]
    notes = [line for note in table.notes for line in (r"\par\smallskip", rf"{{\footnotesize {latex_text(note)}\par}}")]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}\label{{tab:{_label(table.name)}}}",
        r"\par\smallskip",
        *tabular,
        *([r"\begin{flushleft}", *notes, r"\end{flushleft}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_document(tables: Iterable[Table]) -> str:
    """Return a document with these tables and nothing else, for pdflatex as it is."""
    # Every table has a page's worth of room, and none has to wait for text to float in.
    body = "\\clearpage\n".join(latex(table) for table in tables)
    return (
        "\\documentclass[a4paper]{article}\n"
        f"\\usepackage[margin=2.5cm]{{geometry}}\n{PREAMBLE}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    )


@dataclass(frozen=True, slots=True)
class _SetColumn:
    """How a column is set: its letter in the tabular's preamble, and whether it parses numbers and has stars."""

    column: Column
    specification: str
    is_parsed: bool
    has_stars: bool

    @classmethod
    def of(cls, table: Table, place: int) -> Self:
        column = table.columns[place]
        cells = [row[place] for row in table.rows]
        has_stars = any(cell.stars for cell in cells)
        numbers = [found for cell in cells if (found := _number(cell))]
        is_parsed = column.kind == "number" and bool(numbers) and not _is_mixed(numbers)
        how = f"S[table-format={_table_format(numbers)}]" if is_parsed else "l" if column.kind == "text" else "r"
        return cls(column, f"{how}@{{}}l" if has_stars else how, is_parsed, has_stars)

    @property
    def width(self) -> int:
        return 2 if self.has_stars else 1

    def heading(self) -> str:
        text = _short(self.column.heading)
        if self.has_stars:
            return rf"\multicolumn{{2}}{{{'l' if self.column.kind == 'text' else 'c'}}}{{{text}}}"
        return f"{{{text}}}" if self.is_parsed else text

    def cell(self, cell: Cell) -> str:
        if self.column.kind == "number" and (number := _number(cell)):
            plain = _plain(number)
            text = plain if self.is_parsed else rf"\num{{{plain}}}"
        else:
            text = f"{{{_short(cell.text)}}}" if self.is_parsed else _short(cell.text)
        shown = f"{_colour(cell.shade)} {text}" if cell.shade else text
        if not self.has_stars:
            return shown
        stars = cell.stars if set(cell.stars) == {"*"} else _short(cell.stars)
        raised = rf"\textsuperscript{{{stars}}}" if stars else ""
        return f"{shown} & {raised}".rstrip()


def _tabular(table: Table, columns: Sequence[_SetColumn]) -> list[str]:
    specification = " ".join(column.specification for column in columns)
    lines = [rf"\begin{{tabular}}{{{specification}}}", r"\toprule", *_group_headings(columns)]
    lines.append(rf"{' & '.join(column.heading() for column in columns)} \\")
    for group in table.groups:
        lines += [r"\midrule", *(_row(row, columns) for row in group)]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _row(row: Row, columns: Sequence[_SetColumn]) -> str:
    return rf"{' & '.join(column.cell(cell) for column, cell in zip(columns, row, strict=True))} \\"


def _group_headings(columns: Sequence[_SetColumn]) -> list[str]:
    """Return the names of column groups with a rule below each; nothing where no column has a group."""
    if not any(column.column.group for column in columns):
        return []
    headings: list[str] = []
    rules: list[str] = []
    first = 1
    for group, members in groupby(columns, key=lambda column: column.column.group):
        width = sum(column.width for column in members)
        headings.append(rf"\multicolumn{{{width}}}{{c}}{{{_short(group)}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [rf"{' & '.join(headings)} \\", "".join(rules)]


def _is_mixed(numbers: Sequence[re.Match[str]]) -> bool:
    """Say whether only some numbers have powers of ten, as settings do: they cannot stand under each other."""
    return len({bool(number["exponent"]) for number in numbers if number[0] != "0"}) > 1


def _number(cell: Cell) -> re.Match[str] | None:
    """Return the parts of a cell that siunitx can read, None where it is no number.

    An error counts in the number's last digits and may not have more of them: siunitx 3.2 refuses `5.0(112)`.
    """
    number = _NUMBER.fullmatch(cell.text) if len(cell.text) <= LONGEST_NUMBER else None
    if number is None or not number["error"]:
        return number
    decimals = number["decimals"] or ""
    _, point, behind = number["error"].partition(".")
    digits = len(number["whole"].replace(",", "")) + len(decimals)
    fits = len(_digits(number["error"])) <= digits and (not point or len(behind) == len(decimals))
    return number if fits else None


def _plain(number: re.Match[str]) -> str:
    """Return a number as every siunitx 3 reads it; it prints the error `(13)` of `28.4(13)` as `(1.3)` again."""
    plain = number[0].replace("−", "-").replace(",", "")
    error = number["error"]
    return plain.replace(f"({error})", f"({_digits(error)})") if error else plain


def _digits(error: str) -> str:
    """Return an error in units of the last digit: `1.3` of a number with one decimal is 13 of them, `0.3` is 3."""
    return error.replace(".", "").lstrip("0") or "0"


def _short(text: str) -> str:
    return latex_text(text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…")


def _table_format(numbers: Sequence[re.Match[str]]) -> str:
    """Return the room that siunitx keeps for the numbers of a column: `+2.1(2)`, `<1.3`, `1.2e1`."""

    def longest(part: str) -> int:
        return max(len(number[part] or "") for number in numbers)

    whole = max(len(number["whole"].replace(",", "")) for number in numbers)
    decimals, exponent = longest("decimals"), longest("exponent")
    # A sign that no number has would move the column off its centre.
    comparator = "<" if longest("comparator") else ""
    sign = "+" if longest("sign") else ""
    error = max(len(_digits(number["error"])) if number["error"] else 0 for number in numbers)
    return (
        f"{comparator}{sign}{whole}{f'.{decimals}' if decimals else ''}{f'({error})' if error else ''}"
        f"{f'e{exponent}' if exponent else ''}"
    )


def _colour(shade: Shade) -> str:
    return rf"\cellcolor{{mada{shade.colour}!{shade.intensity}!madalightgray}}"


def _is_wide(table: Table) -> bool:
    characters = sum(
        max(len(column.heading), *(len(row[place].text) + len(row[place].stars) for row in table.rows), 0) + 2
        for place, column in enumerate(table.columns)
    )
    return len(table.columns) > MOST_COLUMNS or characters > MOST_CHARACTERS


def _label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.:-]+", "-", name)
