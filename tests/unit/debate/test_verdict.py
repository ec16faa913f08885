"""The vote: equal answers together, ties by the stated rule, seats without weight."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mada.debate.response import Response
from mada.debate.transcript import Verdict, Votes
from mada.debate.verdict import decide, group_equal, vote
from mada.grading import Grader


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=1) as grader:
        yield grader


class CountingGrader(Grader):
    def __init__(self):
        super().__init__(workers=1)
        self.pairs = []

    async def compare_async(self, pairs):
        pairs = list(pairs)
        self.pairs += pairs
        return await super().compare_async(pairs)


def voted(*rounds, grader):
    responses = [[Response("", answer, 1) for answer in answers] for answers in rounds]
    return asyncio.run(vote(responses, grader=grader))


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([["4", "5", "4"]], Verdict("4", (Votes("4", 2), Votes("5", 1)))),
        ([["4"]], Verdict("4", (Votes("4", 1),))),
        # Symbolically equal answers count together, under the spelling most used, then the shortest.
        ([["0.5", "7", r"\frac{1}{2}", "1/2", "7"]], Verdict("0.5", (Votes("0.5", 3), Votes("7", 2)))),
        ([[r"\frac12", "0.5", r"\frac12"]], Verdict(r"\frac12", (Votes(r"\frac12", 3),))),
        ([["(x+1)^2", "x^2+2x+1", "x"]], Verdict("(x+1)^2", (Votes("(x+1)^2", 2), Votes("x", 1)))),
        # No answer never wins against an answer.
        ([[None, None, "4"]], Verdict("4", (Votes("4", 1),), unanswered=2)),
        ([[None, None]], Verdict(None, unanswered=2)),
        ([[]], Verdict(None)),
        # A tie goes to the round before …
        ([["5", "5", "4"], ["4", "5"]], Verdict("5", (Votes("5", 1), Votes("4", 1)), tie=True)),
        ([["5.0", "4"], ["5", "5", None], ["4", "5"]], Verdict("5", (Votes("5", 1), Votes("4", 1)), tie=True)),
        # … and the one before that …
        ([["5", "5"], ["4", "5"], ["4", "5"]], Verdict("5", (Votes("5", 1), Votes("4", 1)), tie=True)),
        # … then to the shorter spelling, then to the alphabet.
        ([["4", "12"]], Verdict("4", (Votes("4", 1), Votes("12", 1)), tie=True)),
        ([["9", "12"], ["12", "9"]], Verdict("9", (Votes("9", 1), Votes("12", 1)), tie=True)),
        ([["b", "a"]], Verdict("a", (Votes("a", 1), Votes("b", 1)), tie=True)),
        # Earlier rounds do not count without a tie.
        ([["5"] * 9, ["4", "4", "5"]], Verdict("4", (Votes("4", 2), Votes("5", 1)))),
        # Only those with the most votes are tied.
        ([["6"] * 3, ["4", "4", "5", "5", "6"]], Verdict("4", (Votes("4", 2), Votes("5", 2), Votes("6", 1)), tie=True)),
    ],
)
def test_verdicts(rounds, verdict, grader):
    assert voted(*rounds, grader=grader) == verdict


def test_a_vote_needs_a_round(grader):
    with pytest.raises(ValueError, match="at least one round"):
        voted(grader=grader)


def test_equal_spellings_are_never_compared_and_earlier_rounds_only_for_a_tie():
    with CountingGrader() as grader:
        voted(["7", "8", "9"], ["4"] * 100, grader=grader)
        assert grader.pairs == []
        voted(["7", "8", "9"], ["4", "5", "4"], grader=grader)
        assert grader.pairs == [("5", "4")]
        grader.pairs.clear()
        voted(["4", "8"], ["4", "5"], grader=grader)
        assert grader.pairs == [("5", "4"), ("8", "4"), ("8", "5")]


def test_an_equality_that_is_not_transitive_groups_by_the_shortest(grader):
    answers = ["5 \\text{ m}", "5 \\text{ cm}", "5"]
    classes = asyncio.run(group_equal(answers, grader=grader))
    assert classes == dict.fromkeys(answers, "5")


def test_the_plain_core_takes_any_grouping():
    classes = {"a": "a", "b": "b", "c": "a"}
    assert decide([["b"], ["c", "b"]], classes) == Verdict("b", (Votes("b", 1), Votes("c", 1)), tie=True)


ANSWERS = st.sampled_from(
    [None, "1/2", "0.5", r"\frac{1}{2}", "2", "2.0", "3", "12", "5", r"5\text{ cm}", r"5\text{ m}"]
)
ROUNDS = st.lists(st.lists(ANSWERS, max_size=5), min_size=1, max_size=3)


@settings(max_examples=60)
@given(rounds=ROUNDS, data=st.data())
def test_seats_have_no_weight(rounds, data, grader):
    shuffled = [data.draw(st.permutations(answers)) for answers in rounds]
    assert voted(*shuffled, grader=grader) == voted(*rounds, grader=grader)


@settings(max_examples=60)
@given(rounds=ROUNDS)
def test_every_voter_is_counted_once_and_the_winner_has_the_most_votes(rounds, grader):
    verdict = voted(*rounds, grader=grader)
    counts = [one.count for one in verdict.votes]
    assert verdict.voters == len(rounds[-1])
    assert counts == sorted(counts, reverse=True)
    assert verdict.unanswered == rounds[-1].count(None)
    assert (verdict.answer is None) == (not counts)
    assert verdict.tie == (counts[:1] == counts[1:2] and bool(counts))
    if counts:
        assert verdict.answer == verdict.votes[0].answer
        assert verdict.answer in rounds[-1]
