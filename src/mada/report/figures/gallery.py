"""All figures that a report can show, in the order in which it shows them."""

from collections.abc import Sequence

from mada.report.figures.advantages import advantages_figure
from mada.report.figures.critics import critics_figure
from mada.report.figures.data import FigureData
from mada.report.figures.flow import flow_figure
from mada.report.figures.pairs import pairs_figure
from mada.report.figures.parameters import parameters_figure
from mada.report.figures.tokens import tokens_figure
from mada.report.figures.training import training_figure
from mada.report.reading import Source

FIGURES = (
    parameters_figure,
    tokens_figure,
    training_figure,
    flow_figure,
    critics_figure,
    advantages_figure,
    pairs_figure,
)


def figures_of(sources: Sequence[Source]) -> list[FigureData]:
    """Return the figures that these runs have something to show in."""
    return [figure for make in FIGURES if (figure := make(sources)) is not None]
