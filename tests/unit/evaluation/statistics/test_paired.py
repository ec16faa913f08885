"""McNemar's test and the sign-flip test against scipy, statsmodels and enumeration."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

import mada.evaluation.statistics
from mada.evaluation.statistics import PairedCounts, mcnemar, paired_answers, paired_permutation, welch
from mada.seeds import rng


def verdicts(counts):
    """Verdicts of two systems with so many problems right by both, by the first, by the second, by neither."""
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def test_mcnemar_by_hand():
    # Six problems are right in one system only, five of them in the first: p = 2·(C(6,0) + C(6,1)) / 2⁶ = 14/64.
    found = mcnemar(*verdicts((3, 5, 1, 2)))
    assert found == PairedCounts(3, 5, 1, 2, found.p)
    assert found.p == pytest.approx(14 / 64)


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_mcnemar_equals_statsmodels_and_the_binomial_test(counts):
    both, only_first, only_second, neither = counts
    found = mcnemar(*verdicts(counts))
    assert (found.both, found.only_first, found.only_second, found.neither) == counts
    expected: Any = statsmodels_mcnemar([[both, only_first], [only_second, neither]], exact=True)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    if only_first + only_second:
        assert found.p == pytest.approx(stats.binomtest(only_first, only_first + only_second).pvalue, rel=1e-9)


def test_systems_that_never_part_give_no_evidence():
    assert mcnemar([True, False], [True, False]).p == 1
    assert paired_permutation([0.0, 0.0, 1e-17], seed=0).p == 1


@pytest.mark.parametrize(("first", "second"), [([True], [True, False]), ([], [])])
def test_mcnemar_refuses_other_problems(first, second):
    with pytest.raises(ValueError, match="same problems"):
        mcnemar(first, second)


def test_sign_flips_by_hand():
    # Of 2³ assignments only + + + and − − − have a mean as far from zero; the zero counts in the mean and has no sign.
    found = paired_permutation([0.1, 0.2, 0.3, 0.0], seed=0)
    assert found.p == 2 / 8
    assert found.difference == pytest.approx(0.15)
    assert found.standard_error == pytest.approx(stats.sem([0.1, 0.2, 0.3, 0.0]))
    assert (found.low, found.high) == (None, None)


def test_equal_sums_in_another_order_are_as_far_from_zero():
    # 0.1 + 0.2 − 0.3 is not 0 in floats: every assignment with the same sum must count, whatever its last digit.
    found = paired_permutation([0.1, 0.2, -0.3, 0.3], seed=0)
    sums = [1 * a + 2 * b - 3 * c + 3 * d for a, b, c, d in itertools.product((1, -1), repeat=4)]
    assert found.p == sum(abs(total) >= 3 for total in sums) / 16


@pytest.mark.parametrize("seed", range(4))
def test_enumerated_sign_flips_equal_scipy(seed):
    differences = rng(seed, "differences").normal(0.3, 0.6, size=6 + seed)
    expected: Any = stats.permutation_test(
        (differences, np.zeros_like(differences)),
        lambda first, second, axis: np.mean(first - second, axis=axis),
        permutation_type="samples",
        n_resamples=2 ** len(differences),  # as many as there are, so scipy enumerates them
        vectorized=True,
    )
    found = paired_permutation(differences.tolist(), seed=0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(expected.statistic)


def test_drawn_sign_flips_come_near_the_enumerated_ones(monkeypatch):
    differences = rng(1, "differences").normal(0.25, 0.5, size=15).tolist()
    exact = paired_permutation(differences, seed=0).p
    monkeypatch.setattr(mada.evaluation.statistics, "EXACT_UP_TO", 14)
    monkeypatch.setattr(mada.evaluation.statistics, "SIGN_CHUNK", 15 * 999)  # several chunks, the last of them short
    drawn = paired_permutation(differences, seed=0).p
    assert exact is not None
    assert drawn is not None
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))
    assert drawn == paired_permutation(differences, seed=0).p
    assert drawn != paired_permutation(differences, seed=1).p


def test_drawn_sign_flips_are_never_certain():
    assert paired_permutation([1.0] * 60, seed=0, permutations=999).p == 1 / 1000


def test_one_difference_can_show_nothing():
    found = paired_permutation([0.4], seed=0)
    assert (found.p, found.standard_error) == (1, None)


def test_the_weights_of_benchmarks_decide_what_is_far():
    # In sixths of 0.2 they weigh 3, −1, 1, 1, with the sum 4.
    weighted = paired_permutation([0.2, -0.2, 0.2, 0.2], seed=0, benchmarks=["aime", "amc", "amc", "amc"])
    assert weighted.difference == pytest.approx(0.2 * 4 / 6)
    # Of 2⁴ sums ±3 ± 1 ± 1 ± 1, as far from zero are 3 + 1 + 1 − 1 in three ways, 3 + 1 + 1 + 1, and their mirrors.
    assert weighted.p == 8 / 16
    # Without benchmarks they weigh 1, −1, 1, 1: only the six sums with two of each sign are nearer than 2.
    assert paired_permutation([0.2, -0.2, 0.2, 0.2], seed=0).p == 10 / 16


def test_benchmarks_have_equal_weight():
    # Two problems of one benchmark with 0.4 each, one of another with −0.2: (0.4 − 0.2) / 2, not 0.6 / 3.
    found = paired_permutation([0.4, -0.2, 0.4], seed=0, benchmarks=["amc", "aime", "amc"])
    assert found.difference == pytest.approx(0.1)
    # Weighted they are 0.1, −0.1, 0.1: no assignment of signs brings them nearer to zero than 0.1.
    assert found.p == 1
    assert found.standard_error is None


def test_the_standard_error_over_benchmarks():
    amc, aime = [0.1, 0.5, 0.3], [0.0, -0.2]
    found = paired_permutation([*amc, *aime], seed=0, benchmarks=["amc"] * 3 + ["aime"] * 2)
    assert found.standard_error == pytest.approx(math.hypot(stats.sem(amc), stats.sem(aime)) / 2)


def test_pairing_finds_what_welch_cannot():
    hard_to_easy = np.linspace(0, 0.9, 40)
    better = hard_to_easy + 0.05 + rng(0, "noise").normal(0, 0.02, size=40)
    p = paired_permutation((better - hard_to_easy).tolist(), seed=0).p
    unpaired = welch(better.tolist(), hard_to_easy.tolist()).p
    assert p is not None
    assert unpaired is not None
    assert p < 0.001 < 0.3 < unpaired


@pytest.mark.parametrize(
    ("differences", "benchmarks", "message"),
    [([], None, "finite"), ([0.1, math.nan], None, "finite"), ([0.1, 0.2], ["amc"], "each needs one")],
)
def test_what_cannot_be_tested_is_refused(differences, benchmarks, message):
    with pytest.raises(ValueError, match=message):
        paired_permutation(differences, seed=0, benchmarks=benchmarks)


def test_pairs_of_problem_and_seed_by_hand():
    """Three problems with two seeds: differences of 1 and 1, 1 and 0, 0 and −1 have the means 1, ½ and −½."""
    first, second = [(1, 1), (1, 0), (0, 0)], [(0, 0), (0, 0), (0, 1)]
    found = paired_answers([first], [second])
    assert (found.pairs, found.first_better, found.second_better) == (6, 3, 1)
    expected: Any = stats.ttest_1samp([1, 0.5, -0.5], 0)
    assert found.comparison.difference == pytest.approx(1 / 3)
    assert found.comparison.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (found.comparison.low, found.comparison.high) == pytest.approx((interval.low, interval.high))


def test_more_seeds_of_the_same_answers_are_no_more_evidence():
    """Six pairs that are copies of three are as good as three: seeds of a problem are no independent observations."""
    first, second = np.array([[1], [1], [0], [1]]), np.array([[0], [0], [0], [1]])
    once, twenty = (paired_answers([np.repeat(first, n, 1)], [np.repeat(second, n, 1)]) for n in (1, 20))
    assert twenty.first_better == 20 * once.first_better
    assert twenty.comparison == once.comparison


def test_benchmarks_have_equal_weight_and_their_own_freedom():
    """Two benchmarks of unlike sizes: Welch's test of one against the other's negative is the same sum of two means."""
    large, small = rng(0, "large").normal(0.2, 1, size=(30, 4)), rng(0, "small").normal(0.1, 0.3, size=(5, 4))
    found = paired_answers([large, small], [np.zeros_like(large), np.zeros_like(small)]).comparison
    expected = welch(large.mean(axis=1).tolist(), (-small.mean(axis=1)).tolist())
    assert found.difference == pytest.approx(expected.difference / 2)
    assert found.p == pytest.approx(expected.p)


def test_what_pairs_cannot_tell():
    same = paired_answers([[[1, 0], [0, 1]]], [[[1, 0], [0, 1]]])
    assert (same.first_better, same.second_better, same.comparison.p) == (0, 0, 1.0)
    assert paired_answers([[[1, 1]]], [[[0, 0]]]).comparison.p is None, "one problem"
    assert paired_answers([[[1], [1]]], [[[0], [0]]]).comparison.p is None, "no problem differs from the other"
    with pytest.raises(ValueError, match="axes"):
        paired_answers([], [])
