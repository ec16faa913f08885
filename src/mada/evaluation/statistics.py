"""The statistics of an evaluation, as functions of numbers alone (E1–E3, B3).

| question                                          | answered by                                             |
|---------------------------------------------------|---------------------------------------------------------|
| how good, over seeds?                             | `estimate`                                              |
| how good, over problems?                          | `bootstrap_mean`                                        |
| does one beat the other, over seeds?              | `welch`, `welch_from_moments`, `compare_all`            |
| does one beat the other, over the same problems?  | `paired_answers`, `mcnemar`, `paired_permutation`,      |
|                                                   | `bootstrap_difference`                                  |
| and after so many tests?                          | `holm`, `benjamini_hochberg`                            |
| what was gained for what was trained?             | `gain_per_parameter`                                    |

`power` has the differences that a comparison could have found, `at_k` what k of n answers would have reached.

A number that the sample is too small for is None. Axes: P problem, S seed, R resample. Only `scipy.special` is imported
at the top: `scipy.stats` takes a second to load, and every command that shows a table needs these functions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from statistics import fmean, variance
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr, ndtri, stdtr, stdtrit

from mada.seeds import rng

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
# Averages of the same shares in another order differ in their last digits; that is no evidence of anything.
ROUNDING = 1e-12
# 2^14 assignments of signs (one of them is fixed by symmetry) take no time, and leave nothing to chance.
EXACT_UP_TO = 15
# Signs, and resampled problems, held in memory at once.
SIGN_CHUNK = 2**22
PROBLEM_CHUNK = 2**21
# The paper's scale: a gain of one point by a hundred million parameters is 100.
GAIN_SCALE = 1e12


@dataclass(frozen=True, slots=True)
class Comparison:
    """By how much the first sample's mean exceeds the second's: 95 % interval and p-value, two-sided.

    What a test does not give, or the samples are too small for, is None.
    """

    difference: float
    standard_error: float | None
    low: float | None
    high: float | None
    p: float | None

    @property
    def stars(self) -> str:
        """One, two or three stars at .05, .01 and .001, none above or when there is no p."""
        return next((stars for limit, stars in STARS if self.p is not None and self.p < limit), "")


# --- Over seeds: means and Welch's test (E1, E2) ---


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` values with its standard error, which a single value does not have."""

    mean: float
    standard_error: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of some values and its standard error, s / √n."""
    error = None
    if len(values) > 1:
        error = 0.0 if max(values) - min(values) <= ROUNDING else math.sqrt(variance(values) / len(values))
    return Estimate(fmean(values), error, len(values))


def welch(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare two samples by t = (x̄₁ − x̄₂) / √(s₁²/n₁ + s₂²/n₂), with Welch and Satterthwaite's degrees of freedom.

    Two samples without any spread differ for certain (p = 0) or not at all (p = 1).
    """
    return welch_from_moments(estimate(first), estimate(second))


def welch_from_moments(first: Estimate, second: Estimate) -> Comparison:
    """Compare two samples of which only mean, standard error and size are known, as in a published table."""
    difference = first.mean - second.mean
    if first.standard_error is None or second.standard_error is None:
        return Comparison(difference, None, None, None, None)
    for sample in (first, second):
        if sample.count < 2:
            raise ValueError(f"a standard error needs at least two values, got {sample}; without one, give None for it")
    errors = (first.standard_error, second.standard_error)
    error = math.hypot(*errors)
    if error == 0:
        p = 1.0 if abs(difference) <= ROUNDING else 0.0
        return Comparison(difference, 0.0, difference, difference, p)
    # Shares of the squared error, not its parts: squares of tiny numbers would vanish.
    shares = [(part / error) ** 2 for part in errors]
    sizes = (first.count, second.count)
    freedom = 1 / sum(share**2 / (size - 1) for share, size in zip(shares, sizes, strict=True))
    return _student(difference, error, freedom)


def compare_all(samples: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], Comparison]:
    """Compare every system with every other, row minus column: the full pairwise matrices of E2.

    The p-values are not corrected for their number; a pair and its mirror are one test, not two.
    """
    estimates = {name: estimate(values) for name, values in samples.items()}
    return {
        (row, column): welch_from_moments(estimates[row], estimates[column])
        for row, column in permutations(estimates, 2)
    }


def _student(difference: float, error: float, freedom: float) -> Comparison:
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, error, difference - reach, difference + reach, p)


# --- Over problems: paired tests, so that a problem's difficulty cancels out (B3) ---


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
    better, worse = int(np.sum(answers > ROUNDING)), int(np.sum(answers < -ROUNDING))
    return PairedAnswers(len(answers), better, worse, _by_problem([one.mean(axis=1) for one in differences]))


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
    return _student(difference, error, freedom)


