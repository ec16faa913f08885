"""What k of n ≥ k answers to the same problem would have reached, without bias: pass@k and maj@k."""

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=2**16)
def pass_at_k(right: int, total: int, *, k: int) -> float:
    """Return the chance that k of the answers, drawn without replacement, hold a right one: 1 − C(n−c, k) / C(n, k).

    The estimator of Chen et al. (2021); 1 − (1 − c/n)^k would be too low.
    """
    if not 0 <= right <= total:
        raise ValueError(f"of {total} answers, {right} cannot be right")
    _check_k(k, total)
    return float(1 - Fraction(math.comb(total - right, k), math.comb(total, k)))


@lru_cache(maxsize=2**16)  # thousands of questions have few different counts between them
def majority_at_k(right: tuple[int, ...], wrong: tuple[int, ...], unanswered: int, *, k: int) -> float:
    """Return the chance that a majority vote of k of the answers, drawn without replacement, is right.

    `right` and `wrong` are the sizes of the groups of equal answers. Tied groups win with equal chance; a draw without
    any answer is wrong.

    The average over all C(n, k) draws is counted, not enumerated: for a right group and its number of votes, the
    other groups' ways to have fewer, or as many and so tie, are multiplied up.
    """
    total = sum(right) + sum(wrong) + unanswered
    _check_k(k, total)
    won = Fraction(0)
    for index, size in enumerate(right):
        others = (*right[:index], *right[index + 1 :], *wrong)
        for votes in range(1, min(size, k) + 1):
            ways = _ways_by_ties(others, unanswered, votes=votes, draws=k - votes)
            shares = sum((Fraction(count, 1 + tied) for tied, count in ways.items()), Fraction(0))
            won += math.comb(size, votes) * shares
    return float(won / math.comb(total, k))


def _ways_by_ties(others: Iterable[int], unanswered: int, *, votes: int, draws: int) -> Counter[int]:
    """Count the ways to draw from groups of these sizes, none more than `votes` times, by how many reach `votes`."""
    ways: dict[tuple[int, int], int] = {(0, 0): 1}
    for size in others:
        longer: Counter[tuple[int, int]] = Counter()
        for (drawn, tied), count in ways.items():
            for more in range(min(size, votes, draws - drawn) + 1):
                longer[drawn + more, tied + (more == votes)] += count * math.comb(size, more)
        ways = longer
    by_ties: Counter[int] = Counter()
    for (drawn, tied), count in ways.items():
        by_ties[tied] += count * math.comb(unanswered, draws - drawn)
    return by_ties


def _check_k(k: int, total: int) -> None:
    if not 1 <= k <= total:
        raise ValueError(f"k must be from 1 to the {total} answers there are, got {k}")
