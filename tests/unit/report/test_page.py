"""The page's frame, debates packed for it, and formulas in them."""

import base64
import gzip
import hashlib
import io
import itertools
import json
import random
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.debate.prompts import Prompts
from mada.debate.transcript import Debate, Response, Turn, Verdict, Votes
from mada.evaluation.grid import Grid
from mada.evaluation.scores import Transcript
from mada.report.document import Figure, Section, paragraph
from mada.report.forms.html import Drawing
from mada.report.page.debates import (
    CHUNK,
    Packed,
    body_of,
    index_of,
    is_agreed,
    natural,
    outcome_of,
    pack_debates,
    pieces_of,
)
from mada.report.page.mathematics import ATTRIBUTES, ELEMENTS, answer_html, formulas_of, text_html, tree_of
from mada.report.page.page import page_pieces, page_script
from scores import score_of

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
    index = {**index_of(()), "runs": [HOSTILE]}
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
    index = {**index_of(()), "count": 1}
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


def test_nothing_on_the_page_points_outside():
    page = page_html("A run", [])
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    # The name of a vocabulary, which nobody asks for.
    assert addresses <= {"http://www.w3.org/1998/Math/MathML"}
    assert not re.search(r"\b(src|@import|url)\s*[=(]", STYLE)


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


TEXT = st.text(alphabet=st.characters(exclude_categories=())) | st.sampled_from(
    [" <think>Hm.</think>\n Four. ", "<think>without an end", "\ud800", "</think>", "x" * 60, "[0,1,4]", " \x85\x1c"]
)


def kept(title: str, grid: Grid | None, debates: tuple[Transcript, ...]) -> Any:
    """A run as far as packing needs it."""
    return SimpleNamespace(title=title, grid=grid, transcripts=lambda: iter(debates))


def unpacked(sources):
    """The index and the bodies, read as the page reads them."""
    debates = pack_debates(sources, io.BytesIO())
    bodies = [body for chunk in debates.chunks for body in json.loads(gzip.decompress(base64.b64decode(chunk)))]
    return json.loads(json.dumps(debates.index)), bodies


def restored(body, turn):
    """A prompt as the page puts it together (`Archive.prompt`)."""
    parts = body["prompts"][turn["prompt"]]
    return "".join(
        part if isinstance(part, str) else "".join(body["said"][part[0]][part[1] : part[2]]) for part in parts
    )


def debate_of(question, rounds):
    """A debate in which round after round says (prompt, text)."""
    debate = Debate(question)
    for number, said in enumerate(rounds):
        turns = [Turn("a", prompt, 1, Response(text, None, 1)) for prompt, text in said]
        debate = debate.with_round("critic" if number else "generator", turns)
    return debate


def packed_body(debate):
    score = score_of("debate", [[True] * len(one.turns) for one in debate.rounds])
    return json.loads(json.dumps(body_of(Transcript("debate", "algebra", 0, "p", "4", debate), score)))


@given(TEXT, st.lists(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=3), min_size=1, max_size=3))
def test_every_prompt_and_text_is_restored_to_the_letter(question, rounds):
    # Prompts of arbitrary text around the question and around everything that was said in the round before.
    before, said = [question], []
    for turns in rounds:
        shown = [lead + middle.join([*before, *(text.strip() for text in before)]) for lead, middle, _ in turns]
        said.append([(prompt, text) for prompt, (_, _, text) in zip(shown, turns, strict=True)])
        before = [text for _, _, text in turns]
    body = packed_body(debate_of(question, said))
    turns = [turn for one in body["rounds"] for turn in one["turns"]]
    texts = [text for given in said for _, text in given]
    assert ["".join(pieces) for pieces in body["said"]] == [question, *texts]
    assert [restored(body, turn) for turn in turns] == [prompt for given in said for prompt, _ in given]