def mcnemar(first_right: Sequence[bool], second_right: Sequence[bool]) -> PairedCounts:
    """Test exactly, two-sided, whether problems that one system alone gets right fall to either side alike.

    For one answer per problem (one seed, or a vote over seeds). Several seeds of a problem are no independent problems:
    average them, and use `paired_permutation`.
    """
    first, second = np.asarray(first_right, dtype=np.bool_), np.asarray(second_right, dtype=np.bool_)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(
            f"a paired test needs both systems on the same problems, got {first.shape} and {second.shape} verdicts"
        )
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    # The smaller count is binomial with a half; no discordant problem is no evidence, and bdtr(0, 0, ½) is 1.
    p = min(1.0, 2 * float(bdtr(min(only_first, only_second), only_first + only_second, 0.5)))
    return PairedCounts(int(np.sum(first & second)), only_first, only_second, int(np.sum(~first & ~second)), p)


def paired_permutation(
    differences: Sequence[float],
    *,
    seed: int,
    benchmarks: Sequence[str] | None = None,
    permutations: int = 10_000,
) -> Comparison:
    """Test by flipping signs whether per-problem differences (first minus second, averaged over seeds) centre on zero.

    p is the share of sign assignments with a mean at least as far from zero. All of them are enumerated when few
    differences are non-zero; otherwise p = (hits + 1) / (permutations + 1), which is never too small. With
    `benchmarks`, the name of each problem's benchmark, the mean is that of the benchmarks' means. There is no interval:
    see `bootstrap_difference`.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"a paired test needs a finite difference for each of some problems, got {differences}")
    names = np.asarray(["all"] * values.size if benchmarks is None else benchmarks)
    if names.shape != values.shape:
        raise ValueError(f"there are {values.size} differences and {names.size} names of benchmarks; each needs one")
    _, indices, sizes = np.unique(names, return_inverse=True, return_counts=True)
    weighted = values / (len(sizes) * sizes[indices])
    difference = float(weighted.sum())
    moving = weighted[np.abs(values) > ROUNDING]  # a zero has no sign to flip
    enough = abs(difference) - ROUNDING
    if len(moving) == 0:
        p = 1.0
    elif len(moving) <= EXACT_UP_TO:
        # Mirrored assignments are equally far from zero: the last sign may stay as it is.
        numbers = np.arange(2 ** (len(moving) - 1))
        signs = 1 - 2 * ((numbers[:, None] >> np.arange(len(moving))) & 1)
        p = float(np.mean(np.abs(signs @ moving) >= enough))
    else:
        p = (_sign_flip_hits(moving, enough, seed=seed, permutations=permutations) + 1) / (permutations + 1)
    error = None
    if sizes.min() > 1:
        means = np.bincount(indices, weights=values) / sizes
        variances = np.bincount(indices, weights=(values - means[indices]) ** 2) / (sizes - 1)
        error = float(np.sqrt(np.sum(variances / sizes)) / len(sizes))
    return Comparison(difference, error, None, None, p)


def _sign_flip_hits(weighted: Floats, enough: float, *, seed: int, permutations: int) -> int:
    generator = rng(seed, "paired permutation")
    rows = max(1, SIGN_CHUNK // len(weighted))
    hits = 0
    for start, end in pairwise([*range(0, permutations, rows), permutations]):
        signs = 1 - 2 * generator.integers(0, 2, size=(end - start, len(weighted)), dtype=np.int8)
        hits += int(np.sum(np.abs(signs @ weighted) >= enough))
    return hits


# --- Over problems: bootstrap intervals (B3) ---
#
# Ten seeds of thirty problems are not three hundred observations: seeds of a problem share its difficulty. Problems are
# drawn with all of their seeds, within each benchmark; the statistic is the mean of the benchmarks' means (E1). So the
# interval is about other problems of the same kind, where a standard error over seeds is about other seeds on these.


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its bootstrap interval and the spread of its resamples.

    A benchmark of one problem says nothing about others: then there is no interval and no standard error.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None


def bootstrap_mean(
    benchmarks: Iterable[ArrayLike], *, seed: int, resamples: int = 10_000, confidence: float = CONFIDENCE
) -> Interval:
    """Return the mean accuracy over benchmarks with its interval; each benchmark is an array `values_PS`.

    The interval is bias-corrected and accelerated (BCa; Efron, 1987), since accuracies near 0 or 1 are skewed: with
    thirty simulated problems and a tenth of the answers right, plain percentiles held the truth 90 times in a hundred,
    these 93. Without any spread (every problem right) the interval is a point, which is not to be believed.
    """
    means = [_problem_means(values_PS) for values_PS in benchmarks]
    return _bca_interval(means, seed=seed, resamples=resamples, confidence=confidence)


def bootstrap_difference(
    first: Iterable[ArrayLike],
    second: Iterable[ArrayLike],
    *,
    seed: int,
    resamples: int = 10_000,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Return by how much the first system exceeds the second on the same problems, with an interval.

    It is made as in `bootstrap_mean`. Rows of both are the same problems in the same order, and are drawn together, so
    that their difficulty cancels out; the numbers of seeds may differ.
    """
    differences: list[Floats] = []
    for first_PS, second_PS in zip(first, second, strict=True):
        first_P, second_P = _problem_means(first_PS), _problem_means(second_PS)
        if first_P.shape != second_P.shape:
            raise ValueError(
                f"a paired interval needs both systems on the same problems, got {len(first_P)} and {len(second_P)}"
            )
        differences.append(first_P - second_P)
    return _bca_interval(differences, seed=seed, resamples=resamples, confidence=confidence)


