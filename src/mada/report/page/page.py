"""The page as one file: sections and figures first, debates last, and no script but our own can run.

The order is for speed: what readers see first stands first, then the script; the debates' bodies, nearly all of the
file, come last and are still loading while the page can be used.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from urllib.parse import quote

from mada.report.document import Figure, Paragraph, Section
from mada.report.forms.html import NO_FIGURES, Drawing, html_figure, html_paragraph, html_section, html_text
from mada.report.page.debates import LONGEST_ANSWER, Packed
from mada.report.page.mathematics import answer_html, text_html
from mada.text import counted

# Each file may use what those before it define.
SCRIPTS = ("archive.js", "filters.js", "list.js", "debate.js", "page.js")
NO_DEBATES = Packed({}, 0, ())


def page_pieces(
    title: str,
    sections: Sequence[Section],
    *,
    figures: Mapping[str, Drawing] = NO_FIGURES,
    debates: Packed = NO_DEBATES,
    lead: Sequence[Paragraph] = (),
) -> Iterator[str]:
    """Yield the page from its first line to its last; no piece is longer than the index or one chunk of debates."""
    blocks = (block for section in sections for block in section.blocks)
    first = next((block for block in blocks if isinstance(block, Figure) and block.name in figures), None)
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
        # The script fills it.
        yield (
            '<section id="debates" aria-labelledby="debates-title">\n<h2 id="debates-title" tabindex="-1">Debates</h2>'
            f"\n<noscript><p>{counted(debates.count, 'debate')} can be read here by browsers that run JavaScript.</p>"
            "</noscript>\n</section>\n"
        )
    yield "</main>\n"
    # No text in it can end the element; line and paragraph separators are escaped as all beyond ASCII is.
    index = json.dumps(debates.index, separators=(",", ":"), allow_nan=False)
    index = re.sub("[<>&]", lambda character: f"\\u{ord(character[0]):04x}", index)
    yield f'<script type="application/json" id="debate-index">{index}</script>\n<script>{script}</script>\n'
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
        f'<title>{html_text(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{_asset('page.css')}</style>\n</head>\n"
    )


def _header(title: str, sections: Sequence[Section], *, lead: Sequence[Paragraph], has_debates: bool) -> str:
    names = {html_text(section.name): html_text(section.title) for section in sections}
    contents = "".join(f'<li><a href="#{name}">{shown}</a></li>' for name, shown in names.items())
    skips = '<a class="skip" href="#content">Skip to the report</a>'
    if has_debates:
        contents += '<li class="debates"><a href="#debates">Debates</a></li>'
        skips += '<a class="skip" href="#debates">Skip to the debates</a>'
    return (
        f'<body>\n{skips}\n<header class="page">\n<h1 dir="auto">{html_text(title)}</h1>\n'
        + (f'<div class="lead" dir="auto">{"".join(map(html_paragraph, lead))}</div>\n' if lead else "")
        + f'</header>\n<div class="bar"><nav aria-label="Contents"><ul>{contents}</ul></nav>'
        '<div class="tools"><button type="button" id="help-button" hidden>Keys</button>'
        '<button type="button" id="theme-button" hidden>Dark</button></div></div>\n'
    )


def _example(debates: Packed) -> str:
    """Return the example debate: question, every answer round by round, and a link to it."""
    one = debates.example
    if one is None:
        return ""
    score = one.score
    rounds = "".join(
        f"<div><dt>Round {number}</dt><dd>{''.join(map(_answer, *seats))}</dd></div>"
        for number, seats in enumerate(zip(score.agents, score.answers, score.correct, strict=True), 1)
    )
    parts = (one.run, score.system, score.benchmark, score.seed, score.problem)
    key = "/".join(quote(re.sub("[\ud800-\udfff]", "\ufffd", str(part)), safe="!~*'()") for part in parts)
    return (
        '<aside class="example" aria-labelledby="example-title">\n'
        f'<h2 id="example-title">A debate that corrected its generators</h2>\n'
        f'<p class="asked-first" dir="auto">{text_html(one.question)}</p>\n<dl>{rounds}</dl>\n'
        f'<p>Verdict: <strong dir="auto">{answer_html((one.verdict or "no answer")[:LONGEST_ANSWER])}</strong> '
        f'<span class="right">✓ right</span> <span class="note">{html_text(one.title)}, {html_text(score.benchmark)}, '
        f'seed {score.seed}</span></p>\n<p><a class="button" href="#debate={html_text(key)}">Read this debate</a> '
        f'<a href="#debates">All {counted(debates.count, "debate")}</a></p>\n</aside>\n'
    )


def _answer(agent: str, answer: str | None, is_right: bool) -> str:
    kind, sign = ("right", "✓") if is_right else ("wrong", "✗")
    shown = answer_html((answer or "no answer")[:LONGEST_ANSWER])
    return (
        f'<span class="seat {kind}" title="{html_text(agent)}: {kind}">'
        f'<span dir="auto">{shown}</span> {sign}<span class="spoken">{kind}</span></span>'
    )


def _asset(name: str) -> str:
    return (files("mada.report.page") / "assets" / name).read_text(encoding="utf-8")