def test_a_prompt_names_what_it_repeats():
    question = "How many legs have five cows, two hens and a snake together?"
    first = "<think>\nFive cows have twenty legs.\n</think>\n\nTwenty-four legs in all, so \\boxed{24}.\n"
    second = "There are twenty legs of cows and four of hens."
    shared = [first.strip(), second]
    asked, again = Prompts().ask(question), Prompts().debate_prompt(question, shared)
    body = packed_body(debate_of(question, [[(asked, first), (asked, second)], [(again, "24")]]))
    assert len(body["prompts"]) == 2
    assert [part for part in body["prompts"][0] if not isinstance(part, str)] == [[0, 1, 4]]
    assert [part for part in body["prompts"][1] if not isinstance(part, str)] == [[0, 1, 4], [1, 1, 4], [2, 1, 4]]
    assert sum(len(part) for part in body["prompts"][1] if isinstance(part, str)) == len(again) - len(question) - sum(
        map(len, shared)
    )


def test_a_prompt_that_shows_conclusions_only_names_those():
    first = "<think>\nFive cows have twenty legs.\n</think>\n\nTwenty-four legs in all, so \\boxed{24}.\n"
    conclusion = Prompts(share="answer").shared(Response(first, "24", 9))
    body = packed_body(debate_of("?", [[("Ask.", first)], [(f"Others said: {conclusion}!", "24")]]))
    assert body["prompts"][1] == ["Others said: ", [1, 3, 4], "!"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ("", "", "", "", "")),
        (" \n", (" \n", "", "", "", "")),
        (" Four.\n", (" ", "", "", "Four.", "\n")),
        ("<think>a</think>\n\nFour.", ("", "<think>a</think>", "\n\n", "Four.", "")),
        ("a</think>b</think> c", ("", "a</think>b</think>", " ", "c", "")),
        ("<think>a</think>\n", ("", "<think>a</think>", "", "", "\n")),
        (" <think>a ", (" ", "<think>a", "", "", " ")),
        ("a</think>b<think>c", ("", "a</think>b<think>c", "", "", "")),
    ],
)
def test_thinking_is_told_from_the_conclusion(text, pieces):
    assert pieces_of(text) == pieces


@pytest.mark.parametrize(
    ("first", "verdict", "rounds", "outcome"),
    [
        (False, True, 2, "corrected"),
        (True, False, 2, "damaged"),
        (True, True, 3, "right throughout"),
        (False, False, 2, "wrong throughout"),
        (True, True, 1, "right"),
        (False, False, 1, "wrong"),
        # A weighted vote of one round may differ from the plain one: nothing was corrected by debating.
        (False, True, 1, "right"),
    ],
)
def test_what_became_of_a_debate(first, verdict, rounds, outcome):
    assert (
        outcome_of(score_of("debate", [[True]] * rounds, first_vote_correct=first, verdict_correct=verdict)) == outcome
    )


@pytest.mark.parametrize(
    ("groups", "agreed"),
    [((0, 0, 0), True), ((0, 1, 0), False), ((0, None, 0), False), ((None, None), False), ((3,), True)],
)
def test_generators_agree_when_all_their_answers_are_equal(groups, agreed):
    # What critics say is no part of it.
    both = (groups, (0, *(1 for _ in groups[1:])))
    assert is_agreed(score_of("debate", [[True] * len(groups)] * 2, groups=both)) is agreed


def test_the_index_says_what_every_debate_was(scores, transcripts, plan):
    index, bodies = unpacked([kept("first", Grid.of(scores, plan), tuple(transcripts))])
    columns = index["columns"]
    assert index["count"] == len(bodies) == 24
    assert index["runs"] == ["first"]
    assert index["systems"] == [["single", "one agent"], ["vote", "vote | of 4"], ["debate", "debate"]]
    assert index["benchmarks"] == ["arithmetic", "algebra"]
    assert columns["system"] == [0] * 8 + [1] * 8 + [2] * 8
    # By benchmark in the order of the plan, then by problem, then by seed.
    assert [index["problems"][place][:2] for place in columns["problem"][:8]] == [
        *([0, "p"], [0, "p"], [0, "q"], [0, "q"], [1, "p"], [1, "p"], [1, "q"], [1, "q"])
    ]
    assert columns["seed"] == [0, 1] * 12
    # The fixture's debates, in this order: arithmetic p, q and algebra p, q, each with seeds 0 and 1.
    assert [index["outcomes"][place] for place in columns["outcome"][16:]] == [
        *("right throughout", "right throughout", "corrected", "right throughout"),
        *("damaged", "right throughout", "wrong throughout", "corrected"),
    ]
    assert columns["right"][16:] == ["1111", "1111", "0111", "1111", "1101", "1111", "0000", "0011"]
    assert columns["agreed"][16:] == [1, 1, 0, 1, 1, 1, 1, 1]
    assert [index["answers"][place] for place in columns["answers"][18]] == ["5", "4", "4", "4"]
    assert [index["agents"][agent] for agent in index["seatings"][columns["seating"][16]][1]] == ["c-1", "c|2"]


