"""Statistics against hand computation, closed forms, scipy and statsmodels."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower

from mada.evaluation import statistics
from mada.evaluation.statistics import (
    Comparison,
    Estimate,
    Interval,
    PairedCounts,
    benjamini_hochberg,
    bootstrap_mean,
    compare_all,
    detectable_difference,
    estimate,
    gain_per_parameter,
    holm,
    mcnemar,
    paired_answers,
    paired_permutation,
    welch,
    welch_from_moments,
)
from mada.seeds import rng


def test_an_estimate_by_hand():
    # Mean 5, squared deviations 9 + 1 + 1 + 9 = 20, s² = 20/3, SE = √(20/3/4).
    found = estimate([2, 4, 6, 8])
    assert (found.mean, found.count) == (5, 4)
    assert found.standard_error == pytest.approx(math.sqrt(5 / 3))


def test_welch_in_closed_form():
    # n = 2 and 2 with equal variances: s² = 2 each, SE² = 1 + 1 = 2, two degrees of freedom, t = 4/√2 = 2√2.
    # For two degrees of freedom p = 1 − t/√(2 + t²), and the 97.5 % point is 0.95·√(2/(1 − 0.95²)).
    comparison = welch([5, 7], [1, 3])
    reach = 0.95 * math.sqrt(2 / (1 - 0.95**2)) * math.sqrt(2)
    assert comparison.difference == 4
    assert comparison.standard_error == pytest.approx(math.sqrt(2))
    assert comparison.p == pytest.approx(1 - math.sqrt(8) / math.sqrt(10), rel=1e-9)
    assert (comparison.low, comparison.high) == (pytest.approx(4 - reach), pytest.approx(4 + reach))


@pytest.mark.parametrize("seed", range(5))
def test_welch_equals_scipy(seed):
    numbers = random.Random(seed)
    first = [numbers.gauss(0.42, 0.01) for _ in range(10)]
    second = [numbers.gauss(0.40, 0.03) for _ in range(3 + seed)]
    comparison = welch(first, second)
    expected: Any = stats.ttest_ind(first, second, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert comparison.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert comparison.standard_error is not None
    assert comparison.difference / comparison.standard_error == pytest.approx(expected.statistic)
    assert (comparison.low, comparison.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_samples_without_spread():
    assert welch([0.5] * 3, [0.5] * 4) == Comparison(0, 0, 0, 0, 1)
    certain = welch([0.75] * 3, [0.5] * 3)
    assert certain == Comparison(0.25, 0, 0.25, 0.25, 0)
    assert certain.stars == "***"


def test_rounding_is_no_evidence():
    assert welch([0.1 + 0.2, 0.3], [0.3, 0.3]).p == 1


def test_moments_are_enough():
    comparison = welch_from_moments(Estimate(41.9, 0.3, 10), Estimate(39.9, 0.4, 5))
    expected: Any = stats.ttest_ind_from_stats(
        41.9, 0.3 * math.sqrt(10), 10, 39.9, 0.4 * math.sqrt(5), 5, equal_var=False
    )
    assert comparison.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert comparison.standard_error == pytest.approx(0.5)
    assert comparison.difference == pytest.approx(2)


def test_a_standard_error_of_one_value_is_refused():
    with pytest.raises(ValueError, match="at least two values"):
        welch_from_moments(Estimate(0.5, 0.1, 10), Estimate(0.5, 0.1, 1))


def test_all_pairs_are_compared_row_minus_column():
    samples = {"base": [0.1, 0.2, 0.4], "ours": [0.5, 0.6, 0.4], "theirs": [0.3, 0.3, 0.2, 0.1]}
    found = compare_all(samples)
    assert set(found) == {(row, column) for row in samples for column in samples if row != column}
    for (row, column), comparison in found.items():
        assert comparison == welch(samples[row], samples[column])
    assert found["ours", "base"].difference > 0 > found["base", "ours"].difference


@pytest.mark.parametrize(
    ("p", "stars"), [(0.05, ""), (0.049, "*"), (0.01, "*"), (0.0099, "**"), (0.001, "**"), (0.0009, "***"), (None, "")]
)
def test_stars(p, stars):
    assert Comparison(0, 0, 0, 0, p).stars == stars


def verdicts(counts):
    """Verdicts of two systems with so many problems right by both, by the first, by the second, by neither."""
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    pairs = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def test_mcnemar_by_hand():
    # Six problems are right in one system only, five of them in the first: p = 2·(C(6,0) + C(6,1)) / 2⁶ = 14/64.
    found = mcnemar(*verdicts((3, 5, 1, 2)))
    assert found == PairedCounts(3, 5, 1, 2, found.p)
    assert found.p == pytest.approx(14 / 64)


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_mcnemar_equals_statsmodels_and_the_binomial_test(counts):
    both, only_first, only_second, neither = counts
    found = mcnemar(*verdicts(counts))
    assert (found.both, found.only_first, found.only_second, found.neither) == counts
    expected: Any = statsmodels_mcnemar([[both, only_first], [only_second, neither]], exact=True)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    if only_first + only_second:
        assert found.p == pytest.approx(stats.binomtest(only_first, only_first + only_second).pvalue, rel=1e-9)


def permuted(*benchmarks):
    """Test per-problem differences of some benchmarks, each with one seed."""
    return paired_permutation([np.reshape(values, (-1, 1)) for values in benchmarks])


@pytest.mark.parametrize(("first", "second"), [([True], [True, False]), ([], [])])
def test_mcnemar_refuses_other_problems(first, second):
    with pytest.raises(ValueError, match="same problems"):
        mcnemar(first, second)


def test_sign_flips_by_hand():
    # Of 2³ assignments only + + + and − − − have a mean as far from zero; the zero counts in the mean and has no sign.
    found = permuted([0.1, 0.2, 0.3, 0.0])
    assert found.p == 2 / 8
    assert found.difference == pytest.approx(0.15)
    assert found.standard_error == pytest.approx(stats.sem([0.1, 0.2, 0.3, 0.0]))
    assert (found.low, found.high) == (None, None)


def test_equal_sums_in_another_order_are_as_far_from_zero():
    # 0.1 + 0.2 − 0.3 is not 0 in floats: every assignment with the same sum must count, whatever its last digit.
    sums = [1 * a + 2 * b - 3 * c + 3 * d for a, b, c, d in itertools.product((1, -1), repeat=4)]
    assert permuted([0.1, 0.2, -0.3, 0.3]).p == sum(abs(total) >= 3 for total in sums) / 16


@pytest.mark.parametrize("seed", range(4))
def test_enumerated_sign_flips_equal_scipy(seed):
    differences = rng(seed, "differences").normal(0.3, 0.6, size=6 + seed)
    expected: Any = stats.permutation_test(
        (differences, np.zeros_like(differences)),
        lambda first, second, axis: np.mean(first - second, axis=axis),
        permutation_type="samples",
        n_resamples=2 ** len(differences),  # as many as there are, so scipy enumerates them
        vectorized=True,
    )
    found = permuted(differences)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(expected.statistic)


def test_drawn_sign_flips_come_near_the_enumerated_ones_and_are_never_certain(monkeypatch):
    differences = rng(1, "differences").normal(0.25, 0.5, size=15)
    exact = permuted(differences).p
    assert exact is not None
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 14)
    monkeypatch.setattr(statistics, "SIGN_CHUNK", 15 * 999)  # several chunks, the last of them short
    assert permuted(differences).p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))
    assert permuted([1.0] * 60).p == 1 / 10_001


def test_the_weights_of_benchmarks_decide_what_is_far():
    # In sixths of 0.2 they weigh 3, −1, 1, 1, with the sum 4.
    weighted = permuted([0.2], [-0.2, 0.2, 0.2])
    assert weighted.difference == pytest.approx(0.2 * 4 / 6)
    # Of 2⁴ sums ±3 ± 1 ± 1 ± 1, as far from zero are 3 + 1 + 1 − 1 in three ways, 3 + 1 + 1 + 1, and their mirrors.
    assert (weighted.p, weighted.standard_error) == (8 / 16, None)
    # As one benchmark they weigh 1, −1, 1, 1: only the six sums with two of each sign are nearer than 2.
    assert permuted([0.2, -0.2, 0.2, 0.2]).p == 10 / 16


def test_the_standard_error_over_benchmarks():
    amc, aime = [0.1, 0.5, 0.3], [0.0, -0.2]
    assert permuted(amc, aime).standard_error == pytest.approx(math.hypot(stats.sem(amc), stats.sem(aime)) / 2)


def test_pairs_of_problem_and_seed_by_hand():
    """Three problems with two seeds: differences of 1 and 1, 1 and 0, 0 and −1 have the means 1, ½ and −½."""
    found = paired_answers([np.array([(1, 1), (1, 0), (0, -1)])])
    assert (found.pairs, found.first_better, found.second_better) == (6, 3, 1)
    expected: Any = stats.ttest_1samp([1, 0.5, -0.5], 0)
    assert found.comparison.difference == pytest.approx(1 / 3)
    assert found.comparison.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (found.comparison.low, found.comparison.high) == pytest.approx((interval.low, interval.high))


def test_more_seeds_of_the_same_answers_are_no_more_evidence():
    """Six pairs that are copies of three are as good as three: seeds of a problem are no independent observations."""
    once, twenty = (paired_answers([np.repeat([[1], [1], [0], [0]], n, 1)]) for n in (1, 20))
    assert twenty.first_better == 20 * once.first_better
    assert twenty.comparison == once.comparison


def test_benchmarks_have_equal_weight_and_their_own_freedom():
    """Two benchmarks of unlike sizes: Welch's test of one against the other's negative is the same sum of two means."""
    large, small = rng(0, "large").normal(0.2, 1, size=(30, 4)), rng(0, "small").normal(0.1, 0.3, size=(5, 4))
    found = paired_answers([large, small]).comparison
    expected = welch(large.mean(axis=1).tolist(), (-small.mean(axis=1)).tolist())
    assert found.difference == pytest.approx(expected.difference / 2)
    assert found.p == pytest.approx(expected.p)


def test_what_pairs_cannot_tell():
    same = paired_answers([np.zeros((2, 2))])
    assert (same.first_better, same.second_better, same.comparison.p) == (0, 0, 1.0)
    assert paired_answers([np.ones((1, 2))]).comparison.p is None, "one problem"
    assert paired_answers([np.ones((2, 1))]).comparison.p is None, "no problem differs from the other"


def answers(generator, *, problems, seeds, mean=1 / 3):
    """Verdicts of problems that are mostly easy or hard: their chances are Beta(mean, 1 − mean), so seeds agree."""
    chances_P1 = generator.beta(mean, 1 - mean, size=(problems, 1))
    return (generator.random((problems, seeds)) < chances_P1).astype(float)


def test_the_value_gives_benchmarks_equal_weight():
    found = bootstrap_mean([np.ones((90, 2)), np.zeros((10, 5))])
    assert found == Interval(0.5, 0, 0.5, 0.5)


def test_the_spread_is_that_of_problem_means():
    first, second = (answers(rng(place, "answers"), problems=40 + place, seeds=6) for place in (0, 1))
    found = bootstrap_mean([first, second])
    # The bootstrap's variance of a mean divides by n where the sample's divides by n − 1.
    expected = np.hypot(first.mean(axis=1).std() / np.sqrt(40), second.mean(axis=1).std() / np.sqrt(41)) / 2
    assert found.standard_error == pytest.approx(expected, rel=0.03)


def test_one_benchmark_equals_scipys_bca(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 40_000)
    values_PS = answers(rng(3, "answers"), problems=25, seeds=4, mean=0.15)
    found = bootstrap_mean([values_PS])
    expected = stats.bootstrap(
        (values_PS.mean(axis=1),),
        np.mean,
        n_resamples=40_000,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=4e-3), pytest.approx(expected.high, abs=4e-3))


def test_pieces_change_nothing(monkeypatch):
    values_PS = answers(rng(0, "answers"), problems=32, seeds=3)
    whole = bootstrap_mean([values_PS])
    monkeypatch.setattr(statistics, "PROBLEM_CHUNK", 32 * 300)
    assert bootstrap_mean([values_PS]) == whole


@pytest.mark.parametrize("seeds", [2, 3, 10, 50])
def test_the_detectable_difference_equals_statsmodels(seeds):
    found = detectable_difference(0.02, seeds)
    # Half the level to the right; with both sides statsmodels gives NaN for a few seeds.
    reached = TTestIndPower().power(found / 0.02, nobs1=seeds, alpha=0.025, alternative="larger")
    assert reached == pytest.approx(0.8, abs=1e-9)


def test_ten_seeds_find_about_four_thirds_of_a_spread():
    # The textbook's value for two groups of ten at .05 and 80 %: d = 1.325.
    assert detectable_difference(1, 10) == pytest.approx(1.325, abs=5e-4)
    assert detectable_difference(0, 10) == 0
    with pytest.raises(ValueError, match="two seeds"):
        detectable_difference(1, 1)


def test_one_problem_has_no_interval():
    assert bootstrap_mean([np.ones((5, 2)), np.zeros((1, 2))]) == Interval(0.5, None, None, None)


@pytest.mark.parametrize(
    ("benchmarks", "message"),
    [([], "at least one benchmark"), ([[0.1, 0.2]], "axes problem and seed"), ([[[0.1], [np.nan]]], "finite")],
)
def test_what_has_no_problems_is_refused(benchmarks, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_mean(benchmarks)


def coverage(shape, truth, *, interval):
    """How often an interval of fresh answers to fresh problems holds the truth."""
    held = 0
    for experiment in range(600):
        generator = rng(experiment, "coverage")
        found = interval([answers(generator, problems=problems, seeds=seeds) for problems, seeds in shape])
        held += found.low <= truth <= found.high
    return held / 600


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 1000)
    shape = [(30, 10), (40, 10)]

    def clustered(benchmarks):
        return bootstrap_mean(benchmarks)

    def naive(benchmarks):
        """Every answer for itself, as if ten seeds of a problem were ten problems."""
        return bootstrap_mean([values_PS.reshape(-1, 1) for values_PS in benchmarks])

    assert 0.92 <= coverage(shape, 1 / 3, interval=clustered) <= 0.975
    assert coverage(shape, 1 / 3, interval=naive) < 0.75


P_VALUES = st.lists(st.none() | st.floats(0, 1), max_size=12)
# statsmodels collects garbage at every call of Holm, which takes long where torch is loaded.
FEW = settings(max_examples=25)
CORRECTIONS = pytest.mark.parametrize(("correction", "method"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])


def test_holm_by_hand():
    # In rising order times 3, 2, 1, never falling: .01·3, .03·2, .04·1 raised to .06. The None is not counted.
    assert holm([0.04, None, 0.01, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]


def test_benjamini_hochberg_by_hand():
    # In rising order times 3/1, 3/2, 3/3, lowered from the end: .03, .045 lowered to .04, .04.
    found = benjamini_hochberg([0.04, None, 0.01, 0.03])
    assert found == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]


@CORRECTIONS
@FEW
@given(p_values=P_VALUES)
def test_none_passes_through_and_the_others_equal_statsmodels(correction, method, p_values):
    known = [p for p in p_values if p is not None]
    found = correction(p_values)
    assert [p is None for p in found] == [p is None for p in p_values]
    if known:
        expected = np.asarray(multipletests(known, method=method)[1]).tolist()
        assert [p for p in found if p is not None] == pytest.approx(expected)


@CORRECTIONS
def test_what_is_no_p_value_is_refused(correction, method):
    with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
        correction([0.1, 1.5])


def test_two_points_by_the_papers_six_adapters():
    assert gain_per_parameter(0.0200, 110_000_000) == pytest.approx(181.8, abs=0.05)
    assert gain_per_parameter(-0.01, 100_000_000) == pytest.approx(-100)
