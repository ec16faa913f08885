"""Cells that many tables have, and the places of figures."""

from typing import get_args

import pytest

from mada.evaluation.statistics import Comparison, Estimate
from mada.report.document import Cell, Figure
from mada.report.figures.data import FigureData, FlowFigure
from mada.report.sections.entries import accuracy, difference, figure_place, uncertain_difference


@pytest.mark.parametrize(("p", "stars"), [(None, ""), (0.05, ""), (0.0499, "*"), (0.0099, "**"), (0.0009, "***")])
def test_stars_stand_apart_from_the_difference(p, stars):
    comparison = Comparison(-0.0521, 0.005, -0.1, 0.1, p)
    assert difference(comparison) == Cell("−5.2", stars)
    assert uncertain_difference(comparison) == Cell("−5.2 ± 0.5", stars)


def test_one_seed_has_no_error():
    assert accuracy(Estimate(0.801, 0.024, 6)) == "80.1 ± 2.4"
    assert accuracy(Estimate(0.801, None, 1)) == "80.1"
    assert uncertain_difference(Comparison(0.02, None, None, None, None)) == Cell("+2.0")


def test_a_figure_has_its_place_under_its_own_name():
    assert figure_place(FlowFigure) == Figure("flow", "What debating changed: votes from round to round")
    places = [figure_place(kind) for kind in get_args(FigureData)]
    assert {place.name for place in places} == {
        *("parameters", "tokens", "training", "flow", "critics", "advantages", "pairs"),
    }
