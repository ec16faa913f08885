"""The statistics of an evaluation, as functions of numbers alone (E1–E3, B3).

| question                                          | answered by                                             |
|---------------------------------------------------|---------------------------------------------------------|
| how good, over seeds?                             | `estimate`                                              |
| how good, over problems?                          | `bootstrap_mean`                                        |
| does one beat the other, over seeds?              | `welch`, `welch_from_moments`, `compare_all`            |
| does one beat the other, over the same problems?  | `paired_answers`, `mcnemar`, `paired_permutation`,      |
|                                                   | `bootstrap_mean` of differences                         |
| how small a difference could have been found?     | `detectable_difference`                                 |
| and after so many tests?                          | `holm`, `benjamini_hochberg`                            |
| what was gained for what was trained?             | `gain_per_parameter`                                    |

`at_k` has what k of n answers would have reached. A number that the sample is too small for is None. Axes: P problem,
S seed, R resample. Random numbers have a fixed seed: equal scores give equal results. Only `scipy.special` is imported
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
from scipy.special import bdtr, nctdtr, ndtr, ndtri, stdtr, stdtrit

from mada.seeds import rng

Floats = NDArray[np.float64]

SEED = 0
RESAMPLES = PERMUTATIONS = 10_000
CONFIDENCE = 0.95
LEVEL, POWER = 0.05, 0.8
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


def detectable_difference(spread: float, seeds: int) -> float:
    """Return the smallest true difference of means that Welch's test over seeds finds four times in five.

    `spread` is the standard deviation of a system's per-seed averages, the same for both. Averages are taken to be
    normal, and the spread to be the true one; a finding with the wrong sign is none.
    """
    from scipy.optimize import root_scalar  # not needed to read a report

    if seeds < 2 or spread < 0:
        raise ValueError(f"two seeds and a spread are the least a test needs, got {seeds} and {spread}")
    freedom = 2 * (seeds - 1)
    critical = float(stdtrit(freedom, 1 - LEVEL / 2))

    def missing(shift: float) -> float:
        # The other tail is a finding with the wrong sign, and `nctdtr` has NaN so far out.
        return 1 - float(nctdtr(freedom, shift, critical)) - POWER

    highest = critical
    while missing(highest) < 0:
        highest *= 2
    return float(root_scalar(missing, bracket=(0.0, highest)).root) * spread * math.sqrt(2 / seeds)


# --- Over problems: paired tests, so that a problem's difficulty cancels out (B3) ---
#
# They take the differences of two systems, an array `values_PS` for each benchmark. Seeds of a problem share its
# difficulty, so problems are the sample, each with all of its seeds; benchmarks have equal weight.


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


def paired_answers(differences: Sequence[Floats]) -> PairedAnswers:
    """Compare two systems pair by pair of problem and seed.

    The standard error is that of the problems' mean differences, s² / P within every benchmark, and p is Student's with
    Welch and Satterthwaite's degrees of freedom over benchmarks. Problems that do not differ in their differences allow
    no test, unless the systems are alike on all of them.
    """
    strata = _problem_means(differences)
    answers = np.concatenate([values_PS.ravel() for values_PS in differences])
    better, worse = int(np.sum(answers > ROUNDING)), int(np.sum(answers < -ROUNDING))
    difference = float(np.mean([values_P.mean() for values_P in strata]))
    comparison = Comparison(difference, None, None, None, None)
    if all(np.all(np.abs(values_P) <= ROUNDING) for values_P in strata):
        comparison = Comparison(0.0, 0.0, 0.0, 0.0, 1.0)
    elif (error := _error_over_problems(strata)) is not None and error > ROUNDING:
        squares = np.array([values_P.var(ddof=1) / len(values_P) for values_P in strata])
        shares = squares / squares.sum()
        freedom = 1 / float(np.sum(shares**2 / [len(values_P) - 1 for values_P in strata]))
        comparison = _student(difference, error, freedom)
    return PairedAnswers(len(answers), better, worse, comparison)


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


def paired_permutation(differences: Iterable[ArrayLike]) -> Comparison:
    """Test by flipping signs whether per-problem differences, averaged over seeds, centre on zero.

    p is the share of sign assignments with a mean at least as far from zero. All of them are enumerated when few
    differences are non-zero; otherwise p = (hits + 1) / (permutations + 1), which is never too small. There is no
    interval: see `bootstrap_mean`.
    """
    strata = _problem_means(differences)
    values = np.concatenate(strata)
    weighted = np.concatenate([values_P / (len(strata) * len(values_P)) for values_P in strata])
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
        p = (_sign_flip_hits(moving, enough) + 1) / (PERMUTATIONS + 1)
    return Comparison(difference, _error_over_problems(strata), None, None, p)


def _sign_flip_hits(weighted: Floats, enough: float) -> int:
    generator = rng(SEED, "paired permutation")
    rows = max(1, SIGN_CHUNK // len(weighted))
    hits = 0
    for start, end in pairwise([*range(0, PERMUTATIONS, rows), PERMUTATIONS]):
        signs = 1 - 2 * generator.integers(0, 2, size=(end - start, len(weighted)), dtype=np.int8)
        hits += int(np.sum(np.abs(signs @ weighted) >= enough))
    return hits


def _problem_means(benchmarks: Iterable[ArrayLike]) -> list[Floats]:
    """Average over seeds: every problem has equally many, so this is all that a test over problems needs."""
    strata: list[Floats] = []
    for values_PS in benchmarks:
        values = np.asarray(values_PS, dtype=np.float64)
        if values.ndim != 2 or values.size == 0 or not np.all(np.isfinite(values)):
            raise ValueError(f"a benchmark needs finite values with the axes problem and seed, got {values.shape}")
        strata.append(values.mean(axis=1))
    if not strata:
        raise ValueError("statistics over problems need at least one benchmark, got none")
    return strata


def _error_over_problems(strata: Sequence[Floats]) -> float | None:
    """Return the standard error of the mean of the benchmarks' means."""
    if min(map(len, strata)) < 2:
        return None
    return math.sqrt(sum(values_P.var(ddof=1) / len(values_P) for values_P in strata)) / len(strata)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its bootstrap interval and the spread of its resamples.

    A benchmark of one problem says nothing about others: then there is no interval and no standard error.
    """

    value: float
    standard_error: float | None
    low: float | None
    high: float | None


def bootstrap_mean(benchmarks: Iterable[ArrayLike]) -> Interval:
    """Return the mean over benchmarks of accuracies, or of differences, with its interval over problems.

    Problems are drawn within each benchmark. The interval is bias-corrected and accelerated (BCa; Efron, 1987), since
    accuracies near 0 or 1 are skewed: with thirty simulated problems and a tenth of the answers right, plain
    percentiles held the truth 90 times in a hundred, these 93. It takes the quantiles
    Φ(z₀ + (z₀ + z) / (1 − a(z₀ + z))) of the resampled means, for z at both ends. Without any spread (every problem
    right) it is a point, which is not to be believed.
    """
    strata = _problem_means(benchmarks)
    value = float(np.mean([values_P.mean() for values_P in strata]))
    if min(map(len, strata)) < 2:
        return Interval(value, None, None, None)
    if max(np.ptp(values_P) for values_P in strata) <= ROUNDING:
        return Interval(value, 0.0, value, value)
    # A stream for each benchmark: its resamples do not depend on which others are there.
    resampled = [_resampled_means(values_P, rng(SEED, "bootstrap", index)) for index, values_P in enumerate(strata)]
    means_R = np.mean(resampled, axis=0)
    # Resamples that equal the value count half; sums in another order make them unequal in the last digits.
    below = np.mean(means_R < value - ROUNDING) / 2 + np.mean(means_R <= value + ROUNDING) / 2
    # A value beyond all resamples would correct by infinity.
    bias = ndtri(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    # What each problem moves the value by. A mean's skewness over six times its spread cubed is its acceleration.
    influences = np.concatenate([(values_P - values_P.mean()) / len(values_P) for values_P in strata])
    acceleration = np.sum(influences**3) / (6 * np.sum(influences**2) ** 1.5)
    shifted = bias + ndtri(np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    low, high = np.quantile(means_R, ndtr(bias + shifted / (1 - acceleration * shifted)))
    return Interval(value, float(means_R.std(ddof=1)), float(low), float(high))


def _resampled_means(values_P: Floats, generator: np.random.Generator) -> Floats:
    problems = len(values_P)
    rows = max(1, PROBLEM_CHUNK // problems)
    return np.concatenate(
        [
            values_P[generator.integers(0, problems, size=(min(rows, RESAMPLES - start), problems))].mean(axis=1)
            for start in range(0, RESAMPLES, rows)
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
