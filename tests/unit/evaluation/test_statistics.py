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

import mada.evaluation.statistics
from mada.evaluation.statistics import (
    Comparison,
    Estimate,
    Interval,
    PairedCounts,
    benjamini_hochberg,
    bootstrap_difference,
    bootstrap_mean,
    compare_all,
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


def test_one_value_has_no_standard_error_and_no_test():
    assert estimate([0.4]) == Estimate(0.4, None, 1)
    comparison = welch([0.75], [0.5, 0.5])
    assert comparison == Comparison(0.25, None, None, None, None)
    assert comparison.stars == ""


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        estimate([])


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


def test_against_a_constant_sample_it_is_the_one_sample_test():
    first, second = [0.5, 0.5, 0.5], [0.4, 0.6, 0.7, 0.3]
    expected: Any = stats.ttest_1samp(second, 0.5)
    assert welch(first, second).p == pytest.approx(expected.pvalue)


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


def test_moments_without_a_standard_error_make_no_test():
    assert welch_from_moments(Estimate(0.5, None, 1), Estimate(0.25, 0.1, 9)) == Comparison(
        0.25, None, None, None, None
    )


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


SAMPLES = st.lists(st.floats(0, 1), min_size=2, max_size=10)


@given(SAMPLES, SAMPLES)
def test_swapping_the_samples_turns_the_difference_round(first, second):
    one, other = welch(first, second), welch(second, first)
    assert one.p is not None
    assert other.p is not None
    assert 0 <= one.p <= 1
    assert one.p == pytest.approx(other.p, abs=1e-12)
    assert one.difference == -other.difference


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


def test_systems_that_never_part_give_no_evidence():
    assert mcnemar([True, False], [True, False]).p == 1
    assert paired_permutation([0.0, 0.0, 1e-17], seed=0).p == 1


@pytest.mark.parametrize(("first", "second"), [([True], [True, False]), ([], [])])
def test_mcnemar_refuses_other_problems(first, second):
    with pytest.raises(ValueError, match="same problems"):
        mcnemar(first, second)


def test_sign_flips_by_hand():
    # Of 2³ assignments only + + + and − − − have a mean as far from zero; the zero counts in the mean and has no sign.
    found = paired_permutation([0.1, 0.2, 0.3, 0.0], seed=0)
    assert found.p == 2 / 8
    assert found.difference == pytest.approx(0.15)
    assert found.standard_error == pytest.approx(stats.sem([0.1, 0.2, 0.3, 0.0]))
    assert (found.low, found.high) == (None, None)


def test_equal_sums_in_another_order_are_as_far_from_zero():
    # 0.1 + 0.2 − 0.3 is not 0 in floats: every assignment with the same sum must count, whatever its last digit.
    found = paired_permutation([0.1, 0.2, -0.3, 0.3], seed=0)
    sums = [1 * a + 2 * b - 3 * c + 3 * d for a, b, c, d in itertools.product((1, -1), repeat=4)]
    assert found.p == sum(abs(total) >= 3 for total in sums) / 16


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
    found = paired_permutation(differences.tolist(), seed=0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(expected.statistic)


def test_drawn_sign_flips_come_near_the_enumerated_ones(monkeypatch):
    differences = rng(1, "differences").normal(0.25, 0.5, size=15).tolist()
    exact = paired_permutation(differences, seed=0).p
    monkeypatch.setattr(mada.evaluation.statistics, "EXACT_UP_TO", 14)
    monkeypatch.setattr(mada.evaluation.statistics, "SIGN_CHUNK", 15 * 999)  # several chunks, the last of them short
    drawn = paired_permutation(differences, seed=0).p
    assert exact is not None
    assert drawn is not None
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))
    assert drawn == paired_permutation(differences, seed=0).p
    assert drawn != paired_permutation(differences, seed=1).p


def test_drawn_sign_flips_are_never_certain():
    assert paired_permutation([1.0] * 60, seed=0, permutations=999).p == 1 / 1000


def test_one_difference_can_show_nothing():
    found = paired_permutation([0.4], seed=0)
    assert (found.p, found.standard_error) == (1, None)


def test_the_weights_of_benchmarks_decide_what_is_far():
    # In sixths of 0.2 they weigh 3, −1, 1, 1, with the sum 4.
    weighted = paired_permutation([0.2, -0.2, 0.2, 0.2], seed=0, benchmarks=["aime", "amc", "amc", "amc"])
    assert weighted.difference == pytest.approx(0.2 * 4 / 6)
    # Of 2⁴ sums ±3 ± 1 ± 1 ± 1, as far from zero are 3 + 1 + 1 − 1 in three ways, 3 + 1 + 1 + 1, and their mirrors.
    assert weighted.p == 8 / 16
    # Without benchmarks they weigh 1, −1, 1, 1: only the six sums with two of each sign are nearer than 2.
    assert paired_permutation([0.2, -0.2, 0.2, 0.2], seed=0).p == 10 / 16


