"""pass@k and maj@k against the enumeration of every draw."""

import math
from collections import Counter
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.evaluation.at_k import majority_at_k, pass_at_k


def majority(groups, right, *, k):
    """maj@k of answers by the number of their group, None where there is none; `right` are the groups that are."""
    sizes = Counter(group for group in groups if group is not None)
    rights, wrongs = (tuple(sizes[one] for one in sizes if (one in right) == is_right) for is_right in (True, False))
    return majority_at_k(rights, wrongs, groups.count(None), k=k)


def vote_is_right(draw, right):
    """The share of the tied winners that are right; a draw without any answer has no winner."""
    votes = Counter(group for group in draw if group is not None)
    winners = [group for group, count in votes.items() if count == max(votes.values())]
    return fmean(group in right for group in winners) if winners else 0.0


@given(st.data())
def test_pass_at_k_equals_enumeration(data):
    answers = data.draw(st.lists(st.booleans(), min_size=1, max_size=9))
    k = data.draw(st.integers(1, len(answers)))
    expected = fmean(any(draw) for draw in combinations(answers, k))
    assert pass_at_k(sum(answers), len(answers), k=k) == pytest.approx(expected)


def test_pass_at_k_by_hand():
    assert pass_at_k(1, 4, k=2) == 1 - 3 / 6
    assert pass_at_k(3, 10, k=1) == pytest.approx(0.3)
    # Two wrong answers cannot fill a draw of three.
    assert pass_at_k(3, 5, k=3) == 1


@given(st.data())
def test_majority_at_k_equals_enumeration(data):
    groups = data.draw(st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=9))
    right = data.draw(st.sets(st.integers(0, 5), max_size=3))
    k = data.draw(st.integers(1, len(groups)))
    expected = fmean(vote_is_right(draw, right) for draw in combinations(groups, k))
    assert majority(groups, right, k=k) == pytest.approx(expected, abs=1e-12)


def test_majority_at_k_by_hand():
    # Right twice, wrong twice. Both of one kind in 2 of 6 draws, a tie in the other 4: (1 + 4/2) / 6.
    assert majority([7, 7, 1, 1], {7}, k=2) == 0.5
    # A missing answer does not outvote: right and None is right, None alone is wrong.
    assert majority([7, None, None], {7}, k=2) == pytest.approx(2 / 3)
    assert majority([None, None], {7}, k=1) == 0


def test_sixty_four_answers_of_two_kinds_are_hypergeometric():
    # 36 right, 28 wrong, odd k: no ties, so the vote is right when more than half of the draw is.
    k = 33
    ways = sum(math.comb(36, votes) * math.comb(28, k - votes) for votes in range(17, k + 1))
    assert majority([0] * 36 + [1] * 28, {0}, k=k) == pytest.approx(ways / math.comb(64, k), rel=1e-12)


@pytest.mark.parametrize("k", [0, 4])
def test_more_draws_than_answers_are_refused(k):
    with pytest.raises(ValueError, match=f"the 3 answers there are, got {k}"):
        pass_at_k(1, 3, k=k)
    with pytest.raises(ValueError, match=f"the 3 answers there are, got {k}"):
        majority([1, 2, None], {1}, k=k)


def test_more_right_than_there_are_is_refused():
    with pytest.raises(ValueError, match="of 3 answers, 4 cannot be right"):
        pass_at_k(4, 3, k=1)
