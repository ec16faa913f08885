"""Clustered bootstrap intervals: by hand, against scipy, and how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

import mada.evaluation.statistics
from mada.evaluation.statistics import Interval, bootstrap_difference, bootstrap_mean
from mada.seeds import rng


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