def test_benchmarks_have_equal_weight():
    # Two problems of one benchmark with 0.4 each, one of another with −0.2: (0.4 − 0.2) / 2, not 0.6 / 3.
    found = paired_permutation([0.4, -0.2, 0.4], seed=0, benchmarks=["amc", "aime", "amc"])
    assert found.difference == pytest.approx(0.1)
    # Weighted they are 0.1, −0.1, 0.1: no assignment of signs brings them nearer to zero than 0.1.
    assert found.p == 1
    assert found.standard_error is None


def test_the_standard_error_over_benchmarks():
    amc, aime = [0.1, 0.5, 0.3], [0.0, -0.2]
    found = paired_permutation([*amc, *aime], seed=0, benchmarks=["amc"] * 3 + ["aime"] * 2)
    assert found.standard_error == pytest.approx(math.hypot(stats.sem(amc), stats.sem(aime)) / 2)


def test_pairing_finds_what_welch_cannot():
    hard_to_easy = np.linspace(0, 0.9, 40)
    better = hard_to_easy + 0.05 + rng(0, "noise").normal(0, 0.02, size=40)
    p = paired_permutation((better - hard_to_easy).tolist(), seed=0).p
    unpaired = welch(better.tolist(), hard_to_easy.tolist()).p
    assert p is not None
    assert unpaired is not None
    assert p < 0.001 < 0.3 < unpaired


@pytest.mark.parametrize(
    ("differences", "benchmarks", "message"),
    [([], None, "finite"), ([0.1, math.nan], None, "finite"), ([0.1, 0.2], ["amc"], "each needs one")],
)
def test_what_cannot_be_tested_is_refused(differences, benchmarks, message):
    with pytest.raises(ValueError, match=message):
        paired_permutation(differences, seed=0, benchmarks=benchmarks)


def test_pairs_of_problem_and_seed_by_hand():
    """Three problems with two seeds: differences of 1 and 1, 1 and 0, 0 and −1 have the means 1, ½ and −½."""
    first, second = [(1, 1), (1, 0), (0, 0)], [(0, 0), (0, 0), (0, 1)]
    found = paired_answers([first], [second])
    assert (found.pairs, found.first_better, found.second_better) == (6, 3, 1)
    expected: Any = stats.ttest_1samp([1, 0.5, -0.5], 0)
    assert found.comparison.difference == pytest.approx(1 / 3)
    assert found.comparison.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (found.comparison.low, found.comparison.high) == pytest.approx((interval.low, interval.high))


def test_more_seeds_of_the_same_answers_are_no_more_evidence():
    """Six pairs that are copies of three are as good as three: seeds of a problem are no independent observations."""
    first, second = np.array([[1], [1], [0], [1]]), np.array([[0], [0], [0], [1]])
    once, twenty = (paired_answers([np.repeat(first, n, 1)], [np.repeat(second, n, 1)]) for n in (1, 20))
    assert twenty.first_better == 20 * once.first_better
    assert twenty.comparison == once.comparison


def test_benchmarks_have_equal_weight_and_their_own_freedom():
    """Two benchmarks of unlike sizes: Welch's test of one against the other's negative is the same sum of two means."""
    large, small = rng(0, "large").normal(0.2, 1, size=(30, 4)), rng(0, "small").normal(0.1, 0.3, size=(5, 4))
    found = paired_answers([large, small], [np.zeros_like(large), np.zeros_like(small)]).comparison
    expected = welch(large.mean(axis=1).tolist(), (-small.mean(axis=1)).tolist())
    assert found.difference == pytest.approx(expected.difference / 2)
    assert found.p == pytest.approx(expected.p)


def test_what_pairs_cannot_tell():
    same = paired_answers([[[1, 0], [0, 1]]], [[[1, 0], [0, 1]]])
    assert (same.first_better, same.second_better, same.comparison.p) == (0, 0, 1.0)
    assert paired_answers([[[1, 1]]], [[[0, 0]]]).comparison.p is None, "one problem"
    assert paired_answers([[[1], [1]]], [[[0], [0]]]).comparison.p is None, "no problem differs from the other"
    with pytest.raises(ValueError, match="axes"):
        paired_answers([], [])


def answers(generator, *, problems, seeds, mean=1 / 3):
    """Verdicts of problems that are mostly easy or hard: their chances are Beta(mean, 1 − mean), so seeds agree."""
    chances_P1 = generator.beta(mean, 1 - mean, size=(problems, 1))
    return (generator.random((problems, seeds)) < chances_P1).astype(float)


def test_the_value_gives_benchmarks_equal_weight():
    found = bootstrap_mean([np.ones((90, 2)), np.zeros((10, 5))], seed=0)
    assert found == Interval(0.5, 0, 0.5, 0.5)


def test_the_spread_is_that_of_problem_means():
    first, second = (answers(rng(place, "answers"), problems=40 + place, seeds=6) for place in (0, 1))
    found = bootstrap_mean([first, second], seed=0)
    # The bootstrap's variance of a mean divides by n where the sample's divides by n − 1.
    expected = np.hypot(first.mean(axis=1).std() / np.sqrt(40), second.mean(axis=1).std() / np.sqrt(41)) / 2
    assert found.standard_error == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_one_benchmark_equals_scipys_bca(confidence):
    values_PS = answers(rng(3, "answers"), problems=25, seeds=4, mean=0.15)
    found = bootstrap_mean([values_PS], seed=0, resamples=40_000, confidence=confidence)
    expected = stats.bootstrap(
        (values_PS.mean(axis=1),),
        np.mean,
        n_resamples=40_000,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=4e-3), pytest.approx(expected.high, abs=4e-3))


