"""The page as one file: sections and figures first, debates last, and no script but our own can run.

The order is for speed: what readers see first stands first, then the script; the debates' bodies, nearly all of the
file, come last and are still loading while the page can be used.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from mada.atomic import atomic_path
from mada.report.document import Figure, Paragraph, Section
from mada.report.forms.html import Drawing, html_figure, html_paragraph, html_section
from mada.report.page.debates import Packed
from mada.report.page.mathematics import answer_html, text_html
from mada.text import counted, printable

# Each file may use what those before it define.
SCRIPTS = ("archive.js", "filters.js", "list.js", "debate.js", "page.js")
NO_FIGURES: Mapping[str, Drawing] = MappingProxyType({})
NO_DEBATES = Packed({}, 0, ())


def write_page(
    path: Path,
    title: str,
    sections: Sequence[Section],
    *,
    figures: Mapping[str, Drawing] = NO_FIGURES,
    debates: Packed = NO_DEBATES,
    lead: Sequence[Paragraph] = (),
) -> None:
    """Write the page of a report piece by piece; `path` is replaced when it is complete."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        for piece in page_pieces(title, sections, figures=figures, debates=debates, lead=lead):
            file.write(piece.encode(errors="backslashreplace"))


def page_pieces(
    title: str,
    sections: Sequence[Section],
    *,
    figures: Mapping[str, Drawing] = NO_FIGURES,
    debates: Packed = NO_DEBATES,
    lead: Sequence[Paragraph] = (),
) -> Iterator[str]:
    """Yield the page from its first line to its last; no piece is longer than the index or one chunk of debates."""
    first = next(
        (one for part in sections for one in part.blocks if isinstance(one, Figure) and one.name in figures), None
    )
    script = page_script()
    yield _head(title, script)
    yield _header(title, sections, lead=lead, has_debates=debates.count > 0)
    yield '<main id="content">\n'
    if first is not None or debates.example is not None:
        figure = html_figure(first, figures[first.name]) if first else ""
        yield f'<div class="first">\n{figure}\n{_example(debates)}</div>\n'
    others = {name: figure for name, figure in figures.items() if first is None or name != first.name}
    for section in sections:
        yield html_section(section, figures=others) + "\n"
    if debates.count:
        yield _browser(debates)
    yield "</main>\n"
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
        f'<title>{_text(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{_asset('page.css')}</style>\n</head>\n"
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
    """Return the section of the debate browser, which the script fills."""
    return (
        '<section id="debates" aria-labelledby="debates-title">\n<h2 id="debates-title" tabindex="-1">Debates</h2>\n'
        f"<noscript><p>{counted(debates.count, 'debate')} can be read here by browsers that run JavaScript.</p>"
        "</noscript>\n</section>\n"
    )


def _example(debates: Packed) -> str:
    """Return the example debate: question, every answer round by round, and a link to it."""
    one = debates.example
    if one is None:
        return ""
    seats = iter(zip(one.answers, one.right, strict=True))
    rounds = "".join(
        f"<div><dt>Round {number}</dt><dd>{''.join(_answer(agent, *next(seats)) for agent in agents)}</dd></div>"
        for number, agents in enumerate(one.agents, 1)
    )
    key = "/".join(
        quote(re.sub("[\ud800-\udfff]", "\ufffd", str(part)), safe="!~*'()")
        for part in (one.run, one.system[0], one.benchmark, one.seed, one.problem)
    )
    return (
        '<aside class="example" aria-labelledby="example-title">\n'
        f'<h2 id="example-title">A debate that corrected its generators</h2>\n'
        f'<p class="asked-first" dir="auto">{text_html(one.question)}</p>\n<dl>{rounds}</dl>\n'
        f'<p>Verdict: <strong dir="auto">{answer_html(one.verdict or "no answer")}</strong> '
        f'<span class="right">✓ right</span> <span class="note">{_text(one.system[1])}, {_text(one.benchmark)}, '
        f'seed {one.seed}</span></p>\n<p><a class="button" href="#debate={_text(key)}">Read this debate</a> '
        f'<a href="#debates">All {counted(debates.count, "debate")}</a></p>\n</aside>\n'
    )


def _answer(agent: str, answer: str | None, right: str) -> str:
    kind, sign = ("right", "✓") if right == "1" else ("wrong", "✗")
    return (
        f'<span class="seat {kind}" title="{_text(agent)}: {kind}">'
        f'<span dir="auto">{answer_html(answer or "no answer")}</span> {sign}<span class="spoken">{kind}</span></span>'
    )


def _data(name: str, value: object) -> str:
    """Return a value as a JSON element, escaped so that no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Line and paragraph separators are escaped already, as everything beyond ASCII is.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _asset(name: str) -> str:
    return (files("mada.report.page") / "assets" / name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return html.escape(printable(text))
