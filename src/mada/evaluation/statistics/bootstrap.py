"""Bootstrap intervals that treat problems as the sample (B3). Axes: P problem, S seed, R resample.

Ten seeds of thirty problems are not three hundred observations: seeds of a problem share its difficulty. Problems are
drawn again as wholes, with all of their seeds, within each benchmark; the statistic is the mean of the benchmarks'
means, each with equal weight (E1). So the interval is about other problems of the same kind, where a standard error
over seeds is about other seeds on these very problems.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from mada.evaluation.statistics.comparison import CONFIDENCE, ROUNDING
from mada.seeds import rng

Floats = NDArray[np.float64]

# Drawn problems held in memory at once.
CHUNK = 2**21


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
    return _interval(
        [_problem_means(values_PS) for values_PS in benchmarks], seed=seed, resamples=resamples, confidence=confidence
    )


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
    return _interval(differences, seed=seed, resamples=resamples, confidence=confidence)


def _problem_means(values_PS: ArrayLike) -> Floats:
    """Average over seeds: every problem has equally many, so this is all that a resample of whole problems needs."""
    values = np.asarray(values_PS, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"a benchmark needs finite values with the axes problem and seed, got shape {values.shape}")
    return values.mean(axis=1)


def _interval(strata: Sequence[Floats], *, seed: int, resamples: int, confidence: float) -> Interval:
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
            _resampled_means(values_P, rng(seed, "bootstrap", place), resamples=resamples)
            for place, values_P in enumerate(strata)
        ],
        axis=0,
    )
    low, high = np.quantile(means_R, _bca_levels(means_R, value, strata=strata, confidence=confidence))
    return Interval(value, float(means_R.std(ddof=1)), float(low), float(high))


def _resampled_means(values_P: Floats, generator: np.random.Generator, *, resamples: int) -> Floats:
    problems = len(values_P)
    rows = max(1, CHUNK // problems)
    return np.concatenate(
        [
            values_P[generator.integers(0, problems, size=(min(rows, resamples - start), problems))].mean(axis=1)
            for start in range(0, resamples, rows)
        ]
    )


def _bca_levels(means_R: Floats, value: float, *, strata: Sequence[Floats], confidence: float) -> Floats:
    """Return the quantiles to take: Φ(z₀ + (z₀ + z) / (1 − a(z₀ + z))) for z at both ends of the confidence."""
    # Resamples that equal the value count half; sums in another order make them unequal in the last digits.
    below = np.mean(means_R < value - ROUNDING) / 2 + np.mean(means_R <= value + ROUNDING) / 2
    # A value beyond all resamples would correct by infinity.
    bias = ndtri(np.clip(below, 1 / len(means_R), 1 - 1 / len(means_R)))
    # What each problem moves the value by. A mean's skewness over six times its spread cubed is its acceleration.
    influences = np.concatenate([(values_P - values_P.mean()) / len(values_P) for values_P in strata])
    acceleration = np.sum(influences**3) / (6 * np.sum(influences**2) ** 1.5)
    shifted = bias + ndtri(np.array([(1 - confidence) / 2, (1 + confidence) / 2]))
    return ndtr(bias + shifted / (1 - acceleration * shifted))
