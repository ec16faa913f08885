"""The tables of the paper, for whatever systems and benchmarks a run has.

Each is made in two steps: a small value with its numbers, from a run's records (or from a publication), and a function
from that value to a `Table`. So the paper's printed numbers go through the same second step as a run's.
"""

from collections.abc import Iterator

from mada.evaluation.summary import summarize
from mada.report.document import Table
from mada.report.paper.accuracy import (
    ablations_of,
    ablations_table,
    differences_table,
    p_table,
    pairs_of,
    results_of,
    results_table,
    significance_of,
    significance_table,
    single_agents_of,
    single_agents_table,
)
from mada.report.paper.costs import costs_table, inference_table, system_costs_of, training_table
from mada.report.paper.layout import PaperSystems
from mada.report.reading import Source

__all__ = ["paper_tables"]


def paper_tables(source: Source) -> list[Table]:
    """Return every table of the paper that the run has something for, in the order of the paper."""
    return list(_tables(source))


def _tables(source: Source) -> Iterator[Table]:
    grid = source.grid
    systems = None if grid is None else PaperSystems.of(summarize(grid))
    if grid is not None and systems is not None:
        yield results_table(results_of(systems))
        if significance := significance_of(systems):
            yield significance_table(significance)
        yield costs_table(system_costs_of(grid, systems))
    ablated = source.ablations or grid  # `mada ablate` writes into a folder of a run, whose own grid they are
    if ablated is not None and (ablations := ablations_of(summarize(ablated))):
        yield ablations_table(ablations)
    if grid is not None and systems is not None and (single := single_agents_of(grid, systems)):
        yield single_agents_table(single)
    recipe = source.run.manifest.recipe
    yield from (table for table in (training_table(recipe), inference_table(recipe)) if table)
    if systems is not None and (pairs := pairs_of(systems.summary)):
        yield differences_table(pairs)
        if significances := p_table(pairs):
            yield significances
