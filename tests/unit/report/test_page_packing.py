"""Debates packed for the page: every prompt is restored to the letter, and what became of a debate is told rightly."""

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.debate.prompts import Prompts
from mada.debate.response import Response
from mada.debate.transcript import Debate, Turn, Verdict, Votes
from mada.evaluation.grid import Grid
from mada.evaluation.scores import Score, Transcript
from mada.report.page.debates import CHUNK, body_of, is_agreed, natural, outcome_of, packed, pieces_of

TEXT = st.text(alphabet=st.characters(exclude_categories=())) | st.sampled_from(
    [" <think>Hm.</think>\n Four. ", "<think>without an end", "\ud800", "</think>", "x" * 60, "[0,1,4]", " \x85\x1c"]
)


@dataclass(frozen=True)
class Kept:
    """A run as far as packing needs it."""

    title: str
    grid: Grid | None
    debates: tuple[Transcript, ...]

    def transcripts(self) -> Iterator[Transcript]:
        return iter(self.debates)


def unpacked(sources):
    """The index and the bodies, read as the page reads them."""
    with packed(sources) as debates:
        index = json.loads(json.dumps(debates.index))
        bodies = [body for chunk in debates.chunks for body in json.loads(gzip.decompress(base64.b64decode(chunk)))]
    return index, bodies


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


def score_of(correct, *, groups=None, first=False, verdict=False, tie=False):
    return Score(
        *("debate", "algebra", 0, "p"),
        agents=tuple(("a",) * len(row) for row in correct),
        answers=tuple(("1",) * len(row) for row in correct),
        groups=groups or tuple((0,) * len(row) for row in correct),
        correct=correct,
        verdict_correct=verdict,
        first_vote_correct=first,
        tie=tie,
        tokens=tuple((1,) * len(row) for row in correct),
        prompts=tuple((1,) * len(row) for row in correct),
        truncated=0,
        shortened=0,
    )


def packed_body(debate):
    score = score_of(tuple((True,) * len(one.turns) for one in debate.rounds))
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
    asked, again = Prompts().ask(question), Prompts().ask_again(question, shared)
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
    assert outcome_of(score_of(((True,),) * rounds, first=first, verdict=verdict)) == outcome


@pytest.mark.parametrize(
    ("groups", "agreed"),
    [((0, 0, 0), True), ((0, 1, 0), False), ((0, None, 0), False), ((None, None), False), ((3,), True)],
)
def test_generators_agree_when_all_their_answers_are_equal(groups, agreed):
    correct = tuple((True,) * len(groups) for _ in range(2))
    # What critics say is no part of it.
    assert is_agreed(score_of(correct, groups=(groups, (0, *(1 for _ in groups[1:]))))) is agreed


def test_the_index_says_what_every_debate_was(scores, transcripts, plan):
    index, bodies = unpacked([Kept("first", Grid.of(scores, plan), tuple(transcripts))])
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
    assert [index["agents"][agent] for agent in index["seatings"][columns["seating"][16]][1]] == ["agent-1", "agent-2"]


def test_bodies_are_in_the_order_of_the_index(scores, transcripts, plan):
    index, bodies = unpacked([Kept("first", Grid.of(scores, plan), tuple(transcripts))])
    rights = ["".join(str(int(turn["right"])) for one in body["rounds"] for turn in one["turns"]) for body in bodies]
    assert rights == index["columns"]["right"]


def test_a_verdict_comes_with_its_votes(scores, transcripts, plan):
    verdict = Verdict("4", (Votes("4", 2), Votes("5", 1)), tie=False, unanswered=1)
    transcripts[0] = replace(transcripts[0], debate=transcripts[0].debate.with_verdict(verdict))
    index, bodies = unpacked([Kept("first", Grid.of(scores, plan), tuple(transcripts))])
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
    with packed([Kept("first", grid, tuple(transcripts))]) as one:
        first = json.dumps(one.index), list(one.chunks)
    # The time of packing, for which gzip has four bytes, is left out.
    assert base64.b64decode(first[1][0])[4:8] == bytes(4)
    with packed([Kept("first", grid, tuple(reversed(transcripts)))]) as other:
        assert (json.dumps(other.index), list(other.chunks)) == first


def test_debates_without_a_score_and_repeated_ones_are_left_out(scores, transcripts, plan):
    stray = replace(transcripts[0], problem="never scored")
    grid = Grid.of(scores, plan)
    index, _ = unpacked([Kept("first", grid, (*transcripts, stray, transcripts[3]))])
    assert index["count"] == 24


def test_runs_keep_their_order_and_a_run_without_scores_has_no_debates(scores, transcripts, plan):
    grid = Grid.of(scores, plan)
    sources = [Kept("z", grid, tuple(transcripts)), Kept("empty", None, ()), Kept("a", grid, tuple(transcripts))]
    index, bodies = unpacked(sources)
    assert index["runs"] == ["z", "a"]
    assert index["columns"]["run"] == [0] * 24 + [1] * 24
    assert len(bodies) == 48


def test_chunks_hold_so_many_debates_each(scores, transcripts, plan):
    grid = Grid.of(scores, plan)
    with packed([Kept(title, grid, tuple(transcripts)) for title in "abcde"]) as debates:
        sizes = [len(json.loads(gzip.decompress(base64.b64decode(chunk)))) for chunk in debates.chunks]
        assert debates.count == 120
    assert sizes == [CHUNK, CHUNK, 20]


def test_numbers_within_names_sort_by_size():
    names = ["p/10", "p/9", "p/009", "p", "a" + "9" * 5000, "a10", "p/9/2", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a10", "a" + "9" * 5000, "p", "p/009", "p/9", "p/9/2", "p/10"]