def test_it_is_skewed_where_accuracy_is():
    found = bootstrap_mean([answers(rng(0, "answers"), problems=30, seeds=10, mean=0.1)], seed=0)
    assert found.low is not None
    assert found.high is not None
    assert found.low > 0
    assert found.high - found.value > 1.2 * (found.value - found.low)


def test_the_same_seed_gives_the_same_interval():
    values_PS = answers(rng(0, "answers"), problems=30, seeds=3)
    assert bootstrap_mean([values_PS], seed=0) == bootstrap_mean([values_PS], seed=0)
    assert bootstrap_mean([values_PS], seed=0) != bootstrap_mean([values_PS], seed=1)


def test_pieces_change_nothing(monkeypatch):
    values_PS = answers(rng(0, "answers"), problems=32, seeds=3)
    whole = bootstrap_mean([values_PS], seed=0, resamples=1000)
    monkeypatch.setattr(mada.evaluation.statistics, "PROBLEM_CHUNK", 32 * 300)
    assert bootstrap_mean([values_PS], seed=0, resamples=1000) == whole


def test_a_difference_is_paired():
    first = [answers(rng(place, "answers"), problems=30, seeds=8) for place in (0, 1)]
    # The second system has fewer seeds, and is right wherever the first is, less often by a tenth on every problem.
    second = [values_PS.mean(axis=1, keepdims=True) - 0.1 for values_PS in first]
    found = bootstrap_difference(first, second, seed=0)
    assert (found.value, found.low, found.high) == tuple(pytest.approx(0.1) for _ in range(3))


def test_a_difference_has_the_resamples_of_a_mean():
    first, second = (answers(rng(place, "answers"), problems=30, seeds=8) for place in (0, 1))
    difference, mean = bootstrap_difference([first], [second], seed=4), bootstrap_mean([first - second], seed=4)
    assert (difference.low, difference.high) == (pytest.approx(mean.low), pytest.approx(mean.high))


def test_the_other_way_round_it_is_turned_round():
    first, second = (answers(rng(place, "answers"), problems=30, seeds=8) for place in (0, 1))
    one, other = bootstrap_difference([first], [second], seed=4), bootstrap_difference([second], [first], seed=4)
    assert other.low is not None
    assert other.high is not None
    assert (one.low, one.high) == (pytest.approx(-other.high), pytest.approx(-other.low))


def test_one_problem_has_no_interval():
    assert bootstrap_mean([np.ones((5, 2)), np.zeros((1, 2))], seed=0) == Interval(0.5, None, None, None)


@pytest.mark.parametrize(
    ("benchmarks", "message"),
    [([], "at least one benchmark"), ([[0.1, 0.2]], "axes problem and seed"), ([[[0.1], [np.nan]]], "finite")],
)
def test_what_has_no_problems_is_refused(benchmarks, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_mean(benchmarks, seed=0)


def test_a_difference_on_other_problems_is_refused():
    with pytest.raises(ValueError, match="same problems, got 3 and 4"):
        bootstrap_difference([np.ones((3, 2))], [np.ones((4, 2))], seed=0)


def coverage(shape, truth, *, interval):
    """How often an interval of fresh answers to fresh problems holds the truth."""
    held = 0
    for experiment in range(600):
        generator = rng(experiment, "coverage")
        found = interval([answers(generator, problems=problems, seeds=seeds) for problems, seeds in shape])
        held += found.low <= truth <= found.high
    return held / 600


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    shape = [(30, 10), (40, 10)]

    def clustered(benchmarks):
        return bootstrap_mean(benchmarks, seed=0, resamples=1000)

    def naive(benchmarks):
        """Every answer for itself, as if ten seeds of a problem were ten problems."""
        return bootstrap_mean([values_PS.reshape(-1, 1) for values_PS in benchmarks], seed=0, resamples=1000)

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


@FEW
@given(P_VALUES)
def test_a_correction_never_lowers_and_holm_is_the_stricter(p_values):
    for p, lenient, strict in zip(p_values, benjamini_hochberg(p_values), holm(p_values), strict=True):
        if p is not None:
            assert lenient is not None
            assert strict is not None
            assert p <= lenient + 1e-12 <= strict + 2e-12 <= 1 + 2e-12


@CORRECTIONS
def test_what_is_no_p_value_is_refused(correction, method):
    with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
        correction([0.1, 1.5])


def test_two_points_by_the_papers_six_adapters():
    assert gain_per_parameter(0.0200, 110_000_000) == pytest.approx(181.8, abs=0.05)
    assert gain_per_parameter(-0.01, 100_000_000) == pytest.approx(-100)


def test_the_base_has_no_gain_per_parameter():
    with pytest.raises(ValueError, match="the base itself has none"):
        gain_per_parameter(0.0, 0)
