"""Tables in LaTeX, set as the paper sets its own: booktabs rules, numbers aligned, cells shaded.

They need booktabs, siunitx (version 3) and xcolor with its `table` option, and graphicx for wide tables. Paste
`PREAMBLE` before `\\begin{document}`, and a table from `latex` where it belongs. Every character of a text stands for
itself, written by LaTeX's own commands, so any font encoding will do; what pdflatex cannot set becomes a question mark.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from mada.report.document import Cell, Column, Table
from mada.text import printable, shortened

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
"""Packages, number formats and colours that the tables need."""

MOST_COLUMNS, MOST_CHARACTERS = 9, 80
"""Wider tables are scaled down; a guess, since only LaTeX knows how wide a table is."""

LONGEST_NUMBER, LONGEST_CELL = 24, 100
"""Longer cells are cut off, since TeX fails on boxes of some metres; longer numbers are no measurements."""

_NUMBER = re.compile(
    r"(?P<comparator>[<>]?)(?P<sign>[+−-]?)(?P<whole>\d+|\d{1,3}(?:,\d{3})+)(?:\.(?P<decimals>\d+))?"
    r"(?:\((?P<error>\d+(?:\.\d+)?)\))?(?:e(?P<exponent>[+-]?\d+))?",
    re.ASCII,
)


def latex(table: Table) -> str:
    """Return a table as a `table` environment, which compiles wherever `PREAMBLE` was pasted."""
    columns = [_tex_column(one, [row[index] for row in table.rows]) for index, one in enumerate(table.columns)]
    rows = zip(*(one.cells for one in columns), strict=True)
    tabular = [rf"\begin{{tabular}}{{{' '.join(one.specification for one in columns)}}}", r"\toprule"]
    tabular += [*_group_headings(columns), _row(one.heading for one in columns)]
    for group in table.groups:
        tabular += [r"\midrule", *(_row(next(rows)) for _ in group)]
    tabular += [r"\bottomrule", r"\end{tabular}"]
    if _is_wide(table):
        # A table narrower than the page is not enlarged.
        fitting = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
        tabular = [rf"\resizebox{{{fitting}}}{{!}}{{%", *tabular[:-1], f"{tabular[-1]}%", "}"]
    label = re.sub(r"[^A-Za-z0-9.:-]+", "-", table.name)
    notes = [line for note in table.notes for line in (r"\par\smallskip", rf"{{\footnotesize {latex_text(note)}\par}}")]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}\label{{tab:{label}}}",
        r"\par\smallskip",
        *tabular,
        *([r"\begin{flushleft}", *notes, r"\end{flushleft}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_document(tables: Iterable[Table]) -> str:
    """Return a document with these tables and nothing else, for pdflatex as it is."""
    # A page for every table, since there is no text to float in.
    body = "\\clearpage\n".join(latex(table) for table in tables)
    return (
        "\\documentclass[a4paper]{article}\n"
        f"\\usepackage[margin=2.5cm]{{geometry}}\n{PREAMBLE}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    )


@dataclass(frozen=True, slots=True)
class _TexColumn:
    """A column as it is written; one with stars is two of LaTeX's."""

    group: str
    width: int
    specification: str
    heading: str
    cells: list[str]


def _tex_column(column: Column, cells: Sequence[Cell]) -> _TexColumn:
    width = 2 if any(cell.stars for cell in cells) else 1
    numbers = [found for cell in cells if (found := _number(cell))] if column.kind == "number" else []
    # Where only some numbers have powers of ten, as settings do, they cannot be aligned.
    is_parsed = bool(numbers) and len({bool(number["exponent"]) for number in numbers if number[0] != "0"}) < 2
    specification = f"S[table-format={_table_format(numbers)}]" if is_parsed else "l" if column.kind == "text" else "r"
    heading = f"{{{_short(column.heading)}}}" if is_parsed else _short(column.heading)
    if width == 2:
        heading = rf"\multicolumn{{2}}{{{'l' if column.kind == 'text' else 'c'}}}{{{_short(column.heading)}}}"
        specification += "@{}l"
    written: list[str] = []
    for cell in cells:
        if column.kind == "number" and (number := _number(cell)):
            text = _plain(number) if is_parsed else rf"\num{{{_plain(number)}}}"
        else:
            text = f"{{{_short(cell.text)}}}" if is_parsed else _short(cell.text)
        if shade := cell.shade:
            text = rf"\cellcolor{{mada{shade.colour}!{shade.intensity}!madalightgray}} {text}"
        stars = cell.stars if set(cell.stars) == {"*"} else _short(cell.stars)
        raised = rf"\textsuperscript{{{stars}}}" if stars else ""
        written.append(text if width == 1 else f"{text} & {raised}".rstrip())
    return _TexColumn(column.group, width, specification, heading, written)


def _row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _group_headings(columns: Sequence[_TexColumn]) -> list[str]:
    """Return the names of column groups with a rule below each; nothing where no column has a group."""
    if not any(column.group for column in columns):
        return []
    headings: list[str] = []
    rules = ""
    first = 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = sum(column.width for column in members)
        headings.append(rf"\multicolumn{{{width}}}{{c}}{{{_short(group)}}}")
        if group:
            rules += rf"\cmidrule(lr){{{first}-{first + width - 1}}}"
        first += width
    return [_row(headings), rules]


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


