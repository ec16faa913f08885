"""Paired tests: two systems on the very same problems, so that a problem's difficulty cancels out (B3).

Axes: P problem, S seed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, stdtr, stdtrit

from mada.evaluation.statistics.comparison import CONFIDENCE, ROUNDING, Comparison
from mada.seeds import rng

Floats = NDArray[np.float64]

# 2^14 assignments of signs (one of them is fixed by symmetry) take no time, and leave nothing to chance.
EXACT_UP_TO = 15
# Signs held in memory at once.
CHUNK = 2**22


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """On how many problems two systems were right, and the p-value of McNemar's test."""

    both: int
    only_first: int
    only_second: int
    neither: int
    p: float


@dataclass(frozen=True, slots=True)
class PairedAnswers:
    """Two systems on every problem with every seed: how often one did better than the other, and a test of it."""

    pairs: int
    first_better: int
    second_better: int
    comparison: Comparison


def paired_answers(first: Iterable[ArrayLike], second: Iterable[ArrayLike]) -> PairedAnswers:
    """Compare two systems pair by pair of problem and seed; each benchmark is an array `values_PS` of both.

    Seeds of a problem share its difficulty, so problems are clusters: the standard error is that of the problems' mean
    differences, s² / P within every benchmark, and p is Student's with Welch and Satterthwaite's degrees of freedom
    over benchmarks, which have equal weight. Problems that do not differ in their differences allow no test, unless
    the systems are alike on all of them.
    """
    differences = [np.asarray(a, np.float64) - np.asarray(b, np.float64) for a, b in zip(first, second, strict=True)]
    if not differences or any(one.ndim != 2 or one.size == 0 for one in differences):
        raise ValueError("a paired test needs benchmarks of values with the axes problem and seed")
    answers = np.concatenate([values_PS.ravel() for values_PS in differences])
    return PairedAnswers(
        len(answers),
        int(np.sum(answers > ROUNDING)),
        int(np.sum(answers < -ROUNDING)),
        _by_problem([values_PS.mean(axis=1) for values_PS in differences]),
    )


def _by_problem(strata: Sequence[Floats]) -> Comparison:
    """Test the mean of the benchmarks' means of the problems' differences."""
    difference = float(np.mean([values_P.mean() for values_P in strata]))
    if all(np.all(np.abs(values_P) <= ROUNDING) for values_P in strata):
        return Comparison(0.0, 0.0, 0.0, 0.0, 1.0)
    if min(map(len, strata)) < 2:
        return Comparison(difference, None, None, None, None)
    squares = np.array([values_P.var(ddof=1) / len(values_P) for values_P in strata])
    error = math.sqrt(squares.sum()) / len(strata)
    if error <= ROUNDING:
        return Comparison(difference, None, None, None, None)
    shares = squares / squares.sum()
    freedom = 1 / float(np.sum(shares**2 / [len(values_P) - 1 for values_P in strata]))
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, error, difference - reach, difference + reach, p)


def mcnemar(first_right: Sequence[bool], second_right: Sequence[bool]) -> PairedCounts:
    """Test exactly, two-sided, whether problems that one system alone gets right fall to either side alike.

    For one answer per problem (one seed, or a vote over seeds). Several seeds of a problem are no independent problems:
    average them, and use `paired_permutation`.
    """
    first = np.asarray(first_right, dtype=np.bool_)
    second = np.asarray(second_right, dtype=np.bool_)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(
            f"a paired test needs both systems on the same problems, got {first.shape} and {second.shape} verdicts"
        )
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    discordant = only_first + only_second
    # The smaller count is binomial with a half; no discordant problem is no evidence, and bdtr(0, 0, ½) is 1.
    p = min(1.0, 2 * float(bdtr(min(only_first, only_second), discordant, 0.5)))
    return PairedCounts(int(np.sum(first & second)), only_first, only_second, int(np.sum(~first & ~second)), p)


def paired_permutation(
    differences: Sequence[float],
    *,
    seed: int,
    benchmarks: Sequence[str] | None = None,
    permutations: int = 10_000,
) -> Comparison:
    """Test by flipping signs whether per-problem differences (first minus second, averaged over seeds) centre on zero.

    If the systems were alike, each difference would be as likely with the other sign: p is the share of sign
    assignments with a mean at least as far from zero. All of them are enumerated when few differences are non-zero;
    otherwise p = (hits + 1) / (permutations + 1), which is never too small. With `benchmarks`, the name of each
    problem's benchmark, the mean is that of the benchmarks' means. There is no interval: see `bootstrap_difference`.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"a paired test needs a finite difference for each of some problems, got {differences}")
    names = np.asarray(["all"] * values.size if benchmarks is None else benchmarks)
    if names.shape != values.shape:
        raise ValueError(f"there are {values.size} differences and {names.size} names of benchmarks; each needs one")
    _, places, sizes = np.unique(names, return_inverse=True, return_counts=True)
    weighted = values / (len(sizes) * sizes[places])
    difference = float(weighted.sum())
    # A zero has no sign to flip.
    moving = weighted[np.abs(values) > ROUNDING]
    enough = abs(difference) - ROUNDING
    if len(moving) <= EXACT_UP_TO:
        p = _share_of_all(moving, enough)
    else:
        p = (_hits(moving, enough, seed=seed, permutations=permutations) + 1) / (permutations + 1)
    return Comparison(difference, _standard_error(values, places, sizes), None, None, p)


def _share_of_all(weighted: Floats, enough: float) -> float:
    if len(weighted) == 0:
        return 1.0
    # Mirrored assignments are equally far from zero: the last sign may stay as it is.
    numbers = np.arange(2 ** (len(weighted) - 1))
    signs = 1 - 2 * ((numbers[:, None] >> np.arange(len(weighted))) & 1)
    return float(np.mean(np.abs(signs @ weighted) >= enough))


def _hits(weighted: Floats, enough: float, *, seed: int, permutations: int) -> int:
    generator = rng(seed, "paired permutation")
    rows = max(1, CHUNK // len(weighted))
    hits = 0
    for start, end in pairwise([*range(0, permutations, rows), permutations]):
        signs = 1 - 2 * generator.integers(0, 2, size=(end - start, len(weighted)), dtype=np.int8)
        hits += int(np.sum(np.abs(signs @ weighted) >= enough))
    return hits


def _standard_error(values: Floats, places: NDArray[np.intp], sizes: NDArray[np.intp]) -> float | None:
    if sizes.min() < 2:
        return None
    means = np.bincount(places, weights=values) / sizes
    variances = np.bincount(places, weights=(values - means[places]) ** 2) / (sizes - 1)
    return float(np.sqrt(np.sum(variances / sizes)) / len(sizes))
