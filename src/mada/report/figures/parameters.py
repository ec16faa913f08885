"""What trained parameters bring: the systems of a run by how many of them training changed (the paper's figure)."""

from collections.abc import Sequence

from mada.report.figures.data import ParametersFigure
from mada.report.figures.points import system_points
from mada.report.reading import Source


def parameters_figure(sources: Sequence[Source]) -> ParametersFigure | None:
    """Return mean accuracy against trained parameters; None where nothing that is known was trained."""
    points = system_points(sources, lambda _, system: system.parameters, measure="mean")
    return ParametersFigure(points) if any(point.x > 0 for point in points) else None
