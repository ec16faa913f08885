"""Systems as points, accuracy against a cost: what the figures of parameters and of tokens have in common."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import MEASURES, Grid, Measure
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import ROUNDING, estimate
from mada.report.figures.data import SystemPoint
from mada.report.numbering import numbered_titles
from mada.report.reading import Source


def run_title(source: Source, sources: Sequence[Source]) -> str:
    """Return what tells a run from the others of a figure: nothing where it is the only one."""
    return source.title if len(sources) > 1 else ""


def system_points(
    sources: Sequence[Source], cost: Callable[[Grid, PlannedSystem], float | None], *, measure: Measure
) -> tuple[SystemPoint, ...]:
    """Return the shown systems of all runs whose cost is known, by one measure and with one Pareto front."""
    titles = numbered_titles(source.grid.plan for source in sources if source.grid)
    points: list[SystemPoint] = []
    for source in sources:
        if source.grid is None:
            continue
        for system in shown_systems(source.grid):
            x = cost(source.grid, system)
            if x is not None:
                average = estimate(source.grid.seed_averages(system, MEASURES[measure]))
                points.append(
                    SystemPoint(
                        run=run_title(source, sources),
                        name=system.name,
                        title=titles[system.name],
                        x=float(x),
                        accuracy=average.mean,
                        error=average.standard_error,
                        is_reference=system.name == source.grid.plan.reference,
                        is_on_front=False,
                    )
                )
    return with_front(points)


def with_front(points: Sequence[SystemPoint]) -> tuple[SystemPoint, ...]:
    """Mark the Pareto front: those that no other point beats.

    To beat is to be at least as good and at most as dear, and one of the two strictly. So twins are on the front
    together, and who pays more for the same accuracy is not.
    """
    return tuple(replace(point, is_on_front=not any(_beats(other, point) for other in points)) for point in points)


def _beats(other: SystemPoint, point: SystemPoint) -> bool:
    # Averages of the same answers may differ by rounding alone, which is no advantage.
    better = other.accuracy - point.accuracy
    return (other.x < point.x and better >= -ROUNDING) or (other.x == point.x and better > ROUNDING)
