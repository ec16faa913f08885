"""Every system against every other, over seeds: which differences are more than chance (E2)."""

from collections.abc import Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import MEASURES
from mada.evaluation.statistics import Comparison, compare_all
from mada.report.figures.data import PairCell, PairsFigure
from mada.report.figures.points import run_title
from mada.report.reading import Source


def pairs_figure(sources: Sequence[Source]) -> PairsFigure | None:
    """Return the matrix of all shown systems of all runs; None where there are less than two.

    Several runs make one matrix if they were evaluated on the same problems, and none otherwise: a difference between
    accuracies on different problems would say nothing, and a matrix of one of the runs would look like one of all.
    Welch's test needs no pairs, so the runs may differ in their seeds and in how many they are.
    """
    titles: list[str] = []
    averages: list[list[float]] = []
    problems = None
    for source in sources:
        if source.grid is None:
            continue
        if problems is not None and dict(source.grid.problems) != problems:
            return None
        problems = dict(source.grid.problems)
        run = run_title(source, sources)
        for system in shown_systems(source.grid):
            titles.append(f"{run}: {system.title}" if run else system.title)
            averages.append(source.grid.seed_averages(system, MEASURES["verdict"]))
    if len(titles) < 2:
        return None
    # Titles need not be different, places are.
    places = [str(place) for place in range(len(titles))]
    comparisons = compare_all(dict(zip(places, averages, strict=True)))
    cells = tuple(
        tuple(None if row == column else _cell(comparisons[row, column]) for column in places) for row in places
    )
    return PairsFigure(run="", systems=tuple(titles), cells=cells)


def _cell(comparison: Comparison) -> PairCell:
    return PairCell(
        difference=comparison.difference, error=comparison.standard_error, p=comparison.p, stars=comparison.stars
    )