def _problem_means(values_PS: ArrayLike) -> Floats:
    """Average over seeds: every problem has equally many, so this is all that a resample of problems needs."""
    values = np.asarray(values_PS, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"a benchmark needs finite values with the axes problem and seed, got shape {values.shape}")
    return values.mean(axis=1)


def _bca_interval(strata: Sequence[Floats], *, seed: int, resamples: int, confidence: float) -> Interval:
    """Take the quantiles Φ(z₀ + (z₀ + z) / (1 − a(z₀ + z))) of the resampled means, for z at both ends."""
    if not strata:
        raise ValueError("an interval needs at least one benchmark, got none")
    value = float(np.mean([values_P.mean() for values_P in strata]))
    if min(len(values_P) for values_P in strata) < 2:
        return Interval(value, None, None, None)
    if max(np.ptp(values_P) for values_P in strata) <= ROUNDING:
        return Interval(value, 0.0, value, value)
    # A stream for each benchmark: its resamples do not depend on which others are there.
    means_R = np.mean(
        [
            _resampled_means(values_P, rng(seed, "bootstrap", index), resamples=resamples)
            for index, values_P in enumerate(strata)
        ],
        axis=0,
    )
    # Resamples that equal the value count half; sums in another order make them unequal in the last digits.
    below = np.mean(means_R < value - ROUNDING) / 2 + np.mean(means_R <= value + ROUNDING) / 2
    # A value beyond all resamples would correct by infinity.
    bias = ndtri(np.clip(below, 1 / resamples, 1 - 1 / resamples))
    # What each problem moves the value by. A mean's skewness over six times its spread cubed is its acceleration.
    influences = np.concatenate([(values_P - values_P.mean()) / len(values_P) for values_P in strata])
    acceleration = np.sum(influences**3) / (6 * np.sum(influences**2) ** 1.5)
    shifted = bias + ndtri(np.array([(1 - confidence) / 2, (1 + confidence) / 2]))
    low, high = np.quantile(means_R, ndtr(bias + shifted / (1 - acceleration * shifted)))
    return Interval(value, float(means_R.std(ddof=1)), float(low), float(high))


def _resampled_means(values_P: Floats, generator: np.random.Generator, *, resamples: int) -> Floats:
    problems = len(values_P)
    rows = max(1, PROBLEM_CHUNK // problems)
    return np.concatenate(
        [
            values_P[generator.integers(0, problems, size=(min(rows, resamples - start), problems))].mean(axis=1)
            for start in range(0, resamples, rows)
        ]
    )


# --- Corrections for several tests: of 45 tests of nothing, two fall below .05 (B3) ---


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the chance of any false finding among all stays below the level (Holm, 1979).

    For claims that each must stand, such as a method against every baseline. A None stays None and is not counted.
    """
    return _adjusted(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the expected share of false findings among the findings stays below the level (1995).

    For exploration, such as the full pairwise matrix. A None stays None and is not counted.
    """
    return _adjusted(p_values, "fdr_bh")


def _adjusted(p_values: Sequence[float | None], method: Literal["holm", "fdr_bh"]) -> list[float | None]:
    known = [p for p in p_values if p is not None]
    if invalid := [p for p in known if not 0 <= p <= 1]:
        raise ValueError(f"a p-value is a number from 0 to 1, got {invalid[0]}")
    if not known:
        return [None] * len(p_values)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    _, corrected, *_ = multipletests(known, method=method)
    adjusted = iter(np.asarray(corrected, dtype=np.float64).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def gain_per_parameter(gain: float, parameters: int) -> float:
    """Return an accuracy gain over the base, as a fraction, per trainable parameter, times 1e12 (E3)."""
    if parameters < 1:
        raise ValueError(f"a gain per parameter needs trained parameters, got {parameters}; the base itself has none")
    return gain / parameters * GAIN_SCALE
