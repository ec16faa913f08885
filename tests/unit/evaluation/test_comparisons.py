"""What scores say beyond the table, by hand: two benchmarks of two and four problems, two seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from factories import make_score
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.statistics import bootstrap_mean, detectable_difference
from mada.evaluation.summary import accuracies_over_problems, against_reference, at_k, power_note, summarize

# Right answers of both seeds, problem by problem.
BETTER = {"a": [(1, 1), (1, 0)], "b": [(1, 1), (1, 1), (0, 0), (0, 0)]}
BASE = {"a": [(0, 0), (1, 0)], "b": [(1, 0), (0, 0), (0, 0), (0, 1)]}
# 1 − t/√(t² + 2) is the two-sided p of t with two degrees of freedom: difference 3/8, SE √2/8.
T = 0.375 / (math.sqrt(2) / 8)
P = 1 - T / math.sqrt(T**2 + 2)


def planned(name, *, generators=("g",), **others):
    return PlannedSystem(name=name, title=name.title(), generators=generators, **others)


def score(system, place, groups, *, verdict=None, right=(0,)):
    """One round of answers; those of group 0 are right."""
    correct = tuple(group in right for group in groups)
    answers = (tuple(None if group is None else str(group) for group in groups),)
    verdict = correct[0] if verdict is None else verdict
    return make_score(system, place, [correct], answers=answers, groups=(tuple(groups),), verdict_correct=verdict)


def scores(system, rights, **others):
    return [
        score(system, (benchmark, seed, f"{benchmark}{place}"), (0 if row[seed] else 1,), **others)
        for benchmark, rows in rights.items()
        for place, row in enumerate(rows)
        for seed in range(len(row))
    ]


@pytest.fixture
def grid():
    systems = (planned("better"), planned("base"), planned("same"))
    given = [*scores("better", BETTER), *scores("base", BASE), *scores("same", BASE)]
    return Grid.of(given, EvaluationPlan(systems=systems, reference="base"))


def test_against_the_reference_over_seeds(grid):
    better, same = against_reference(grid)
    assert (better.system.name, same.system.name) == ("better", "same")
    assert better.seeds.difference == pytest.approx(0.375)
    assert better.seeds.standard_error == pytest.approx(math.sqrt(2) / 8)
    assert better.seeds.p == pytest.approx(P)
    assert same.seeds.p == pytest.approx(1)
    # Two tests: the smaller p counts twice by either correction, the larger once.
    assert (better.holm, same.holm) == pytest.approx((2 * P, 1))
    assert (better.benjamini_hochberg, same.benjamini_hochberg) == pytest.approx((2 * P, 1))
    # On `a` the seeds have 1 and ½ against ½ and 0; on `b` always ½ against ¼.
    assert better.benchmarks["a"].difference == pytest.approx(0.5)
    assert better.benchmarks["a"].standard_error == pytest.approx(math.sqrt(2) / 4)
    assert (better.benchmarks["b"].difference, better.benchmarks["b"].p) == (0.25, 0.0)


def test_the_comparison_over_seeds_is_that_of_the_summary(grid):
    by_name = {one.system.name: one for one in summarize(grid).systems}
    for one in against_reference(grid):
        assert one.seeds == by_name[one.system.name].verdict.against_reference


def test_against_the_reference_over_problems(grid):
    better, same = against_reference(grid)
    # Weighted differences ¼, 0 | 1/16, ⅛, 0, −1/16 sum to ⅜: as far from 0 are 6 of 16 assignments of signs.
    assert better.permutation.difference == pytest.approx(0.375)
    assert better.permutation.p == pytest.approx(6 / 16)
    assert same.permutation.p == 1.0
    # Pairs of problem and seed: a0 twice and none lost; b0 once, b1 twice and b3 once lost.
    assert (better.pairs.pairs, better.pairs.first_better, better.pairs.second_better) == (12, 5, 1)
    assert better.pairs.comparison.difference == pytest.approx(0.375)
    # Right half of the time is not right: the better one has a0, b0 and b1, the base has nothing.
    counts = better.mcnemar
    assert (counts.both, counts.only_first, counts.only_second, counts.neither, counts.p) == (0, 3, 0, 3, 0.25)
    assert better.bootstrap == bootstrap_mean([np.array(BETTER[name]) - BASE[name] for name in BASE])
    assert better.bootstrap.value == pytest.approx(0.375)
    assert (same.bootstrap.low, same.bootstrap.high) == (0.0, 0.0)
    assert against_reference(grid) == [better, same]


def test_accuracies_over_problems_are_of_every_shown_system(grid):
    intervals = accuracies_over_problems(grid)
    assert list(intervals) == ["better", "base", "same"]
    assert intervals["better"] == bootstrap_mean(BETTER.values())
    assert intervals["better"].value == pytest.approx(0.625)


def test_a_family_is_compared_by_the_mean_of_its_members():
    systems = (
        planned("family", generators=(), members=("better", "base")),
        planned("better", shown=False),
        planned("base"),
    )
    given = [*scores("better", BETTER), *scores("base", BASE)]
    [family] = against_reference(Grid.of(given, EvaluationPlan(systems=systems, reference="base")))
    assert family.seeds.difference == pytest.approx(0.375 / 2)
    assert family.permutation.difference == pytest.approx(0.375 / 2)
    # (1 + 0) / 2 is a half, and a half is not right: only b0, with (1 + ½) / 2, is.
    assert (family.mcnemar.only_first, family.mcnemar.only_second) == (1, 0)


def test_one_seed_and_one_problem_leave_only_what_they_can_tell():
    systems = (planned("first"), planned("second"))
    given = [*scores("first", {"a": [(1,)]}), *scores("second", {"a": [(0,)]})]
    grid = Grid.of(given, EvaluationPlan(systems=systems, reference="second"))
    [one] = against_reference(grid)
    assert (one.seeds.difference, one.seeds.p, one.holm, one.benjamini_hochberg) == (1.0, None, None, None)
    assert (one.bootstrap.value, one.bootstrap.low) == (1.0, None)
    assert (one.permutation.p, one.mcnemar.p) == (1.0, 1.0)
    note = power_note(grid)
    assert (note.seeds, note.spread, note.detectable) == (1, None, None)
    assert note.benchmarks["a"].detectable is None


# Three samples of the one question and four of the other; 0 is right.
SAMPLES = {"p": (0, 0, 1), "q": (1, 1, None, 0)}


def test_pass_and_majority_at_k():
    vote = planned("vote", generators=("g",), matched_to="other")
    other = planned("other")
    given = [
        *(score("vote", ("x", seed, problem), groups) for seed in (0, 1) for problem, groups in SAMPLES.items()),
        *(score("other", ("x", seed, problem), (0,)) for seed in (0, 1) for problem in SAMPLES),
    ]
    [curve] = at_k(Grid.of(given, EvaluationPlan(systems=(vote, other), reference="other")))
    assert curve.system == vote
    assert [point.k for point in curve.points] == [1, 2, 3]
    # pass: ⅔ and ¼; 1 and ½; 1 and ¾. Of the pairs of q, two are a tie with a right one and one has it alone.
    assert [point.passed.mean for point in curve.points] == pytest.approx([11 / 24, 3 / 4, 7 / 8])
    assert [point.majority.mean for point in curve.points] == pytest.approx([11 / 24, (2 / 3 + 1 / 3) / 2, 5 / 8])
    assert {point.passed.standard_error for point in curve.points} == {0.0}


def test_a_group_is_right_if_most_of_it_is():
    vote = planned("vote", generators=("g",) * 3)
    one = score("vote", ("x", 0, "p"), (0, 0, 0))
    for correct, reached in [((True, True, False), 1.0), ((True, False, False), 0.0)]:
        grid = Grid.of(
            [replace(one, correct=(correct,))],
            EvaluationPlan(systems=(vote,), reference="vote"),
        )
        [curve] = at_k(grid)
        assert [point.majority.mean for point in curve.points] == [reached] * 3


@pytest.mark.parametrize(
    "others",
    [
        {"generators": ("g", "h")},
        {"generators": ("g",)},
        {"generators": ("g", "g"), "critics": ("c",), "rounds": 2},
        {"generators": ("g", "g"), "shown": False},
    ],
)
def test_other_systems_have_no_curve(others):
    system, reference = planned("some", **others), planned("reference")
    given = [
        score("some", ("x", 0, "p"), (0,) * len(system.generators)),
        score("reference", ("x", 0, "p"), (0,)),
    ]
    assert at_k(Grid.of(given, EvaluationPlan(systems=(system, reference), reference="reference"))) == []


def test_what_could_have_been_found(grid):
    note = power_note(grid)
    # All three systems have averages ¼ apart: a standard deviation of ¼ / √2.
    assert note.spread == pytest.approx(0.25 / math.sqrt(2))
    assert note.detectable == pytest.approx(detectable_difference(0.25 / math.sqrt(2), 2))
    assert list(note.benchmarks) == ["a", "b"]
    assert (note.benchmarks["a"].problems, note.benchmarks["a"].accuracy) == (2, 0.25)
    assert note.benchmarks["b"].detectable == detectable_difference(math.sqrt(0.25 * 0.75 / 4), 2)
