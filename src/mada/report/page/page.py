"""The page as one file: sections and charts first, debates last, and nothing that could be run but our own script.

The order is for speed: what people see first stands first, then the script that brings it to life; the debates'
bodies, nearly all of the file, come after that and are still being read while people look around.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from mada.atomic import replacing
from mada.report.document import Paragraph, Section
from mada.report.figures.data import FigureData
from mada.report.forms.html import html_paragraph, html_section
from mada.report.forms.markdown import printable
from mada.report.numbers import counted
from mada.report.page.packing import NO_DEBATES, Packed

# Each file may use what those before it define.
SCRIPTS = (
    *("math-symbols.js", "math-tokens.js", "math-nodes.js", "math-parser.js", "math-commands.js"),
    *("math-environments.js", "math-segments.js", "math.js"),
    *("chart-canvas.js", "charts.js", "chart-points.js", "chart-training.js", "chart-flow.js", "chart-critics.js"),
    *("chart-advantages.js", "chart-pairs.js"),
    *("elements.js", "archive.js", "links.js", "filters.js", "search.js", "list.js"),
    *("cards.js", "debate.js", "controls.js", "debates.js", "theme.js", "keyboard.js", "page.js"),
)
STYLES = ("page.css", "charts.css", "math.css")


def write_page(
    path: Path,
    title: str,
    sections: Sequence[Section],
    *,
    figures: Sequence[FigureData] = (),
    debates: Packed = NO_DEBATES,
    lead: Sequence[Paragraph] = (),
) -> None:
    """Write the page of a report piece by piece; `path` has all of it in the end, or is as it was."""
    with replacing(path) as partial, partial.open("wb") as file:
        for piece in page_pieces(title, sections, figures=figures, debates=debates, lead=lead):
            file.write(piece.encode(errors="backslashreplace"))


def page_html(
    title: str,
    sections: Sequence[Section],
    *,
    figures: Sequence[FigureData] = (),
    debates: Packed = NO_DEBATES,
    lead: Sequence[Paragraph] = (),
) -> str:
    """Return the page as one text, where there are few debates; `write_page` is for many."""
    return "".join(page_pieces(title, sections, figures=figures, debates=debates, lead=lead))


def page_pieces(
    title: str,
    sections: Sequence[Section],
    *,
    figures: Sequence[FigureData],
    debates: Packed,
    lead: Sequence[Paragraph],
) -> Iterator[str]:
    """Yield the page from its first line to its last; no piece is longer than the index or one chunk of debates."""
    drawn = {figure.name for figure in figures}
    script = page_script()
    yield _head(title, script)
    yield _header(title, sections, lead=lead, has_debates=debates.count > 0)
    yield '<main id="content">\n'
    for section in sections:
        yield html_section(section, figures=drawn) + "\n"
    if debates.count:
        yield _browser(debates)
    yield "</main>\n"
    yield _data("charts", [asdict(figure) for figure in figures])
    yield _data("debate-index", debates.index)
    yield f"<script>{script}</script>\n"
    for number, chunk in enumerate(debates.chunks):
        yield f'<script type="text/plain" id="chunk-{number}">{chunk}</script>\n'
    yield "</body>\n</html>\n"


def page_script() -> str:
    """Return the one script of a page."""
    script = "\n" + '"use strict";\n' + "\n".join(_asset(name) for name in SCRIPTS)
    # Either would end or change the script's element; strings in the assets can be written in two parts.
    assert "</script" not in script.lower()
    assert "<!--" not in script
    return script


def page_style() -> str:
    """Return the one style sheet of a page."""
    return "\n".join(_asset(name) for name in STYLES)


def _head(title: str, script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{_text(title)}</title>\n<link rel="icon" href="data:,">\n<style>\n{page_style()}</style>\n</head>\n'
    )


def _header(title: str, sections: Sequence[Section], *, lead: Sequence[Paragraph], has_debates: bool) -> str:
    contents = "".join(f'<li><a href="#{_text(section.name)}">{_text(section.title)}</a></li>' for section in sections)
    skips = '<a class="skip" href="#content">Skip to the report</a>'
    if has_debates:
        contents += '<li class="debates"><a href="#debates">Debates</a></li>'
        skips += '<a class="skip" href="#debates">Skip to the debates</a>'
    return (
        f"<body>\n{skips}\n"
        f'<header class="page">\n<h1 dir="auto">{_text(title)}</h1>\n'
        + (f'<div class="lead" dir="auto">{"".join(map(html_paragraph, lead))}</div>\n' if lead else "")
        + f'</header>\n<div class="bar"><nav aria-label="Contents"><ul>{contents}</ul></nav>'
        '<div class="tools"><button type="button" id="help-button" hidden>Keys</button>'
        '<button type="button" id="theme-button" hidden>Dark</button></div></div>\n'
    )


def _browser(debates: Packed) -> str:
    """Return the place of the debate browser, which the script fills."""
    return (
        '<section id="debates" aria-labelledby="debates-title">\n<h2 id="debates-title" tabindex="-1">Debates</h2>\n'
        f"<noscript><p>{counted(debates.count, 'debate')} can be read here by browsers that run JavaScript.</p>"
        "</noscript>\n</section>\n"
    )


def _data(name: str, value: object) -> str:
    """Return a value as JSON that a browser reads and never runs, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Line and paragraph separators are escaped already, as everything beyond ASCII is.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _asset(name: str) -> str:
    return (files("mada.report.page") / "assets" / name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return html.escape(printable(text))
