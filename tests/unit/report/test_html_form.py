"""Reports as HTML: to the letter, well-formed, and nothing in it is obeyed."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.report.document import Cell, Code, Column, Figure, Listing, Section, Strong, Table, paragraph, row
from mada.report.forms.html import Drawing, html_section, html_table

GOLDENS = Path(__file__).parent / "goldens"


class Reading(HTMLParser):
    """What a browser would make of it: elements in their order, none left open, and the texts in them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1], data))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_a_section_with_every_kind_of_block(hostile_section):
    assert html_section(hostile_section) + "\n" == (GOLDENS / "section.html").read_text(encoding="utf-8")


def test_a_table_as_a_screen_reader_has_it(hostile_table):
    read = Reading(html_table(hostile_table))
    assert [tag for tag, _ in read.elements if tag in {"table", "caption", "thead", "tbody"}] == [
        *("table", "caption", "thead", "tbody", "tbody"),
    ]
    [region] = read.all("div")
    assert region["role"] == "region"
    assert region["aria-label"] == dict(read.texts)["caption"]
    scopes = [attributes["scope"] for attributes in read.all("th")]
    assert scopes == ["col", "col", "colgroup", "col", "col", "row", "row", "row"]
    assert "script" not in {tag for tag, _ in read.elements}


@pytest.mark.parametrize("groups", [("", "", ""), ("a", "a", "b"), ("", "a", "a"), ("a", "", "b"), ("a", "b", "a")])
def test_headings_cover_every_column_in_both_rows(groups):
    columns = (Column("system", "text"), *(Column(str(place), group=group) for place, group in enumerate(groups)))
    head = html_table(Table("t", "T", columns, ())).split("<thead>")[1].split("</thead>")[0]
    rows = [Reading(line).all("th") for line in head.strip().splitlines()]
    assert len(rows) == (2 if any(groups) else 1)
    widths = [sum(int(cell.get("colspan", 1)) for cell in cells) for cells in rows]
    high = sum(cell.get("rowspan") == "2" for cell in rows[0])
    assert widths == ([4] if len(rows) == 1 else [4, 4 - high])
    assert high == (groups.count("") + 1 if any(groups) else 0)


def test_figures_without_anything_to_show_have_no_place():
    section = Section("s", "S", (Figure("flow", "Votes"), Figure("pairs", "Pairs")))
    drawn = {"pairs": Drawing("<svg></svg>", (Table("t", "T", (Column("a"),), ()),))}
    read = Reading(html_section(section, figures=drawn))
    assert [one["id"] for one in read.all("figure")] == ["figure-pairs"]
    assert len(read.all("table")) == len(read.all("details")) == 1
    assert Reading(html_section(section)).all("figure") == []


def test_spaces_between_spans_are_kept():
    text = html_section(Section("s", "S", (paragraph("Run ", Code("a"), ", seed 1, ", Strong("b"), " ", Code("")),)))
    assert "<p>Run <code>a</code>, seed 1, <strong>b</strong> <code>(empty)</code></p>" in text


def test_rows_and_columns_have_to_match():
    with pytest.raises(ValueError, match="zip"):
        html_table(Table("t", "T", (Column("a"), Column("b")), (((Cell("1"),),),)))


@given(st.text(alphabet=st.sampled_from("<>&\"'/=ab -!\n\r\x00\u202e\ud800`")))
def test_whatever_a_text_says_the_elements_are_the_same(text):
    table = Table(
        text, text, (Column(text, "text"), Column(text, group="g")), ((row(text, [Cell(text, text)]),),), (text,)
    )
    blocks = paragraph(text, Code(text), Strong(text)), Listing(text), table, Figure(text, text)
    figures = {text: Drawing("<svg></svg>")}
    read = Reading(html_section(Section(text, text, blocks), figures=figures))
    wanted = "section h2 p code strong pre div table caption thead tr th th tr th tbody tr th td"
    shown = [tag for tag, _ in read.elements]
    assert [tag for tag in shown if tag != "sup"] == [*wanted.split(), "p", "figure", "figcaption", "div", "svg"]
    assert shown.count("sup") == bool(text)
    html_section(Section(text, text, blocks)).encode()
