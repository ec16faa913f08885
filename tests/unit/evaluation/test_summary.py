"""Summaries by hand."""

import math

import pytest

from factories import make_score
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.statistics import Estimate, welch
from mada.evaluation.summary import summarize

BASE = PlannedSystem(name="base", title="Base", generators=("g",))
DEBATE = PlannedSystem(name="debate", title="Debate", generators=("g",) * 2, critics=("c",) * 2, rounds=2)
PLAN = EvaluationPlan(
    systems=(
        BASE,
        DEBATE,
        PlannedSystem(name="voting", title="Vote", generators=("g",) * 2),
    ),
    reference="base",
)
PROBLEMS = [("small", "s1"), ("large", "l1"), ("large", "l2")]
PLACES = [(benchmark, seed, problem) for seed in (0, 1) for benchmark, problem in PROBLEMS]


def score(system, benchmark, seed, problem, right, *, of=2, verdict=False, first=False, rounds=1, **others):
    """A score whose last round has `of` answers, so many of them right; every round is the same."""
    common = {"tokens": ((25,) * of,) * rounds, "prompts": ((10,) * of,) * rounds}
    common |= {"verdict_correct": verdict, "first_vote_correct": first}
    correct = [[index < right for index in range(of)]] * rounds
    return make_score(system, (benchmark, seed, problem), correct, **common | others)


def tiny():
    """Two seeds; benchmark `small` has one problem, `large` two."""
    base = [score("base", *place, int(place[0] == "small"), of=1, verdict=place[0] == "small") for place in PLACES]
    right = [2, 1, 0, 1, 2, 2]
    verdicts = [(True, True), (False, True), (True, False), (True, False), (True, False), (False, False)]
    debate = [
        score(
            "debate",
            *place,
            count,
            verdict=last,
            first=first,
            rounds=2,
            tie=last,
            tokens=((tokens, 50), (0, 50)),
            answers=(("1", "1"), ("1", None if place[1] else "1")),
            truncated=2 * (place[0] == "large"),
            unfit=place[2] == "l2",
        )
        for place, count, (last, first), tokens in zip(PLACES, right, verdicts, (0, 100, 200, 0, 100, 200), strict=True)
    ]
    voting = [score("voting", *place, 1, verdict=place[0] == "large") for place in PLACES]
    return [*base, *debate, *voting]


def numbers(estimate):
    return estimate.mean, estimate.standard_error, estimate.count


