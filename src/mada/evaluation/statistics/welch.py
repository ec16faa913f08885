"""Means with their standard errors, and Welch's test between two systems (E1, E2).

A number that the sample is too small for is None: one seed has a mean and no standard error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean, variance

from scipy.special import stdtr, stdtrit

from mada.evaluation.statistics.comparison import CONFIDENCE, ROUNDING, Comparison


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` values with its standard error."""

    mean: float
    standard_error: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of some values and s / √n, the standard error of it."""
    error = math.sqrt(_variance_of_mean(values)) if len(values) > 1 else None
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
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, error, difference - reach, difference + reach, p)


def compare_all(samples: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], Comparison]:
    """Compare every system with every other, row minus column: the full pairwise matrices of E2.

    The p-values are not corrected for their number (see `corrections`); a pair and its mirror are one test, not two.
    """
    estimates = {name: estimate(values) for name, values in samples.items()}
    return {
        (row, column): welch_from_moments(estimates[row], estimates[column])
        for row, column in permutations(estimates, 2)
    }


def _variance_of_mean(values: Sequence[float]) -> float:
    if max(values) - min(values) <= ROUNDING:
        return 0.0
    return variance(values) / len(values)
