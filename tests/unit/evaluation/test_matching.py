"""Matched budgets by hand: how many samples another system's tokens allow, and how they are shared out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.errors import EvaluationError
from mada.evaluation.kinds import debate_of, judged, vote_of
from mada.evaluation.matching import TokenLedger, share_out
from mada.evaluation.scores import Score


def score(system, agents, tokens, benchmark="b"):
    """A score with these agents and generated tokens in every round; all else does not matter here."""
    shape = tuple(tuple(0 for _ in row) for row in tokens)
    return Score(
        system=system,
        benchmark=benchmark,
        seed=0,
        problem="p",
        agents=tuple(map(tuple, agents)),
        answers=tuple(tuple("1" for _ in row) for row in tokens),
        groups=shape,
        correct=tuple(tuple(True for _ in row) for row in tokens),
        verdict_correct=True,
        first_vote_correct=True,
        tie=False,
        tokens=tuple(map(tuple, tokens)),
        prompts=shape,
        truncated=0,
        shortened=0,
    )


def ledger(*scores):
    made = TokenLedger()
    for one in scores:
        made.add(one)
    return made


def matched(*agents):
    return vote_of("matched", "Matched", agents, matched_to="debate")


JUDGE = judged("judge", "Judge", ["g"], judge="g", matched_to="debate")
DEBATE = [
    score("debate", [["g", "h"], ["c"]], [[100, 300], [600]]),
    score("debate", [["g", "h"], ["c"]], [[200, 200], [1000]]),
]
# The debate has 1,200 tokens a question; a sample of g has (100 + 200) / 2 = 150, of h (300 + 200) / 2 = 250.


@pytest.mark.parametrize(
    ("agents", "samples"),
    [
        (["g"], 1200 / 150),
        (["h"], 1200 / 250),
        # In turns, a sample has the mean of the two: 200 tokens. A name that is there twice is one agent.
        (["g", "h"], 1200 / 200),
        (["g", "g", "h"], 1200 / 200),
    ],
)
def test_samples_are_the_tokens_of_the_other_over_those_of_one_sample(agents, samples):
    assert ledger(*DEBATE).samples(matched(*agents), "b", in_pilot=False) == pytest.approx(samples)


def test_all_systems_tell_how_long_an_agents_samples_are_and_only_its_first_rounds_count():
    # g's samples: 100, 200 and 450, so 250 each; what g says as a critic is no sample of it.
    more = [score("single", [["g"]], [[450]]), score("other", [["h"], ["g"]], [[250], [9000]])]
    assert ledger(*DEBATE, *more).samples(matched("g"), "b", in_pilot=False) == pytest.approx(1200 / 250)


def test_benchmarks_are_matched_by_themselves():
    hard = score("debate", [["g", "h"], ["c"]], [[400, 400], [400]], benchmark="hard")
    both = ledger(*DEBATE, hard)
    assert both.samples(matched("g"), "b", in_pilot=False) == pytest.approx(8)
    assert both.samples(matched("g"), "hard", in_pilot=False) == pytest.approx(3)


def test_a_judge_that_nobody_has_heard_is_taken_to_write_as_much_as_a_sample_has():
    assert ledger(*DEBATE).samples(JUDGE, "b", in_pilot=True) == pytest.approx(1200 / 150 - 1)
    assert ledger(*DEBATE).samples(JUDGE, "b", in_pilot=False) == pytest.approx(1200 / 150 - 1)


def test_after_the_pilot_the_judges_own_words_are_spared_out_of_the_budget():
    heard = ledger(*DEBATE)
    for tokens in (10, 20, 60):
        # What the samples of the pilot cost does not matter, nor what a judge says elsewhere or somebody else here.
        heard.add_pilot(score("judge", [["g", "g"], ["g"]], [[7000, 1], [tokens]]))
    heard.add_pilot(score("judge", [["g"], ["g"]], [[1], [999]], benchmark="hard"))
    heard.add_pilot(score("other", [["g"], ["g"]], [[1], [999]]))
    assert heard.samples(JUDGE, "b", in_pilot=False) == pytest.approx((1200 - 30) / 150)
    assert heard.samples(JUDGE, "b", in_pilot=True) == pytest.approx(1200 / 150 - 1), "the pilot stays what it was"
    assert heard.samples(matched("g"), "b", in_pilot=False) == pytest.approx(1200 / 150)


def test_a_judge_with_more_to_say_than_the_budget_allows_has_one_sample_to_judge():
    heard = ledger(*DEBATE)
    heard.add_pilot(score("judge", [["g"], ["g"]], [[150], [5000]]))
    assert heard.samples(JUDGE, "b", in_pilot=False) == 1


def test_there_is_always_one_sample():
    short = [score("debate", [["g"], ["c"]], [[10], [5]]), score("single", [["g"]], [[1000]])]
    assert ledger(*short).samples(matched("g"), "b", in_pilot=False) == 1
    assert ledger(*short).samples(JUDGE, "b", in_pilot=False) == 1
    silent = score("debate", [["g"], ["c"]], [[0], [0]])
    assert ledger(silent).samples(matched("g"), "b", in_pilot=False) == 1, "who says nothing divides nothing by zero"


@pytest.mark.parametrize(
    ("system", "benchmark"),
    [
        (matched("g", "stranger"), "b"),
        (matched("c"), "b"),  # only ever a critic
        (matched("g"), "elsewhere"),
        (vote_of("matched", "Matched", ["g"], matched_to="nobody"), "b"),
    ],
)
def test_what_is_not_known_is_refused_with_what_to_do_about_it(system, benchmark):
    with pytest.raises(EvaluationError) as caught:
        ledger(*DEBATE).samples(system, benchmark, in_pilot=False)
    assert str(caught.value) == (
        f"'matched' is to use as many tokens as {system.matched_to!r} on {benchmark}, and how many a sample of "
        f"{', '.join(system.generators)} has is not known; "
        "evaluate a system of fixed size with these generators too, such as a single agent"
    )


def test_a_system_can_be_matched_to_one_that_is_as_large_as_itself():
    same = debate_of("debate", "Debate", ["g"], critics=["g"], rounds=2)
    held = score("debate", [same.generators, same.critics], [[70], [70]])
    assert ledger(held).samples(matched("g"), "b", in_pilot=False) == 2


@pytest.mark.parametrize(
    ("mean", "numbers"),
    [
        (2.0, [2, 2, 2, 2]),
        (2.5, [2, 3, 2, 3]),
        (7 / 3, [2, 2, 3, 2, 2, 3]),
        (1.25, [1, 1, 1, 2, 1]),
        # A hair below six, as divisions leave it, is six.
        (6 - 1e-12, [6, 6, 6, 6]),
        (0.5, [1, 1, 1]),
    ],
)
def test_numbers_that_keep_the_mean(mean, numbers):
    assert [share_out(mean, place) for place in range(len(numbers))] == numbers


@given(mean=st.floats(1, 40), count=st.integers(1, 200))
def test_up_to_any_place_the_mean_is_kept(mean, count):
    numbers = [share_out(mean, place) for place in range(count)]
    assert min(numbers) >= 1
    assert max(numbers) - min(numbers) <= 1
    for place in range(1, count + 1):
        assert abs(sum(numbers[:place]) - math.floor(place * mean)) <= 1
        assert abs(sum(numbers[:place]) - place * mean) < 1 + 1e-6
