from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.learning.advantages import ADVANTAGES, Baseline, counterfactual, group_relative
from mada.recipe import schema
from mada.recipe.schema import Deviation

REWARDS = [[2.5, 2.0, -0.5, 1.5]]
FINITE = st.floats(-10, 10)


def test_the_specs_counterfactual_example():
    expected = [[11 / 6, 4 / 3, -7 / 6, 5 / 6]]
    np.testing.assert_allclose(counterfactual(REWARDS, Baseline([1 / 3])), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("deviation", "expected"),
    [("population", [[0.9879, 0.5488, -1.6465, 0.1098]]), ("sample", [[0.8555, 0.4753, -1.4259, 0.0951]])],
)
def test_the_specs_group_relative_example(deviation, expected):
    assert np.round(group_relative(REWARDS, Baseline(deviation=deviation)), 4).tolist() == expected


def test_the_counterfactual_baseline_follows_the_accuracy_weight():
    assert counterfactual([[3.0, 0.0]], Baseline([0.5], accuracy_weight=3.0)).tolist() == [[1.5, -1.5]]
    assert counterfactual([[1.0], [1.0]], Baseline([0.0, 1.0])).tolist() == [[1.0], [-1.0]]


@pytest.mark.parametrize("value", [0.0, 1 / 3, 0.1, 2.5, 1e17])
def test_a_group_without_spread_gets_exactly_zero(value):
    for deviation in ("population", "sample"):
        assert group_relative([[value] * 7], Baseline(deviation=deviation)).tolist() == [[0.0] * 7]


def test_a_group_of_one_gets_zero():
    assert group_relative([[2.0], [1.0]], Baseline(deviation="sample")).tolist() == [[0.0], [0.0]]


@given(st.lists(FINITE, min_size=2, max_size=8))
def test_group_relative_credits_sum_to_zero_and_keep_the_order(rewards):
    credited = group_relative([rewards], Baseline())[0]
    assert abs(credited.sum()) < 1e-6
    order = np.argsort(rewards, kind="stable")
    assert np.all(np.diff(credited[order]) >= -1e-9)


@given(st.lists(st.fractions(-3, 3, max_denominator=60), min_size=1, max_size=6), st.integers(0, 3))
def test_counterfactual_credits_equal_exact_arithmetic(rewards, right):
    expected = [float(reward - 2 * Fraction(right, 3)) for reward in rewards]
    credited = counterfactual([[float(reward) for reward in rewards]], Baseline([right / 3]))[0]
    np.testing.assert_allclose(credited, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("rewards", "baseline", "complaint"),
    [
        ([[1.0]], Baseline(), "needs the generators' accuracy"),
        ([[1.0]], Baseline([0.5, 0.5]), "each of 1 prompts"),
        ([[1.0]], Baseline([1.5]), r"in \[0, 1\]"),
        ([[1.0]], Baseline([float("nan")]), r"in \[0, 1\]"),
        ([1.0], Baseline([0.5]), "axes prompt and group"),
        ([[]], Baseline([0.5]), "axes prompt and group"),
    ],
)
def test_what_does_not_fit_is_refused(rewards, baseline, complaint):
    with pytest.raises(ValueError, match=complaint):
        counterfactual(rewards, baseline)


def test_the_recipe_names_exactly_the_advantages_there_are():
    assert set(ADVANTAGES) == set(get_args(schema.Advantage))
    assert get_args(Deviation) == get_args(schema.Deviation)
