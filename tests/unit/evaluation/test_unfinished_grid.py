"""The grid of an evaluation that may still go on: seeds that count, seeds that are left out, and no seed at all."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factories import make_score
from mada.errors import EvaluationError
from mada.evaluation.grid import MEASURES, Grid, Omitted, score_key
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.problems import Problem

FIRST = PlannedSystem(name="first", title="First", generators=("g",))
SECOND = PlannedSystem(name="second", title="Second", generators=("g",), shown=False)
THIRD = PlannedSystem(name="third", title="Third", generators=("g",))
FAMILY = PlannedSystem(name="family", title="Both", members=("first", "second"))
PLAN = EvaluationPlan(systems=(FIRST, SECOND, FAMILY), reference="first", benchmarks=("small", "large"))
QUESTIONS = (("small", "s1"), ("large", "l1"), ("large", "l2"))
SEEDS = (0, 3, 7)


def score(system, benchmark, seed, problem):
    # Right where the seed is not 3, so that a mean tells which seeds are in it.
    return make_score(system, (benchmark, seed, problem), [[seed != 3]])


SCORES = [
    score(system, benchmark, seed, problem)
    for seed in SEEDS
    for benchmark, problem in QUESTIONS
    for system in ("first", "second")
]


def without(*gone):
    """All scores but those of these systems, seeds and problems."""
    return [one for one in SCORES if (one.system, one.seed, one.problem) not in gone]


def averages(grid):
    return grid.seed_averages(FIRST, MEASURES["verdict"])


def test_a_finished_evaluation_leaves_nothing_out():
    grid, left_out = Grid.of_finished(reversed(SCORES), PLAN)
    assert not left_out
    assert grid == Grid.of(SCORES, PLAN)
    assert averages(grid) == [1, 0, 1]


@pytest.mark.parametrize("system", ["first", "second"])
@pytest.mark.parametrize("problem", ["s1", "l1", "l2"])
def test_one_answer_too_few_leaves_its_seed_out(system, problem):
    grid, left_out = Grid.of_finished(without((system, 3, problem)), PLAN)
    assert left_out == Omitted((3,))
    assert grid is not None
    assert grid.seeds == (0, 7)
    assert grid.problems == {"small": ("s1",), "large": ("l1", "l2")}
    assert averages(grid) == [1, 1]
    assert grid.scores == {score_key(one): one for one in SCORES if one.seed != 3}


def test_without_a_whole_seed_the_reference_decides_and_others_are_left_out():
    """The second system has not finished any seed, the first two of three."""
    gone = [*(("second", seed, "l2") for seed in SEEDS), ("first", 7, "s1")]
    grid, left_out = Grid.of_finished(without(*gone), PLAN)
    assert left_out == Omitted((7,), ("second",))
    assert str(left_out) == "seed 7 and system second"
    assert grid is not None
    assert grid.seeds == (0, 3)
    assert averages(grid) == [1, 0]
    assert [system.name for system in grid.plan.systems] == ["first"], "nor is there a family without a member"
    assert {one.system for one in grid.scores.values()} == {"first"}


def test_a_system_that_has_finished_all_seeds_of_the_reference_stays():
    plan = PLAN.model_copy(update={"systems": (*PLAN.systems, THIRD)})
    third = [replace(one, system="third") for one in SCORES if one.system == "first"]
    begun = [*without(("second", 0, "l2"), ("second", 3, "l2"), ("second", 7, "l2")), *third]
    grid, left_out = Grid.of_finished(begun, plan)
    assert left_out == Omitted((), ("second",))
    assert grid is not None
    assert [system.name for system in grid.plan.systems] == ["first", "third"]
    assert grid.seeds == SEEDS


def test_without_a_whole_seed_of_the_reference_there_is_no_grid():
    assert Grid.of_finished([one for one in SCORES if one.system == "second"], PLAN) == (None, Omitted(SEEDS))
    begun = without(*(("first", seed, "l2") for seed in SEEDS))
    assert Grid.of_finished(begun, PLAN) == (None, Omitted(SEEDS))
    both = EvaluationPlan(systems=PLAN.systems, reference="family", benchmarks=PLAN.benchmarks)
    assert Grid.of_finished([one for one in SCORES if one.system == "first"], both) == (None, Omitted(SEEDS))


def test_the_plan_knows_of_questions_that_nobody_has_begun():
    """The first seed looks whole after every question that all systems have answered; by the plan it is not."""
    begun = [one for one in SCORES if one.seed == 0 and one.problem != "l2"]
    assert Grid.of_finished(begun, PLAN)[1] == Omitted(), "without the number of problems nobody could tell"
    counted = PLAN.with_problems(
        {
            name: [Problem(question="?", answer="1", id=one, source="here") for one in ids]
            for name, ids in {"small": ["s1"], "large": ["l1", "l2"]}.items()
        }
    )
    assert counted.problems == {"small": 1, "large": 2}
    assert Grid.of_finished(begun, counted) == (None, Omitted((0,)))
    grid, left_out = Grid.of_finished([one for one in SCORES if one.seed == 0] + [SCORES[-1]], counted)
    assert grid is not None
    assert (grid.seeds, left_out) == ((0,), Omitted((7,)))


def test_a_benchmark_that_the_plan_does_not_have_is_a_mistake():
    other = EvaluationPlan(systems=PLAN.systems, reference="first", benchmarks=("small", "huge"))
    with pytest.raises(EvaluationError, match="scores of the benchmarks large, small, and the plan has small, huge"):
        Grid.of_finished(SCORES, other)


@given(st.sets(st.sampled_from(SCORES)))
def test_left_out_are_exactly_the_seeds_with_gaps(gone):
    kept = [one for one in SCORES if one not in gone]
    with_gaps = {one.seed for one in gone}
    begun = {one.seed for one in kept}
    # Without a whole seed, the questions that are known are not all.
    assume(not begun <= with_gaps)
    grid, left_out = Grid.of_finished(kept, PLAN)
    assert left_out == Omitted(tuple(sorted(begun & with_gaps)))
    assert grid == Grid.of([one for one in SCORES if one.seed not in with_gaps], PLAN)
