"""The page's frame: what may run in it, how data lie in it, and colours that people can read."""

import base64
import hashlib
import itertools
import json
import re
from importlib.resources import files

import pytest

from mada.report.document import Section, paragraph
from mada.report.figures.data import Flow, FlowFigure, FlowStep
from mada.report.page.packing import NO_DEBATES, Packed
from mada.report.page.page import SCRIPTS, STYLES, page_html, page_script, page_style, write_page

HOSTILE = "</script><script>alert(1)</script>&<!--\u2028\u2029"
FLOW = FlowFigure((Flow("", HOSTILE, (FlowStep(0.5, 0.1, 0.2, 0.2),)),))
ASSETS = files("mada.report.page") / "assets"


def scripts(page):
    """Every script element: its attributes and its text."""
    return re.findall(r"<script([^>]*)>(.*?)</script>", page, flags=re.DOTALL)


def palette(selector):
    """The colours of a block of the style sheet, by name."""
    block = page_style().split(selector + " {", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_only_the_pages_own_script_may_run():
    page = page_html("A run", [], figures=[FLOW])
    [runs] = [text for attributes, text in scripts(page) if "type=" not in attributes]
    digest = base64.b64encode(hashlib.sha256(runs.encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].split("; ")[:4] == [
        *("default-src 'none'", f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'", "img-src data:")
    ]


def test_data_cannot_end_their_element():
    page = page_html(HOSTILE, [Section("a", HOSTILE, (paragraph(HOSTILE),))], figures=[FLOW], lead=[paragraph(HOSTILE)])
    [charts] = [text for attributes, text in scripts(page) if 'id="charts"' in attributes]
    assert not set("<>&\u2028\u2029") & set(charts)
    assert json.loads(charts)[0]["flows"][0]["title"] == HOSTILE
    assert "<script>alert" not in page
    assert len(scripts(page)) == 3


def test_sections_come_first_and_chunks_last():
    index = {**NO_DEBATES.index, "count": 1}
    page = page_html(
        "A run", [Section("results", "Results", ())], debates=Packed(index, ["QUJD", "REVG"]), lead=[paragraph("Lead.")]
    )
    marks = ("<h1", "Lead.", 'href="#results"', '<section id="results"', '<section id="debates"', 'id="charts"')
    more = ('id="debate-index"', "<script>", 'id="chunk-0">QUJD<', 'id="chunk-1">REVG<', "</html>")
    places = [page.index(mark) for mark in (*marks, *more)]
    assert places == sorted(places)


def test_without_debates_there_is_no_browser():
    page = page_html("A run", [])
    assert 'id="debates"' not in page
    assert "#debates" not in re.sub("<style>.*?</style>|<script>.*?</script>", "", page, flags=re.DOTALL)


def test_a_file_is_what_the_text_is(tmp_path):
    section = Section("results", "Results", (paragraph("Grüße"),))
    write_page(tmp_path / "report.html", "A run", [section], figures=[FLOW], lead=[paragraph("½ \ud800")])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == page_html("A run", [section], figures=[FLOW], lead=[paragraph("½ \ud800")])


def test_nothing_on_the_page_points_outside():
    page = page_html("A run", [])
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    # Names of vocabularies, which nobody asks for.
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"\b(src|@import|url)\s*[=(]", page_style())


def test_every_asset_is_on_the_page():
    names = {asset.name for asset in ASSETS.iterdir() if asset.name.endswith((".js", ".css"))}
    assert names == {*SCRIPTS, *STYLES}


def test_scripts_make_no_markup_of_texts():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", page_script())


@pytest.mark.parametrize("selector", [":root", ':root[data-theme="dark"]'])
def test_text_can_be_read_on_every_background(selector):
    colours = palette(selector)
    for text, ground in itertools.product(("ink", "muted", "accent", "right", "wrong"), ("paper", "surface")):
        assert contrast(colours[text], colours[ground]) >= 4.5, f"{text} on {ground}"
    for shade in ("green", "red", "gray"):
        assert contrast(colours["ink"], colours[shade]) >= 4.5, shade
    for number in range(1, 8):
        assert contrast(colours[f"series-{number}"], colours["paper"]) >= 3, number


def test_dark_is_the_same_whoever_asks_for_it():
    assert palette(':root[data-theme="dark"]') == palette(':root:not([data-theme="light"])')
    assert len(palette(":root")) == len(palette(':root[data-theme="dark"]')) == 18