def test_a_verdict_comes_with_its_votes(scores, transcripts, plan):
    verdict = Verdict("4", (Votes("4", 2), Votes("5", 1)), tie=False, unanswered=1)
    transcripts[0] = replace(transcripts[0], debate=transcripts[0].debate.with_verdict(verdict))
    index, bodies = unpacked([kept("first", Grid.of(scores, plan), tuple(transcripts))])
    assert bodies[0]["verdict"] == {
        "right": True,
        "answer": "4",
        "votes": [["4", 2], ["5", 1]],
        "tie": False,
        "unanswered": 1,
    }
    assert index["answers"][index["columns"]["verdict"][0]] == "4"
    assert index["columns"]["verdict"][1] is None


def test_bytes_are_the_same_in_whichever_order_debates_were_recorded(scores, transcripts, plan):
    grid = Grid.of(scores, plan)
    one = pack_debates([kept("first", grid, tuple(transcripts))], io.BytesIO())
    first = json.dumps(one.index), list(one.chunks)
    # The time of packing, for which gzip has four bytes, is left out.
    assert base64.b64decode(first[1][0])[4:8] == bytes(4)
    other = pack_debates([kept("first", grid, tuple(reversed(transcripts)))], io.BytesIO())
    assert (json.dumps(other.index), list(other.chunks)) == first


def test_debates_without_a_score_and_repeated_ones_are_left_out(scores, transcripts, plan):
    stray = replace(transcripts[0], problem="never scored")
    grid = Grid.of(scores, plan)
    index, _ = unpacked([kept("first", grid, (*transcripts, stray, transcripts[3]))])
    assert index["count"] == 24


def test_runs_keep_their_order_and_a_run_without_scores_has_no_debates(scores, transcripts, plan):
    grid = Grid.of(scores, plan)
    sources = [kept("z", grid, tuple(transcripts)), kept("empty", None, ()), kept("a", grid, tuple(transcripts))]
    index, bodies = unpacked(sources)
    assert index["runs"] == ["z", "a"]
    assert index["columns"]["run"] == [0] * 24 + [1] * 24
    assert len(bodies) == 48


def test_chunks_hold_so_many_debates_each(scores, transcripts, plan):
    grid = Grid.of(scores, plan)
    debates = pack_debates([kept(title, grid, tuple(transcripts)) for title in "abcde"], io.BytesIO())
    sizes = [len(json.loads(gzip.decompress(base64.b64decode(chunk)))) for chunk in debates.chunks]
    assert debates.count == 120
    assert sizes == [CHUNK, CHUNK, 20]


def test_numbers_within_names_sort_by_size():
    names = ["p/10", "p/9", "p/009", "p", "a" + "9" * 5000, "a10", "p/9/2", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a10", "a" + "9" * 5000, "p", "p/009", "p/9", "p/9/2", "p/10"]


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


HOSTILE_TEX = (
    "\\text{<script>alert(1)</script>}",
    "\\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
    "\\href{javascript:alert(1)}{a}",
    "\\style{background:url(x)}{a}",
    '\\class{x" onclick="alert(1)}{a}',
    '\\color{red" onload="alert(1)}{x}',
    "<img src=x onerror=alert(1)>",
    '\\hspace{1em" onclick="x}',
)


@pytest.mark.parametrize("tex", HOSTILE_TEX)
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
