"""Means with their standard errors, and Welch's test between two systems (E1, E2).

A number that the sample is too small for is None: one seed has a mean and no standard error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
# Averages of the same shares in another order differ in their last digits; that is no evidence of anything.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` values with its standard error."""

    mean: float
    standard_error: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """By how much the first sample's mean exceeds the second's: 95 % interval and p-value, two-sided."""

    difference: float
    standard_error: float | None
    low: float | None
    high: float | None
    p: float | None

    @property
    def stars(self) -> str:
        """One, two or three stars at .05, .01 and .001, none above or when there is no p."""
        return next((stars for limit, stars in STARS if self.p is not None and self.p < limit), "")


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of some values and s / √n, the standard error of it."""
    error = math.sqrt(_variance_of_mean(values)) if len(values) > 1 else None
    return Estimate(fmean(values), error, len(values))


def welch(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare two samples by t = (x̄₁ − x̄₂) / √(s₁²/n₁ + s₂²/n₂), with Welch and Satterthwaite's degrees of freedom.

    Two samples without any spread differ for certain (p = 0) or not at all (p = 1).
    """
    difference = fmean(first) - fmean(second)
    if min(len(first), len(second)) < 2:
        return Comparison(difference, None, None, None, None)
    parts = [_variance_of_mean(first), _variance_of_mean(second)]
    squared_error = sum(parts)
    if squared_error == 0:
        p = 1.0 if abs(difference) <= ROUNDING else 0.0
        return Comparison(difference, 0.0, difference, difference, p)
    error = math.sqrt(squared_error)
    sizes = (len(first), len(second))
    # Shares of the squared error, not its parts: squares of tiny numbers would vanish.
    shares = [part / squared_error for part in parts]
    freedom = 1 / sum(share**2 / (size - 1) for share, size in zip(shares, sizes, strict=True))
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Comparison(difference, error, difference - reach, difference + reach, p)


def _variance_of_mean(values: Sequence[float]) -> float:
    if max(values) - min(values) <= ROUNDING:
        return 0.0
    return variance(values) / len(values)
