"""The vote: equal answers together, ties by the stated rule, seats without weight."""

import asyncio
import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mada.debate.transcript import Response, Verdict, Votes
from mada.debate.verdict import apply_rule, group_equal, pick, vote, weigh
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


def plain(*answers):
    """Classes in which `x'` is another spelling of `x`, and nothing else is equal."""
    return {answer: answer.rstrip("'") for answer in answers if answer is not None}


def picked(*rounds):
    return pick(rounds, plain(*(answer for answers in rounds for answer in answers)))


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        # The judge's choice wins against the majority of the candidates.
        ([["4", "4", "5"], ["5"]], Verdict("5", (Votes("5", 1),))),
        # Support is counted in the last round, not in the first.
        ([["4", "4", "5"], ["5", "5", "4"]], Verdict("5", (Votes("5", 2), Votes("4", 1)))),
        # A tie goes to the answer that more candidates gave …
        ([["5", "9", "9"], ["5", "9"]], Verdict("9", (Votes("9", 1), Votes("5", 1)), tie=True)),
        # … then to the shorter spelling, then to the alphabet.
        ([["12", "7"], ["12", "7"]], Verdict("7", (Votes("7", 1), Votes("12", 1)), tie=True)),
        ([["b", "a"], ["b", "a"]], Verdict("a", (Votes("a", 1), Votes("b", 1)), tie=True)),
        # New answers never win, however many give them; who gives them has chosen nothing.
        ([["4", "5"], ["6", "6", "5", None]], Verdict("5", (Votes("5", 1),), unanswered=3)),
        # If nobody names a candidate, the candidates' own vote decides, with its own ties and silences.
        ([["4", "5", "5", None], ["6", None]], Verdict("5", (Votes("5", 2), Votes("4", 1)), unanswered=1)),
        ([["4", "5"], []], Verdict("4", (Votes("4", 1), Votes("5", 1)), tie=True)),
        ([[None, None], ["6"]], Verdict(None, unanswered=2)),
        # Equal answers are one candidate and one choice, spelled as most of the candidates spell it.
        ([["5'", "5'", "5", "4"], ["5", "4'", "5"]], Verdict("5'", (Votes("5'", 2), Votes("4", 1)))),
        # Rounds between the first and the last have no say.
        ([["4", "5"], ["4", "4"], ["5"]], Verdict("5", (Votes("5", 1),))),
        ([["4", "5", "5"]], Verdict("5", (Votes("5", 2), Votes("4", 1)))),
    ],
)
def test_picks(rounds, verdict):
    assert picked(*rounds) == verdict


SPELLED = st.sampled_from([None, "4", "4'", "5", "5''", "12", "a", "b"])
SPELLED_ROUNDS = st.lists(st.lists(SPELLED, max_size=5), min_size=2, max_size=3)


@given(rounds=SPELLED_ROUNDS)
def test_what_is_picked_is_always_a_candidate(rounds):
    verdict = picked(*rounds)
    assert (verdict.answer is None) == all(answer is None for answer in rounds[0])
    assert verdict.answer is None or verdict.answer in rounds[0]
    named = [answer for answer in rounds[-1] if answer and answer.rstrip("'") in plain(*rounds[0]).values()]
    assert verdict.voters == (len(rounds[-1]) if named else len(rounds[0]))


def replies(answers, probabilities):
    """Responses that are as sure of themselves as these mean probabilities say; None for an engine that is silent."""
    return [
        Response("", answer, 1, mean_log_prob=None if one is None else math.log(one))
        for answer, one in zip(answers, probabilities, strict=True)
    ]


@pytest.mark.parametrize(
    ("answers", "probabilities", "verdict"),
    [
        # 0.25 + 0.25 < 0.75: one who is sure outweighs two who are not, and counts stay those of voters.
        (["4", "4", "5"], [0.25, 0.25, 0.75], Verdict("5", (Votes("5", 1), Votes("4", 2)))),
        (["4", "4", "5"], [0.5, 0.5, 0.75], Verdict("4", (Votes("4", 2), Votes("5", 1)))),
        # A tie of weights is a tie, whatever the counts; the shorter spelling wins it.
        (["12", "12", "7"], [0.25, 0.25, 0.5], Verdict("7", (Votes("7", 1), Votes("12", 2)), tie=True)),
        # Equal answers weigh together: 0.5 + 0.25 against 0.625.
        (["5", "4", "5'"], [0.5, 0.625, 0.25], Verdict("5", (Votes("5", 2), Votes("4", 1)))),
        # Silence weighs nothing, however sure.
        (["4", None], [0.125, 1.0], Verdict("4", (Votes("4", 1),), unanswered=1)),
        ([None], [0.5], Verdict(None, unanswered=1)),
        # Without log-probabilities everybody weighs 1.
        (["4", "5", "5"], [None] * 3, Verdict("5", (Votes("5", 2), Votes("4", 1)))),
        (["4", "5", "5"], [None, 0.25, 0.5], Verdict("4", (Votes("4", 1), Votes("5", 2)))),
    ],
)
def test_weighted_votes(answers, probabilities, verdict):
    assert weigh([replies(answers, probabilities)], plain(*answers)) == verdict


# Powers of a half: their sums are exact in any order.
WEIGHED = st.lists(st.tuples(SPELLED, st.sampled_from([1.0, 0.5, 0.25, 0.125])), max_size=5)


@given(said=WEIGHED, data=st.data())
def test_seats_have_no_weight_in_a_weighted_vote(said, data):
    def weighed(pairs):
        answers = [answer for answer, _ in pairs]
        return weigh([replies(answers, [one for _, one in pairs])], plain(*answers))

    assert weighed(data.draw(st.permutations(said))) == weighed(said)


def test_each_rule_settles_in_its_own_way():
    """Three rules, three answers: the last vote, the candidate with most support, the surest of the last round."""
    rounds = [replies(["4", "5", "5"], [0.5] * 3), replies(["6", "6", "4", "7"], [0.125, 0.125, 0.25, 0.5])]
    classes = plain("4", "5", "6", "7")
    assert apply_rule("vote", rounds, classes) == Verdict("6", (Votes("6", 2), Votes("4", 1), Votes("7", 1)))
    assert apply_rule("pick", rounds, classes) == Verdict("4", (Votes("4", 1),), unanswered=3)
    assert apply_rule("weigh", rounds, classes).answer == "7"


def test_a_settled_vote_breaks_ties_by_the_rounds_before_as_a_vote_does(grader):
    answers = [["5", "5", "4"], ["4", "5"]]
    settled = apply_rule("vote", [[Response("", one, 1) for one in given] for given in answers], plain("4", "5"))
    assert settled == voted(*answers, grader=grader) == Verdict("5", (Votes("5", 1), Votes("4", 1)), tie=True)


def test_the_order_of_seats_does_not_settle_a_weighted_tie():
    """Sums of the same three weights in two orders differ in their last digit, unless they are exact."""

    def weighed(order):
        pairs = [*(("4", one) for one in (-0.583, -0.908, -0.505)), *(("12", one) for one in order)]
        responses = [Response("", answer, 1, mean_log_prob=one) for answer, one in pairs]
        return weigh([responses], {"4": "4", "12": "12"})

    verdicts = [weighed(order) for order in permutations((-0.505, -0.583, -0.908))]
    assert len(set(verdicts)) == 1
    assert (verdicts[0].answer, verdicts[0].tie) == ("4", True)
