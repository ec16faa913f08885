"""Estimates and Welch's test against hand computation and scipy."""

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mada.evaluation.statistics import Comparison, Estimate, compare_all, estimate, welch, welch_from_moments


def test_an_estimate_by_hand():
    # Mean 5, squared deviations 9 + 1 + 1 + 9 = 20, s² = 20/3, SE = √(20/3/4).
    found = estimate([2, 4, 6, 8])
    assert (found.mean, found.count) == (5, 4)
    assert found.standard_error == pytest.approx(math.sqrt(5 / 3))


def test_one_value_has_no_standard_error_and_no_test():
    assert estimate([0.4]) == Estimate(0.4, None, 1)
    comparison = welch([0.75], [0.5, 0.5])
    assert comparison == Comparison(0.25, None, None, None, None)
    assert comparison.stars == ""


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        estimate([])


def test_welch_in_closed_form():
    # n = 2 and 2 with equal variances: s² = 2 each, SE² = 1 + 1 = 2, two degrees of freedom, t = 4/√2 = 2√2.
    # For two degrees of freedom p = 1 − t/√(2 + t²), and the 97.5 % point is 0.95·√(2/(1 − 0.95²)).
    comparison = welch([5, 7], [1, 3])
    reach = 0.95 * math.sqrt(2 / (1 - 0.95**2)) * math.sqrt(2)
    assert comparison.difference == 4
    assert comparison.standard_error == pytest.approx(math.sqrt(2))
    assert comparison.p == pytest.approx(1 - math.sqrt(8) / math.sqrt(10), rel=1e-9)
    assert (comparison.low, comparison.high) == (pytest.approx(4 - reach), pytest.approx(4 + reach))


@pytest.mark.parametrize("seed", range(5))
def test_welch_equals_scipy(seed):
    numbers = random.Random(seed)
    first = [numbers.gauss(0.42, 0.01) for _ in range(10)]
    second = [numbers.gauss(0.40, 0.03) for _ in range(3 + seed)]
    comparison = welch(first, second)
    expected: Any = stats.ttest_ind(first, second, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert comparison.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert comparison.standard_error is not None
    assert comparison.difference / comparison.standard_error == pytest.approx(expected.statistic)
    assert (comparison.low, comparison.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_against_a_constant_sample_it_is_the_one_sample_test():
    first, second = [0.5, 0.5, 0.5], [0.4, 0.6, 0.7, 0.3]
    expected: Any = stats.ttest_1samp(second, 0.5)
    assert welch(first, second).p == pytest.approx(expected.pvalue)


def test_samples_without_spread():
    assert welch([0.5] * 3, [0.5] * 4) == Comparison(0, 0, 0, 0, 1)
    certain = welch([0.75] * 3, [0.5] * 3)
    assert certain == Comparison(0.25, 0, 0.25, 0.25, 0)
    assert certain.stars == "***"


def test_rounding_is_no_evidence():
    assert welch([0.1 + 0.2, 0.3], [0.3, 0.3]).p == 1


def test_moments_are_enough():
    comparison = welch_from_moments(Estimate(41.9, 0.3, 10), Estimate(39.9, 0.4, 5))
    expected: Any = stats.ttest_ind_from_stats(
        41.9, 0.3 * math.sqrt(10), 10, 39.9, 0.4 * math.sqrt(5), 5, equal_var=False
    )
    assert comparison.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert comparison.standard_error == pytest.approx(0.5)
    assert comparison.difference == pytest.approx(2)


def test_moments_without_a_standard_error_make_no_test():
    assert welch_from_moments(Estimate(0.5, None, 1), Estimate(0.25, 0.1, 9)) == Comparison(
        0.25, None, None, None, None
    )


def test_a_standard_error_of_one_value_is_refused():
    with pytest.raises(ValueError, match="at least two values"):
        welch_from_moments(Estimate(0.5, 0.1, 10), Estimate(0.5, 0.1, 1))


def test_all_pairs_are_compared_row_minus_column():
    samples = {"base": [0.1, 0.2, 0.4], "ours": [0.5, 0.6, 0.4], "theirs": [0.3, 0.3, 0.2, 0.1]}
    found = compare_all(samples)
    assert set(found) == {(row, column) for row in samples for column in samples if row != column}
    for (row, column), comparison in found.items():
        assert comparison == welch(samples[row], samples[column])
    assert found["ours", "base"].difference > 0 > found["base", "ours"].difference


@pytest.mark.parametrize(
    ("p", "stars"), [(0.05, ""), (0.049, "*"), (0.01, "*"), (0.0099, "**"), (0.001, "**"), (0.0009, "***"), (None, "")]
)
def test_stars(p, stars):
    assert Comparison(0, 0, 0, 0, p).stars == stars


SAMPLES = st.lists(st.floats(0, 1), min_size=2, max_size=10)


@given(SAMPLES, SAMPLES)
def test_swapping_the_samples_turns_the_difference_round(first, second):
    one, other = welch(first, second), welch(second, first)
    assert one.p is not None
    assert other.p is not None
    assert 0 <= one.p <= 1
    assert one.p == pytest.approx(other.p, abs=1e-12)
    assert one.difference == -other.difference
