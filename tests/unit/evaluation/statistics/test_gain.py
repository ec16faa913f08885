"""Gain per parameter by hand; the paper's own column is in test_the_papers_tables.py."""

import pytest

from mada.evaluation.statistics import gain_per_parameter


def test_two_points_by_the_papers_six_adapters():
    assert gain_per_parameter(0.0200, 110_000_000) == pytest.approx(181.8, abs=0.05)
    assert gain_per_parameter(-0.01, 100_000_000) == pytest.approx(-100)


def test_the_base_has_no_gain_per_parameter():
    with pytest.raises(ValueError, match="the base itself has none"):
        gain_per_parameter(0.0, 0)
