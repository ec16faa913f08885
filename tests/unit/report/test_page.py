"""The page's frame: what may run in it, how data lie in it, and colours that people can read."""

import base64
import hashlib
import itertools
import json
import re
from importlib.resources import files

import pytest

from mada.report.document import Figure, Section, paragraph
from mada.report.forms.html import Drawing
from mada.report.page.debates import Packed, index_of
from mada.report.page.page import SCRIPTS, page_pieces, page_script, write_page

HOSTILE = "</script><script>alert(1)</script>&<!--\u2028\u2029"
FLOW = {"flow": Drawing("<svg></svg>")}
ASSETS = files("mada.report.page") / "assets"
STYLE = (ASSETS / "page.css").read_text(encoding="utf-8")


def page_html(*args, **options):
    return "".join(page_pieces(*args, **options))


def scripts(page):
    """Every script element: its attributes and its text."""
    return re.findall(r"<script([^>]*)>(.*?)</script>", page, flags=re.DOTALL)


def palette(scheme):
    """The colours of the style sheet by name, light or dark."""
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLE)
    return {name: dark if scheme == "dark" else light for name, light, dark in found}


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_only_the_pages_own_script_may_run():
    page = page_html("A run", [], figures=FLOW)
    [runs] = [text for attributes, text in scripts(page) if "type=" not in attributes]
    digest = base64.b64encode(hashlib.sha256(runs.encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].split("; ")[:4] == [
        *("default-src 'none'", f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'", "img-src data:")
    ]


def test_data_cannot_end_their_element():
    index = {**index_of((), chunk=50), "runs": [HOSTILE]}
    section = Section("a", HOSTILE, (paragraph(HOSTILE),))
    page = page_html(HOSTILE, [section], debates=Packed(index, 0, ()), lead=[paragraph(HOSTILE)])
    [data] = [text for attributes, text in scripts(page) if 'id="debate-index"' in attributes]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["runs"] == [HOSTILE]
    assert "<script>alert" not in page
    assert len(scripts(page)) == 2


def test_the_first_figure_stands_before_the_sections_and_only_there():
    section = Section("results", "Results", (Figure("flow", "Flow"), Figure("unknown", "Not drawn")))
    page = page_html("A run", [section], figures=FLOW)
    assert page.count("<svg>") == 1
    assert page.index("<svg>") < page.index('<section id="results"')
    assert "Not drawn" not in page


def test_sections_come_first_and_chunks_last():
    index = {**index_of((), chunk=50), "count": 1}
    page = page_html(
        "A run",
        [Section("results", "Results", ())],
        debates=Packed(index, 1, ["QUJD", "REVG"]),
        lead=[paragraph("Lead.")],
    )
    marks = ("<h1", "Lead.", 'href="#results"', '<section id="results"', '<section id="debates"')
    more = ('id="debate-index"', "<script>", 'id="chunk-0">QUJD<', 'id="chunk-1">REVG<', "</html>")
    places = [page.index(mark) for mark in (*marks, *more)]
    assert places == sorted(places)


def test_without_debates_there_is_no_browser():
    page = page_html("A run", [])
    assert 'id="debates"' not in page
    assert "#debates" not in re.sub("<style>.*?</style>|<script>.*?</script>", "", page, flags=re.DOTALL)


def test_a_file_is_what_the_text_is(tmp_path):
    section = Section("results", "Results", (paragraph("Grüße"),))
    write_page(tmp_path / "report.html", "A run", [section], figures=FLOW, lead=[paragraph("½ \ud800")])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == page_html("A run", [section], figures=FLOW, lead=[paragraph("½ \ud800")])


def test_nothing_on_the_page_points_outside():
    page = page_html("A run", [])
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    # The name of a vocabulary, which nobody asks for.
    assert addresses <= {"http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"\b(src|@import|url)\s*[=(]", STYLE)


def test_every_asset_is_on_the_page():
    names = {asset.name for asset in ASSETS.iterdir() if asset.name.endswith((".js", ".css"))}
    assert names == {*SCRIPTS, "page.css"}


def test_scripts_make_no_markup_of_texts():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", page_script())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_background(scheme):
    colours = palette(scheme)
    for text, ground in itertools.product(("ink", "muted", "accent", "right", "wrong"), ("paper", "surface")):
        assert contrast(colours[text], colours[ground]) >= 4.5, f"{text} on {ground}"
    for shade in ("green", "red", "gray"):
        assert contrast(colours["ink"], colours[shade]) >= 4.5, shade
    # Figures tell everything twice, by marker or dash too, so one pale colour of theirs is no loss.
    pale = [number for number in range(1, 7) if contrast(colours[f"series-{number}"], colours["paper"]) < 3]
    assert pale == ([5] if scheme == "light" else [])