def _digits(error: str | None) -> str:
    """Return an error in units of the last digit: `1.3` of a number with one decimal is 13 of them, `0.3` is 3."""
    return "" if error is None else error.replace(".", "").lstrip("0") or "0"


def _short(text: str) -> str:
    return latex_text(shortened(text, LONGEST_CELL))


def _table_format(numbers: Sequence[re.Match[str]]) -> str:
    """Return the `table-format` of siunitx for the numbers of a column: `+2.1(2)`, `<1.3`, `1.2e1`."""

    def longest(part: str) -> int:
        return max(len((number[part] or "").replace(",", "")) for number in numbers)

    decimals, exponent = longest("decimals"), longest("exponent")
    error = max(len(_digits(number["error"])) for number in numbers)
    parts = ["<" if longest("comparator") else "", "+" if longest("sign") else "", str(longest("whole"))]
    parts += [f".{decimals}" if decimals else "", f"({error})" if error else "", f"e{exponent}" if exponent else ""]
    return "".join(parts)


def _is_wide(table: Table) -> bool:
    characters = sum(
        max(len(column.heading), *(len(row[index].text) + len(row[index].stars) for row in table.rows), 0) + 2
        for index, column in enumerate(table.columns)
    )
    return len(table.columns) > MOST_COLUMNS or characters > MOST_CHARACTERS


def latex_text(text: str) -> str:
    """Return text on one line for LaTeX."""
    written = last = ""
    for character in unicodedata.normalize("NFC", printable(text)):
        # Two dashes, commas or quotes beside each other would become one character.
        if character == last and character in "-',":
            written += "{}"
        written += _ESCAPES.get(character) or _other(character)
        last = character
    return written


def _other(character: str) -> str:
    if character.isascii():
        return character
    letters = unicodedata.normalize("NFD", character)
    if len(letters) == 2 and letters[0].isascii() and letters[0].isalpha() and letters[1] in _ACCENTS:
        return f"\\{_ACCENTS[letters[1]]}{{{letters[0]}}}"
    kind, _, plain = unicodedata.decomposition(character).partition(" ")
    if kind in ("<super>", "<sub>") and len(plain) == 4 and (digit := chr(int(plain, 16))).isascii():
        return f"\\ensuremath{{{'^' if kind == '<super>' else '_'}{{{digit}}}}}" if digit.isalnum() else "?"
    return "?"


def _table(text: str) -> dict[str, str]:
    """Return what each character is written as, from pairs with spaces between."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _greek() -> dict[str, str]:
    """Return the Greek letters that have commands in LaTeX; the others look like Latin ones."""
    small = "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi pi rho sigma tau upsilon phi chi"
    capital = "Gamma Delta Theta Lamda Xi Pi Sigma Upsilon Phi Psi Omega"
    letters = {unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}"): name for name in f"{small} psi omega".split()}
    letters |= {unicodedata.lookup(f"GREEK CAPITAL LETTER {name.upper()}"): name for name in capital.split()}
    spelt = {"lamda": "lambda", "Lamda": "Lambda", "epsilon": "varepsilon"}
    return {letter: f"\\{spelt.get(name, name)}" for letter, name in letters.items()}


# Braces around a character keep it from being an argument or a star of the command before it (`\\[`, `\\*`).
_TEXT = _table(
    r"""
    \ \textbackslash{} { \{ } \} $ \$ % \% & \& # \# _ \_ ^ \textasciicircum{} ~ \textasciitilde{}
    < \textless{} > \textgreater{} | \textbar{} " \symbol{34} ` \symbol{96} * {*} [ {[} ] {]}
    – -- — --- ‐ - ‑ - “ `` ” '' ‘ {`} ’ {'} „ \symbol{34} « \symbol{34} » \symbol{34}
    … \dots{} • \textbullet{} † \dag{} ‡ \ddag{} § \S{} ¶ \P{} © \copyright{} £ \pounds{}
    ß \ss{} æ \ae{} Æ \AE{} œ \oe{} Œ \OE{} ø \o{} Ø \O{} ł \l{} Ł \L{} ı \i{}
    """
)
_SPACES = {"\N{NO-BREAK SPACE}": "~", "\N{NARROW NO-BREAK SPACE}": r"\,", "\N{THIN SPACE}": r"\,"}
_MATHEMATICS = _table(
    r"""
    − - ± \pm × \times · \cdot ÷ \div ≤ \leq ≥ \geq ≠ \neq ≈ \approx ≡ \equiv
    → \rightarrow ← \leftarrow ↔ \leftrightarrow ⇒ \Rightarrow ↑ \uparrow ↓ \downarrow
    ∞ \infty ∈ \in ∑ \sum √ \surd ° ^{\circ} ′ ^{\prime} ¬ \neg ∂ \partial ℓ \ell µ \mu
    """
)
_ENSURED = {character: f"\\ensuremath{{{command}}}" for character, command in (_MATHEMATICS | _greek()).items()}
_ESCAPES = _TEXT | _SPACES | _ENSURED
_ACCENTS = _table(
    "\u0300 ` \u0301 ' \u0302 ^ \u0303 ~ \u0304 = \u0306 u \u0307 . \u0308 \" \u030a r \u030b H \u030c v \u0327 c"
)
"""Commands of accents by their combining characters."""
