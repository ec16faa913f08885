"""A report as HTML: every text is escaped, and tables are accessible and scroll on a narrow screen.

The page's style sheet has the look: a shaded cell has its colour as a class and its intensity as a custom property. A
figure is an SVG element with its values in a fold.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from mada.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Row,
    Section,
    Strong,
    Table,
)
from mada.text import printable, sanitize


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure for a page: an SVG element, and tables of what it shows."""

    svg: str
    tables: Sequence[Table] = ()


def html_section(section: Section, *, figures: Mapping[str, Drawing] = MappingProxyType({})) -> str:
    """Return a section as an element; of its figures those are there that have been drawn."""
    blocks = (_block(block, figures=figures) for block in section.blocks)
    inner = "\n".join([f"<h2>{_text(section.title)}</h2>", *(block for block in blocks if block)])
    return f'<section id="{_text(section.name)}">\n{inner}\n</section>'


def html_table(table: Table) -> str:
    """Return a table with its caption in a region that scrolls by itself, and its notes below."""
    title = _text(table.title)
    groups = ([f"<tr>{''.join(_cells(row, table.columns))}</tr>" for row in group] for group in table.groups)
    bodies = "\n".join("\n".join(["<tbody>", *rows, "</tbody>"]) for rows in groups)
    notes = "".join(f'\n<p class="note">{_text(note)}</p>' for note in table.notes)
    return (
        f'<div class="table scroll" id="table-{_text(table.name)}" role="region" tabindex="0" aria-label="{title}">\n'
        f"<table>\n<caption>{title}</caption>\n{_head(table.columns)}\n{bodies}\n</table>\n</div>{notes}"
    )


def html_paragraph(paragraph: Paragraph) -> str:
    """Return a paragraph, names and strong words marked as such."""
    return f"<p>{''.join(_spans(paragraph))}</p>"


def _block(block: Block, *, figures: Mapping[str, Drawing]) -> str:
    match block:
        case Paragraph():
            return html_paragraph(block)
        case Table():
            return html_table(block)
        case Heading():
            level = block.level + 2
            return f"<h{level}>{_text(block.text)}</h{level}>"
        case Listing():
            lines = f'<pre dir="auto">{html.escape(sanitize(block.text).strip(chr(10)))}</pre>'
            if not block.summary:
                return lines
            return f"<details>\n<summary>{_text(block.summary)}</summary>\n{lines}\n</details>"
        case Figure():
            return html_figure(block, figures[block.name]) if block.name in figures else ""


def html_figure(figure: Figure, drawing: Drawing) -> str:
    """Return a figure with its caption, in a region that scrolls by itself, and its values in a fold."""
    name, title = _text(figure.name), _text(figure.title)
    values = "\n".join(map(html_table, drawing.tables))
    fold = f"\n<details>\n<summary>Values</summary>\n{values}\n</details>" if values else ""
    return (
        f'<figure class="chart" id="figure-{name}">\n<figcaption>{title}</figcaption>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">{drawing.svg}</div>{fold}\n</figure>'
    )


def _spans(paragraph: Paragraph) -> Iterator[str]:
    for span in paragraph.spans:
        match span:
            case Code():
                yield f"<code>{_text(span.text) or '(empty)'}</code>"
            case Strong():
                yield f"<strong>{_text(span.text)}</strong>"
            case str():
                # Spaces at the ends part the spans; the browser makes one of several.
                yield html.escape(sanitize(span))


def _head(columns: Sequence[Column]) -> str:
    """Return one row of headings, or two where columns have groups; a heading without a group is as high as both."""
    if not any(column.group for column in columns):
        return f"<thead>\n<tr>{''.join(_heading(column) for column in columns)}</tr>\n</thead>"
    upper: list[str] = []
    lower: list[str] = []
    for group, members in groupby(columns, key=lambda column: column.group):
        grouped = list(members)
        if group:
            upper.append(f'<th scope="colgroup" colspan="{len(grouped)}">{_text(group)}</th>')
            lower += [_heading(column) for column in grouped]
        else:
            upper += [_heading(column, height=2) for column in grouped]
    return f"<thead>\n<tr>{''.join(upper)}</tr>\n<tr>{''.join(lower)}</tr>\n</thead>"


def _heading(column: Column, *, height: int = 1) -> str:
    span = f' rowspan="{height}"' if height > 1 else ""
    return f'<th scope="col"{_class(column)}{span}>{_text(column.heading)}</th>'


def _cells(row: Row, columns: Sequence[Column]) -> Iterator[str]:
    for index, (cell, column) in enumerate(zip(row, columns, strict=True)):
        tag, scope = ("td", "") if index else ("th", ' scope="row"')
        yield f"<{tag}{scope}{_class(column, cell)}>{_cell(cell)}</{tag}>"


def _cell(cell: Cell) -> str:
    return _text(cell.text) + (f"<sup>{_text(cell.stars)}</sup>" if cell.stars else "")


def _class(column: Column, cell: Cell | None = None) -> str:
    names = ["number"] if column.kind == "number" else []
    shade = cell.shade if cell else None
    if shade is None:
        return f' class="{names[0]}"' if names else ""
    return f' class="{" ".join([*names, "shade", shade.colour])}" style="--intensity: {shade.intensity}%"'


def _text(text: str) -> str:
    return html.escape(printable(text))
