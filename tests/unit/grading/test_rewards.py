import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.grading.rewards import accuracy, length, total_reward

CORRECT, LENGTHS = [[True, True, False, True]], [[100, 200, 300, 300]]
GROUPS = st.lists(st.tuples(st.booleans(), st.integers(1, 40_000)), min_size=1, max_size=8)


def test_the_specs_example():
    assert accuracy(CORRECT, LENGTHS).tolist() == [[1, 1, 0, 1]]
    assert length(CORRECT, LENGTHS).tolist() == [[0.5, 0.0, -0.5, -0.5]]
    assert total_reward(CORRECT, LENGTHS, weights={"accuracy": 2, "length": 1}).tolist() == [[2.5, 2.0, -0.5, 1.5]]


def test_equal_lengths_and_groups_of_one_earn_no_length_reward():
    assert length([[True, False, True]], [[70, 70, 70]]).tolist() == [[0, 0, 0]]
    assert length([[True]], [[70]]).tolist() == [[0]]


def test_every_prompt_is_its_own_group():
    correct, lengths = [[True, True], [True, True]], [[10, 20], [1000, 1100]]
    assert length(correct, lengths).tolist() == [[0.5, -0.5], [0.5, -0.5]]


def test_weights_come_from_the_recipe_and_a_missing_reward_counts_nothing():
    assert total_reward(CORRECT, LENGTHS, weights={"accuracy": 1}).tolist() == [[1, 1, 0, 1]]
    assert total_reward(CORRECT, LENGTHS, weights={"length": 3}).tolist() == [[1.5, 0, -1.5, -1.5]]
    assert total_reward(CORRECT, LENGTHS, weights={}).tolist() == [[0, 0, 0, 0]]


@given(GROUPS)
def test_length_rewards_stay_in_bounds_and_never_make_wrong_beat_right(group):
    correct, lengths = np.array([[right for right, _ in group]]), np.array([[size for _, size in group]])
    rewards = length(correct, lengths)[0]
    assert np.all((rewards >= -0.5) & (rewards <= 0.5))
    assert np.all(rewards[~correct[0]] <= 0)
    total = total_reward(correct, lengths, weights={"accuracy": 2, "length": 1})[0]
    if correct.any() and not correct.all():
        assert total[correct[0]].min() > total[~correct[0]].max()


@given(GROUPS, st.integers(1, 10))
def test_length_rewards_depend_on_relative_lengths_alone(group, factor):
    correct, lengths = np.array([[right for right, _ in group]]), np.array([[size for _, size in group]])
    np.testing.assert_allclose(length(correct, lengths), length(correct, lengths * factor + 17), atol=1e-12)


@pytest.mark.parametrize(("correct", "lengths"), [([[True]], [[1, 2]]), ([[]], [[]]), (True, 1)])
def test_shapes_that_do_not_fit_are_refused(correct, lengths):
    with pytest.raises(ValueError, match="shape"):
        accuracy(correct, lengths)
