"""What k of n ≥ k answers to the same problem would have reached, without bias: pass@k and maj@k."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction


def pass_at_k(right: int, total: int, *, k: int) -> float:
    """Return the chance that k of the answers, drawn without replacement, hold a right one: 1 − C(n−c, k) / C(n, k).

    The estimator of Chen et al. (2021); 1 − (1 − c/n)^k would be too low.
    """
    if not 0 <= right <= total:
        raise ValueError(f"of {total} answers, {right} cannot be right")
    _check_k(k, total)
    return float(1 - Fraction(math.comb(total - right, k), math.comb(total, k)))


def majority_at_k(groups: Sequence[int | None], right: Collection[int], *, k: int) -> float:
    """Return the chance that a majority vote of k of the answers, drawn without replacement, is right.

    `groups` has for each answer the number of its group of equal answers, None where there is no answer; `right` are
    the groups that are right. Tied groups win with equal chance; a draw without any answer is wrong.

    The average over all C(n, k) draws is counted, not enumerated: for a right group and its number of votes, the
    other groups' ways to have fewer, or as many and so tie, are multiplied up.
    """
    _check_k(k, len(groups))
    sizes = Counter(group for group in groups if group is not None)
    unanswered = len(groups) - sizes.total()
    won = Fraction(0)
    for winner in set(right) & set(sizes):
        others = [size for group, size in sizes.items() if group != winner]
        for votes in range(1, min(sizes[winner], k) + 1):
            ways = _ways_by_ties(others, unanswered, votes=votes, draws=k - votes)
            shares = sum((Fraction(count, 1 + tied) for tied, count in ways.items()), Fraction(0))
            won += math.comb(sizes[winner], votes) * shares
    return float(won / math.comb(len(groups), k))


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
