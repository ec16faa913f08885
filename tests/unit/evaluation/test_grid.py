"""Scores in their places, what a family is the mean of, and scores that do not fit together."""

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_score
from mada.errors import EvaluationError
from mada.evaluation.grid import MEASURES, Grid, score_key
from mada.evaluation.plan import EvaluationPlan, PlannedSystem

FIRST = PlannedSystem(name="first", title="First", generators=("g1", "g2"), shown=False)
SECOND = PlannedSystem(name="second", title="Second", generators=("g1", "g2"))
FAMILY = PlannedSystem(name="family", title="Both", members=("first", "second"))
PLAN = EvaluationPlan(systems=(FIRST, SECOND, FAMILY), reference="second")
# Benchmark `small` has one problem, `large` two; there are two seeds.
QUESTIONS = [(benchmark, seed, problem) for seed in (1, 0) for benchmark, problem in (
    ("small", "s1"), ("large", "l2"), ("large", "l1"),
)]  # fmt: skip


def score(system, benchmark, seed, problem, right, *, verdict=False):
    """A score of two answers, of which so many are right."""
    correct = [[right > 0, right > 1]]
    return make_score(system, (benchmark, seed, problem), correct, verdict_correct=verdict, tie=True, tokens=((3, 4),))


def scores(first=(2, 1, 0, 1, 2, 2), second=(0, 0, 0, 0, 0, 0), verdicts=(True, False, False, True, True, False)):
    return [
        *(score("first", *place, right) for place, right in zip(QUESTIONS, first, strict=True)),
        *(
            score("second", *place, right, verdict=verdict)
            for place, right, verdict in zip(QUESTIONS, second, verdicts, strict=True)
        ),
    ]


def tables(grid, system, value):
    return {name: values.tolist() for name, values in grid.values(system, value).items()}


def accuracy(score):
    return score.accuracy


def test_values_have_a_row_per_problem_and_a_column_per_seed():
    grid = Grid.of(scores(), PLAN)
    assert grid.seeds == (0, 1)
    assert grid.problems == {"large": ("l1", "l2"), "small": ("s1",)}
    assert tables(grid, FIRST, accuracy) == {"large": [[1, 0], [1, 0.5]], "small": [[0.5, 1]]}
    assert grid.mean(FIRST, "large", 0, value=accuracy) == 1
    assert grid.mean(FIRST, "large", 1, value=accuracy) == 0.25
    # Each benchmark weighs one half: seed 0 (1 + 0.5)/2, seed 1 (0.25 + 1)/2.
    assert grid.seed_averages(FIRST, accuracy) == [0.75, 0.625]
    assert grid.average(FIRST, accuracy) == 0.6875


def test_a_system_is_measured_by_its_answers_or_by_its_verdict():
    grid = Grid.of(scores(), PLAN)
    assert tables(grid, SECOND, MEASURES["verdict"]) == {"large": [[0, 0], [1, 0]], "small": [[1, 1]]}
    assert tables(grid, SECOND, MEASURES["mean"]) == {"large": [[0, 0], [0, 0]], "small": [[0, 0]]}


def test_a_family_is_the_mean_of_its_members_on_every_question():
    grid = Grid.of(scores(second=(0, 1, 2, 1, 2, 0)), PLAN)
    assert tables(grid, FAMILY, MEASURES["mean"]) == {"large": [[0.5, 0.5], [1, 0.5]], "small": [[0.5, 0.5]]}
    assert [one.name for one in grid.members_of(FAMILY)] == ["first", "second"]
    assert [one.name for one in grid.members_of(FIRST)] == ["first"]
    assert len(list(grid.scores_of(FAMILY))) == 12
    assert {score_key(one) for one in grid.scores_of(FAMILY)} == set(grid.scores)
    assert {one.system for one in grid.scores_of(SECOND)} == {"second"}


@given(st.lists(st.integers(0, 2), min_size=12, max_size=12), st.sampled_from([FIRST, SECOND, FAMILY]))
def test_many_averages_at_once_are_what_each_is_alone(right, system):
    grid = Grid.of(scores(first=right[:6], second=right[6:]), PLAN)
    averages = grid.averages(system, lambda score: {sum(score.correct[0]): 1.0})
    for count in range(3):
        alone = fmean(grid.seed_averages(system, lambda score, count=count: sum(score.correct[0]) == count))
        assert averages.get(count, 0) == pytest.approx(alone)


def test_the_plan_gives_the_order_of_benchmarks():
    assert list(Grid.of(scores(), PLAN.model_copy(update={"benchmarks": ("small", "large")})).problems) == [
        "small",
        "large",
    ]
    with pytest.raises(EvaluationError, match="the plan has small, other"):
        Grid.of(scores(), PLAN.model_copy(update={"benchmarks": ("small", "other")}))


@pytest.mark.parametrize("left_out", [0, 5, 8, 11])
def test_ragged_scores_are_refused(left_out):
    ragged = scores()
    gone = ragged.pop(left_out)
    with pytest.raises(EvaluationError, match=f"1 of the 6 scores of '{gone.system}' are missing.*{gone.problem}"):
        Grid.of(ragged, PLAN)


def test_a_system_without_scores_and_a_benchmark_with_fewer_seeds_are_refused():
    with pytest.raises(EvaluationError, match="6 of the 6 scores of 'second' are missing"):
        Grid.of(scores()[:6], PLAN)
    with pytest.raises(EvaluationError, match="1 of the 6 scores of 'first' are missing"):
        Grid.of([one for one in scores() if (one.benchmark, one.seed) != ("small", 1)], PLAN)


def test_strange_repeated_and_no_scores_are_refused():
    with pytest.raises(EvaluationError, match="'other', which is none of first, second"):
        Grid.of([*scores(), replace(scores()[0], system="other")], PLAN)
    with pytest.raises(EvaluationError, match="'family', which is none of first, second"):
        Grid.of([*scores(), replace(scores()[0], system="family")], PLAN)
    with pytest.raises(EvaluationError, match="'first' on small with seed 1, problem 's1' is scored twice"):
        Grid.of([*scores(), scores()[0]], PLAN)
    with pytest.raises(EvaluationError, match="no scores"):
        Grid.of([], PLAN)
