"""Formulas in what models wrote: found, set, and never more than elements and attributes of the lists."""

import random
import time
from html.parser import HTMLParser

import pytest

from mada.report.page.mathematics import ATTRIBUTES, ELEMENTS, answer_html, formulas_of, text_html, tree_of


def found(text):
    return [text[start:stop] for start, stop, _ in formulas_of(text)]


class Elements(HTMLParser):
    """Every element of a markup with its attributes, as a browser would read it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))


def nodes(tree):
    if isinstance(tree, list):
        yield tree
        for child in tree[1:]:
            yield from nodes(child)


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("So $x^2$ and \\(y\\).", ["$x^2$", "\\(y\\)"]),
        ("\\[a\\] then $$b$$", ["\\[a\\]", "$$b$$"]),
        ("\\begin{align*}a&=b\\end{align*}!", ["\\begin{align*}a&=b\\end{align*}"]),
        ("It is \\boxed{\\frac{1}{2}}.", ["\\boxed{\\frac{1}{2}}"]),
        ("It costs $5 and then $10 more.", []),
        ("Between $5 to $7", []),
        ("an open $x^2", []),
        ("\\$5 and \\$6", []),
        ("plain", []),
    ],
)
def test_formulas_are_found_and_prices_are_not(text, formulas):
    assert found(text) == formulas


def test_a_formula_becomes_elements():
    assert tree_of("x^2") == ["math", {"display": "inline"}, ["mrow", ["msup", ["mi", "x"], ["mn", "2"]]]]
    assert "<mfrac>" in text_html("half: $\\frac12$ < 1")
    assert text_html("half: $\\frac12$ < 1").endswith(" &lt; 1")
    assert answer_html("42") == "42"
    assert answer_html("\\sqrt 2").startswith("<math")


HOSTILE = (
    "\\text{<script>alert(1)</script>}",
    "\\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
    "\\href{javascript:alert(1)}{a}",
    "\\style{background:url(x)}{a}",
    '\\class{x" onclick="alert(1)}{a}',
    '\\color{red" onload="alert(1)}{x}',
    "<img src=x onerror=alert(1)>",
    '\\hspace{1em" onclick="x}',
)


@pytest.mark.parametrize("tex", HOSTILE)
def test_hostile_formulas_become_elements_and_attributes_of_the_lists_only(tex):
    for name, *rest in nodes(tree_of(tex) or []):
        assert name in ELEMENTS
        assert set(rest[0] if rest and isinstance(rest[0], dict) else {}) <= ATTRIBUTES | {"class"}
    for markup in (text_html(f"${tex}$"), text_html(tex), answer_html(tex)):
        read = Elements()
        read.feed(markup)
        assert {tag for tag, _ in read.found} <= ELEMENTS
        assert {name for _, attributes in read.found for name, _ in attributes} <= ATTRIBUTES | {"class"}


@pytest.mark.parametrize("tex", ["\\rule{90000em}{90000em}", "\\hspace{1e9em}", "\\kern999em"])
def test_no_length_is_larger_than_a_page_can_bear(tex):
    assert not any("em" in str(node[1]) for node in nodes(tree_of(tex) or []) if len(node) > 1)


@pytest.mark.parametrize("tex", ["{" * 1400, "\\frac" * 280, "x^" * 700, "\\left(" * 200, "a" * 5_000, "\\sqrt" * 290])
def test_broken_and_huge_formulas_stay_text_and_take_no_time(tex):
    begun = time.process_time()
    assert tree_of(tex) is None
    assert text_html(f"${tex}$") == f"${tex}$"
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("text", ["$" * 100_000, "\\boxed{" * 5_000, "\\(" * 50_000, "$x$" * 30_000])
def test_a_text_of_nothing_but_delimiters_takes_no_time(text):
    begun = time.process_time()
    assert len(found(text)) <= 1_000
    assert time.process_time() - begun < 5


def test_no_text_throws_and_every_part_outside_formulas_is_kept():
    pick = random.Random(0)
    tokens = ["{", "}", "\\frac", "^", "_", "&", "\\\\", "\\left", "(", "\\begin{cases}", "$", "<", "x", "1", "\\text{"]
    for _ in range(300):
        text = "".join(pick.choice(tokens) for _ in range(40))
        end = 0
        for start, stop, _ in formulas_of(text):
            assert end <= start < stop
            end = stop
