"""A report as HTML: every text is escaped, and tables are accessible and scroll on a narrow screen.

The page's style sheet has the look: a shaded cell has its colour as a class and its intensity as a custom property. A
figure is an SVG element with its values in a fold.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from mada.report.document import Block, Cell, Code, Column, Figure, Heading, Listing, Paragraph, Section, Strong, Table
from mada.text import printable, sanitize


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure for a page: an SVG element, and tables of what it shows."""

    svg: str
    tables: Sequence[Table] = ()


NO_FIGURES: Mapping[str, Drawing] = MappingProxyType({})


def html_section(section: Section, *, figures: Mapping[str, Drawing] = NO_FIGURES) -> str:
    """Return a section as an element; of its figures those are there that have been drawn."""
    blocks = filter(None, (_block(block, figures=figures) for block in section.blocks))
    inner = "\n".join([f"<h2>{html_text(section.title)}</h2>", *blocks])
    return f'<section id="{html_text(section.name)}">\n{inner}\n</section>'


def html_table(table: Table) -> str:
    """Return a table with its caption in a region that scrolls by itself, and its notes below."""
    title = html_text(table.title)
    lines = [
        f'<div class="table scroll" id="table-{html_text(table.name)}" role="region" tabindex="0" aria-label="{title}">'
    ]
    lines += ["<table>", f"<caption>{title}</caption>", "<thead>", *_headings(table.columns), "</thead>"]
    for group in table.groups:
        lines.append("<tbody>")
        for first, *others in group:
            cells = [_cell(table.columns[0], first, tag="th", scope="row")]
            cells += [_cell(column, cell) for column, cell in zip(table.columns[1:], others, strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        lines.append("</tbody>")
    notes = [f'<p class="note">{html_text(note)}</p>' for note in table.notes]
    return "\n".join([*lines, "</table>", "</div>", *notes])


def html_paragraph(paragraph: Paragraph) -> str:
    """Return a paragraph, names and strong words marked as such."""
    return f"<p>{''.join(map(_span, paragraph.spans))}</p>"


def html_figure(figure: Figure, drawing: Drawing) -> str:
    """Return a figure with its caption, in a region that scrolls by itself, and its values in a fold."""
    name, title = html_text(figure.name), html_text(figure.title)
    values = "\n".join(map(html_table, drawing.tables))
    fold = f"\n<details>\n<summary>Values</summary>\n{values}\n</details>" if values else ""
    return (
        f'<figure class="chart" id="figure-{name}">\n<figcaption>{title}</figcaption>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">{drawing.svg}</div>{fold}\n</figure>'
    )


def html_text(text: str) -> str:
    """Return text for one line of a page, with every character standing for itself."""
    return html.escape(printable(text))


def _block(block: Block, *, figures: Mapping[str, Drawing]) -> str:
    match block:
        case Paragraph():
            return html_paragraph(block)
        case Table():
            return html_table(block)
        case Heading():
            return f"<h{block.level + 2}>{html_text(block.text)}</h{block.level + 2}>"
        case Listing():
            lines = f'<pre dir="auto">{html.escape(sanitize(block.text).strip(chr(10)))}</pre>'
            if not block.summary:
                return lines
            return f"<details>\n<summary>{html_text(block.summary)}</summary>\n{lines}\n</details>"
        case Figure():
            return html_figure(block, figures[block.name]) if block.name in figures else ""


def _span(span: str | Code | Strong) -> str:
    match span:
        case Code():
            return f"<code>{html_text(span.text) or '(empty)'}</code>"
        case Strong():
            return f"<strong>{html_text(span.text)}</strong>"
        case str():
            # Spaces at the ends part the spans; the browser makes one of several.
            return html.escape(sanitize(span))


def _headings(columns: Sequence[Column]) -> list[str]:
    """Return one row of headings, or two where columns have groups; a heading without a group is as high as both."""
    span = ' rowspan="2"' if any(column.group for column in columns) else ""
    upper = lower = ""
    for group, members in groupby(columns, key=lambda column: column.group):
        cells = [_cell(one, Cell(one.heading), tag="th", scope="col", span="" if group else span) for one in members]
        if group:
            upper += f'<th scope="colgroup" colspan="{len(cells)}">{html_text(group)}</th>'
            lower += "".join(cells)
        else:
            upper += "".join(cells)
    return [f"<tr>{upper}</tr>", f"<tr>{lower}</tr>"] if span else [f"<tr>{upper}</tr>"]


def _cell(column: Column, cell: Cell, *, tag: str = "td", scope: str = "", span: str = "") -> str:
    names, style = ["number"] if column.kind == "number" else [], ""
    if cell.shade is not None:
        names += ["shade", cell.shade.colour]
        style = f' style="--intensity: {cell.shade.intensity}%"'
    scoped = f' scope="{scope}"' if scope else ""
    kind = f' class="{" ".join(names)}"' if names else ""
    stars = f"<sup>{html_text(cell.stars)}</sup>" if cell.stars else ""
    return f"<{tag}{scoped}{kind}{style}{span}>{html_text(cell.text)}{stars}</{tag}>"
