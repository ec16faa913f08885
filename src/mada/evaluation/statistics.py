"""The statistics of an evaluation, as functions of numbers alone (E1–E3, B3).

| question                                          | answered by                                             |
|---------------------------------------------------|---------------------------------------------------------|
| how good, over seeds?                             | `estimate`                                              |
| how good, over problems?                          | `bootstrap_mean`                                        |
| does one beat the other, over seeds?              | `welch`, `welch_from_moments`, `compare_all`            |
| does one beat the other, over the same problems?  | `paired_answers`, `mcnemar`, `paired_permutation`,      |
|                                                   | `bootstrap_difference`                                  |
| and after so many tests?                          | `holm`, `benjamini_hochberg`                            |
| could such a comparison have found it?            | `detectable_difference`, `detectable_difference_of_answers` |
| what would k answers have reached?                | `pass_at_k`, `majority_at_k`                            |
| what was gained for what was trained?             | `gain_per_parameter`                                    |
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, permutations
from statistics import fmean, variance
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, nctdtr, ndtr, ndtri, stdtr, stdtrit

from mada.seeds import rng

CONFIDENCE = 0.95
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
# Averages of the same shares in another order differ in their last digits; that is no evidence of anything.
ROUNDING = 1e-12


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


Floats = NDArray[np.float64]

# 2^14 assignments of signs (one of them is fixed by symmetry) take no time, and leave nothing to chance.
EXACT_UP_TO = 15
# Signs held in memory at once.
SIGN_CHUNK = 2**22


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
    rows = max(1, SIGN_CHUNK // len(weighted))
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


Floats = NDArray[np.float64]

# Drawn problems held in memory at once.
PROBLEM_CHUNK = 2**21


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
    rows = max(1, PROBLEM_CHUNK // problems)
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


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the chance of any false finding among all stays below the level (Holm, 1979).

    For claims that each must stand, such as a method against every baseline.
    """
    return _adjusted(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the expected share of false findings among the findings stays below the level (1995).

    For exploration, such as the full pairwise matrix: more is found, and some of it may be false.
    """
    return _adjusted(p_values, "fdr_bh")


def _adjusted(p_values: Sequence[float | None], method: Literal["holm", "fdr_bh"]) -> list[float | None]:
    known = [p for p in p_values if p is not None]
    for p in known:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value is a number from 0 to 1, got {p}")
    if not known:
        return [None] * len(p_values)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    _, corrected, *_ = multipletests(known, method=method)
    adjusted = iter(np.asarray(corrected, dtype=np.float64).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


POWER = 0.8
LEVEL = 0.05


def detectable_difference(
    spread: float, seeds: int, *, other_spread: float | None = None, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest true difference of means that Welch's test over seeds finds with the given power.

    `spread` is the standard deviation of one system's per-seed averages (√seeds times its standard error), the other's
    is the same unless given. Averages are taken to be normal, and the measured spreads to be the true ones; a finding
    with the wrong sign is none.
    """
    from scipy.optimize import root_scalar  # not needed to read a report

    other = spread if other_spread is None else other_spread
    if seeds < 2 or spread < 0 or other < 0:
        raise ValueError(f"two seeds and a spread are the least a test needs, got {seeds} and {spread}, {other}")
    if not 0 < level < power < 1:
        raise ValueError(f"the power must lie between the level and 1, got power {power} and level {level}")
    error = math.hypot(spread, other) / math.sqrt(seeds)
    if error == 0:
        return 0.0
    shares = [part**2 / (spread**2 + other**2) for part in (spread, other)]
    freedom = (seeds - 1) / sum(share**2 for share in shares)
    critical = float(stdtrit(freedom, 1 - level / 2))

    def missing(shift: float) -> float:
        # The other tail is a finding with the wrong sign, and `nctdtr` has NaN so far out.
        return 1 - float(nctdtr(freedom, shift, critical)) - power

    highest = critical
    while missing(highest) < 0:
        highest *= 2
    return float(root_scalar(missing, bracket=(0.0, highest)).root) * error


def detectable_difference_of_answers(
    accuracy: float, problems: int, *, seeds: int, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest difference that so many problems and seeds can find, before anything has been measured.

    Every answer is right with the same chance, independently, so a seed's average has the spread √(p(1−p)/problems).
    Problems that differ in difficulty spread seeds less, so this is cautious for the problems at hand; for a claim
    about other problems it is too hopeful, since seeds of one problem are alike.
    """
    if not 0 <= accuracy <= 1 or problems < 1:
        raise ValueError(f"needs an accuracy from 0 to 1 and at least one problem, got {accuracy} and {problems}")
    return detectable_difference(math.sqrt(accuracy * (1 - accuracy) / problems), seeds, power=power, level=level)


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
    the groups that are right. Tied groups win with equal chance. No answer is never voted for: a draw without any
    answer is wrong.

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


# The paper's scale: a gain of one point by a hundred million parameters reads 100.
SCALE = 1e12


def gain_per_parameter(gain: float, parameters: int) -> float:
    """Return an accuracy gain over the base, as a fraction, per trainable parameter, times 1e12 (E3)."""
    if parameters < 1:
        raise ValueError(f"a gain per parameter needs trained parameters, got {parameters}; the base itself has none")
    return gain / parameters * SCALE
