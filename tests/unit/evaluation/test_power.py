"""Detectable differences against statsmodels and against simulated experiments."""

import math

import pytest
from statsmodels.stats.power import TTestIndPower

from mada.evaluation.power import detectable_difference, detectable_difference_of_answers
from mada.evaluation.statistics import welch
from mada.seeds import rng


@pytest.mark.parametrize("seeds", [2, 3, 10, 50])
@pytest.mark.parametrize(("power", "level"), [(0.8, 0.05), (0.95, 0.01), (0.99, 0.001)])
def test_equal_spreads_equal_statsmodels(seeds, power, level):
    found = detectable_difference(0.02, seeds, power=power, level=level)
    # Half the level to the right; with both sides statsmodels gives NaN for a few seeds.
    reached = TTestIndPower().power(found / 0.02, nobs1=seeds, alpha=level / 2, alternative="larger")
    assert reached == pytest.approx(power, abs=1e-9)


def test_ten_seeds_find_about_four_thirds_of_a_spread():
    # The textbook's value for two groups of ten at .05 and 80 %: d = 1.325.
    assert detectable_difference(1, 10) == pytest.approx(1.325, abs=5e-4)


@pytest.mark.slow
def test_welchs_test_finds_it_as_often_as_promised():
    difference = detectable_difference(1, 8, other_spread=3)
    generator = rng(0, "power")
    found = 0
    for _ in range(4000):
        p = welch(generator.normal(difference, 1, size=8).tolist(), generator.normal(0, 3, size=8).tolist()).p
        assert p is not None
        found += p < 0.05
    assert found / 4000 == pytest.approx(0.8, abs=0.02)


def test_without_spread_anything_is_found():
    assert detectable_difference(0, 10) == 0


def test_answers_are_coins():
    # 30 problems at one half: a seed's average spreads by √(0.25/30).
    found = detectable_difference_of_answers(0.5, 30, seeds=10)
    assert found == detectable_difference(math.sqrt(0.25 / 30), 10)
    assert found == pytest.approx(0.121, abs=5e-4)


def test_four_times_the_problems_halve_it():
    few, many = (detectable_difference_of_answers(0.3, problems, seeds=10) for problems in (30, 120))
    assert few / many == pytest.approx(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"seeds": 1}, "two seeds"), ({"spread": -1}, "two seeds"), ({"power": 0.04}, "between the level and 1")],
)
def test_what_no_test_could_do_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        detectable_difference(**{"spread": 1.0, "seeds": 10, **arguments})


@pytest.mark.parametrize(("accuracy", "problems"), [(1.2, 30), (0.5, 0)])
def test_impossible_answers_are_refused(accuracy, problems):
    with pytest.raises(ValueError, match="accuracy from 0 to 1"):
        detectable_difference_of_answers(accuracy, problems, seeds=10)