def test_a_summary_by_hand():
    summary = summarize(Grid.of(reversed(tiny()), PLAN))
    base, debate, voting = summary.systems
    assert summary.benchmarks == {"large": 2, "small": 1}
    assert summary.seeds == (0, 1)
    assert summary.reference.system.name == "base"
    assert [one.system.title for one in summary.systems] == ["Base", "Debate", "Vote"]

    # Each benchmark weighs one half, whatever its size.
    assert base.verdict.average == base.mean.average == Estimate(0.5, 0, 2)
    assert base.improves is base.damages is base.verdict.against_reference is base.mean.against_reference is None

    # Seed 0: small 1, large (0.5 + 0)/2 = 0.25; seed 1: small 0.5, large 1.
    assert numbers(debate.mean.benchmarks["small"]) == pytest.approx((0.75, 0.25, 2))
    assert numbers(debate.mean.benchmarks["large"]) == pytest.approx((0.625, 0.375, 2))
    assert debate.mean.seed_averages == (0.625, 0.75)
    assert numbers(debate.mean.average) == pytest.approx((0.6875, 0.0625, 2))
    # Verdicts: seed 0 small 1, large (0 + 1)/2; seed 1 small 1, large (1 + 0)/2.
    assert debate.verdict.average == Estimate(0.75, 0, 2)
    assert debate.verdict.benchmarks == {"large": Estimate(0.5, 0, 2), "small": Estimate(1, 0, 2)}
    # Improves: seed 0 large l2 → (0 + 1/2)/2; seed 1 small and large l1 → (1 + 1/2)/2.
    assert debate.improves == pytest.approx((0.25 + 0.75) / 2)
    # Damages: seed 0 large l1 → 1/4; seed 1 none.
    assert debate.damages == pytest.approx(0.125)
    # Tokens: small 100, large (200 + 300)/2, with both seeds.
    assert (debate.tokens, debate.prompt_tokens) == (175, 40)
    assert [one.calls for one in summary.systems] == [1, 4, 2]
    # One of four replies to every question of seed 1; two to every question of `large`; one to l2, half of `large`.
    assert debate.unanswered == pytest.approx(1 / 8)
    assert debate.truncated == pytest.approx(1 / 4)
    assert debate.unfit == pytest.approx(1 / 16)
    assert debate.ties == debate.verdict.average.mean
    # Each measure is compared with the reference's same one.
    assert debate.verdict.against_reference == welch([0.75, 0.75], [0.5, 0.5])
    assert debate.mean.against_reference == welch([0.625, 0.75], [0.5, 0.5])
    # t = 0.1875 / 0.0625 = 3 with one degree of freedom: p = 1 − 2·atan(3)/π.
    assert debate.mean.against_reference is not None
    assert debate.mean.against_reference.p == pytest.approx(1 - 2 * math.atan(3) / math.pi)

    # Its verdict is right on `large` alone, and one of its two answers everywhere.
    assert voting.verdict.benchmarks == {"large": Estimate(1, 0, 2), "small": Estimate(0, 0, 2)}
    assert voting.mean.benchmarks == {"large": Estimate(0.5, 0, 2), "small": Estimate(0.5, 0, 2)}
    assert voting.verdict.against_reference == welch([0.5, 0.5], [0.5, 0.5])


def test_calls_of_a_matched_system_are_a_mean():
    plan = EvaluationPlan(systems=(BASE,), reference="base")
    scores = [score("base", *place, 0, of=1 if place[0] == "small" else 4) for place in PLACES]
    [summary] = summarize(Grid.of(scores, plan)).systems
    assert summary.calls == pytest.approx(2.5)


def family(*members):
    return PlannedSystem(name="family", title="Family", members=tuple(member.name for member in members))


def test_a_family_is_shown_as_the_mean_of_its_members_who_are_not():
    other = DEBATE.model_copy(update={"name": "other"})
    hidden = [one.model_copy(update={"shown": False}) for one in (DEBATE, other)]
    plan = EvaluationPlan(systems=(BASE, *hidden, family(*hidden)), reference="base")
    scores = [one for one in tiny() if one.system != "voting"]
    # The other member is right nowhere and damages everything.
    others = [score("other", *place, 0, first=True, rounds=2, tokens=((0, 0), (0, 5))) for place in PLACES]
    summary = summarize(Grid.of([*scores, *others], plan))
    assert [one.system.name for one in summary.systems] == ["base", "family"]
    one = summary.systems[1]
    assert one.mean.seed_averages == pytest.approx((0.625 / 2, 0.75 / 2))
    assert one.verdict.seed_averages == pytest.approx((0.75 / 2, 0.75 / 2))
    assert one.improves == pytest.approx(0.5 / 2)
    assert one.damages == pytest.approx((0.125 + 1) / 2)
    assert one.tokens == pytest.approx((175 + 5) / 2)
    assert one.mean.benchmarks["small"].mean == pytest.approx(0.375)


@pytest.mark.parametrize("rule", ["pick", "weigh"])
def test_only_what_debates_can_improve_or_damage(rule):
    judge = DEBATE.model_copy(update={"rule": rule})
    scores = [one for one in tiny() if one.system != "voting"]
    plan = EvaluationPlan(systems=(BASE, judge, family(BASE, judge)), reference="base")
    assert [one.improves for one in summarize(Grid.of(scores, plan)).systems] == [None] * 3
    # One member that does not debate leaves its family without either.
    plan = EvaluationPlan(systems=(BASE, DEBATE, family(BASE, DEBATE)), reference="base")
    assert [one.damages for one in summarize(Grid.of(scores, plan)).systems] == [None, pytest.approx(0.125), None]
