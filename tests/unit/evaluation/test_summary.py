"""Summaries by hand, and scores that do not fit together."""

import math
from dataclasses import replace

import pytest

from mada.errors import EvaluationError
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.statistics import Estimate, welch
from mada.evaluation.summary import summarize

PLAN = EvaluationPlan(
    systems=(
        PlannedSystem(name="base", title="Base", calls=1),
        PlannedSystem(name="debate", title="Debate", calls=4),
        PlannedSystem(name="voting", title="Vote", measure="vote", calls=2),
    ),
    reference="base",
)


def score(system, benchmark, seed, problem, accuracy, vote=False, first=False, rounds=1, **others):
    return replace(
        Score(
            system=system,
            benchmark=benchmark,
            seed=seed,
            problem=problem,
            accuracy=accuracy,
            vote_correct=vote,
            first_vote_correct=first,
            tie=False,
            round_accuracies=(accuracy,) * rounds,
            answers=((None,),) * rounds,
            correct=((False,),) * rounds,
            generated_tokens=100,
            prompt_tokens=10,
            calls=4,
            truncated=0,
            unanswered=0,
            shortened=0,
        ),
        **others,
    )


def tiny():
    """Two seeds; benchmark `small` has one problem, `large` two."""
    places = [(benchmark, seed, problem) for seed in (0, 1) for benchmark, problem in PROBLEMS]
    base = [score("base", *place, accuracy=1.0 if place[0] == "small" else 0.0) for place in places]
    debate_accuracies = [1.0, 0.5, 0.0, 0.5, 1.0, 1.0]
    votes = [(True, True), (False, True), (True, False), (True, False), (True, False), (False, False)]  # last, first
    debate = [
        score("debate", *place, accuracy, *vote, rounds=2, generated_tokens=tokens, unanswered=place[1], tie=vote[0])
        for place, accuracy, vote, tokens in zip(
            places, debate_accuracies, votes, (100, 200, 300, 100, 200, 300), strict=True
        )
    ]
    voting = [score("voting", *place, accuracy=0.25, vote=place[0] == "large") for place in places]
    return [*base, *debate, *voting]


PROBLEMS = [("small", "s1"), ("large", "l1"), ("large", "l2")]


def numbers(estimate):
    return estimate.mean, estimate.standard_error, estimate.count


def test_a_summary_by_hand():
    summary = summarize(reversed(tiny()), PLAN)
    base, debate, voting = summary.systems
    assert summary.benchmarks == {"large": 2, "small": 1}
    assert summary.seeds == (0, 1)
    assert summary.reference.name == "base"
    assert [one.system.title for one in summary.systems] == ["Base", "Debate", "Vote"]

    # Each benchmark weighs one half, whatever its size.
    assert base.accuracy == Estimate(0.5, 0, 2)
    assert base.improves is base.damages is base.against_reference is None

    # Seed 0: small 1, large (0.5 + 0)/2 = 0.25; seed 1: small 0.5, large 1.
    assert numbers(debate.benchmarks["small"]) == pytest.approx((0.75, 0.25, 2))
    assert numbers(debate.benchmarks["large"]) == pytest.approx((0.625, 0.375, 2))
    assert debate.seed_averages == (0.625, 0.75)
    assert numbers(debate.accuracy) == pytest.approx((0.6875, 0.0625, 2))
    # Votes: seed 0 small 1, large (0 + 1)/2; seed 1 small 1, large (1 + 0)/2.
    assert debate.vote == Estimate(0.75, 0, 2)
    # Improves: seed 0 large l2 → (0 + 1/2)/2; seed 1 small and large l1 → (1 + 1/2)/2.
    assert debate.improves == pytest.approx((0.25 + 0.75) / 2)
    # Damages: seed 0 large l1 → 1/4; seed 1 none.
    assert debate.damages == pytest.approx(0.125)
    # Tokens: seed 0 (100 + 250)/2, seed 1 (100 + 250)/2.
    assert debate.tokens == 175
    # One of four turns of every question of seed 1.
    assert debate.unanswered == pytest.approx(0.125)
    assert debate.truncated == 0
    assert debate.ties == debate.vote.mean
    assert debate.against_reference is not None
    assert debate.against_reference == welch([0.625, 0.75], [0.5, 0.5])
    # t = 0.1875 / 0.0625 = 3 with one degree of freedom: p = 1 − 2·atan(3)/π.
    assert debate.against_reference.p == pytest.approx(1 - 2 * math.atan(3) / math.pi)

    # Measured by its vote: right on `large` alone, whatever the mean is.
    assert voting.accuracy == voting.vote == Estimate(0.5, 0, 2)
    assert voting.against_reference is not None
    assert voting.against_reference.p == 1


def test_the_plan_gives_the_order_of_benchmarks():
    plan = PLAN.model_copy(update={"benchmarks": ("small", "large")})
    assert list(summarize(tiny(), plan).benchmarks) == ["small", "large"]
    with pytest.raises(EvaluationError, match="the plan has small, other"):
        summarize(tiny(), PLAN.model_copy(update={"benchmarks": ("small", "other")}))


@pytest.mark.parametrize("left_out", [0, 5, 8, 17])
def test_ragged_scores_are_refused(left_out):
    scores = tiny()
    gone = scores.pop(left_out)
    with pytest.raises(EvaluationError, match=f"1 of the 6 scores of '{gone.system}' are missing.*{gone.problem}"):
        summarize(scores, PLAN)


def test_a_system_without_scores_and_a_benchmark_with_fewer_seeds_are_refused():
    with pytest.raises(EvaluationError, match="6 of the 6 scores of 'debate' are missing"):
        summarize([one for one in tiny() if one.system != "debate"], PLAN)
    with pytest.raises(EvaluationError, match="1 of the 6 scores of 'base' are missing"):
        summarize([one for one in tiny() if (one.benchmark, one.seed) != ("small", 1)], PLAN)


def test_strange_repeated_and_no_scores_are_refused():
    with pytest.raises(EvaluationError, match="'other', which is none of base, debate, voting"):
        summarize([*tiny(), score("other", "small", 0, "s1", 1)], PLAN)
    with pytest.raises(EvaluationError, match="'base' on small with seed 0, problem 's1' is scored twice"):
        summarize([*tiny(), tiny()[0]], PLAN)
    with pytest.raises(EvaluationError, match="no scores"):
        summarize([], PLAN)
