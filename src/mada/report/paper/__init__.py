"""The tables of the paper, for whatever systems and benchmarks a run has.

Each is made in two steps: a small value with its numbers, taken out of a run's records (or out of a publication), and a
function from that value to a `Table`. So the paper's printed numbers go through the same second step as a run's.
"""

from collections.abc import Iterator

from mada.evaluation.grid import Grid
from mada.evaluation.summary import Summary, summary_of
from mada.report.document import Table
from mada.report.paper.ablations import ablations_of, ablations_table
from mada.report.paper.costs import costs_table, system_costs_of
from mada.report.paper.hyperparameters import inference_table, training_table
from mada.report.paper.lineup import Lineup
from mada.report.paper.matrices import differences_table, p_table, pairs_of
from mada.report.paper.results import results_of, results_table
from mada.report.paper.significance import significance_of, significance_table
from mada.report.paper.single_agent import single_agents_of, single_agents_table
from mada.report.reading import Source

__all__ = ["paper_tables"]


def paper_tables(source: Source) -> list[Table]:
    """Return every table of the paper that the run has something for, in the order of the paper."""
    return list(_tables(source))


def _tables(source: Source) -> Iterator[Table]:
    grid = source.grid
    lineup = None if grid is None else Lineup.of(summary_of(grid))
    if grid is not None and lineup is not None:
        yield from _main(grid, lineup)
    ablated = source.ablations or grid  # of a run they lie in a folder within; `mada ablate` itself has them as its own
    if ablated is not None and (ablations := ablations_of(summary_of(ablated))):
        yield ablations_table(ablations)
    if grid is not None and lineup is not None and (single := single_agents_of(grid, lineup)):
        yield single_agents_table(single)
    recipe = source.run.manifest.recipe
    yield from (table for table in (training_table(recipe), inference_table(recipe)) if table)
    if lineup is not None:
        yield from _matrices(lineup.summary)


def _main(grid: Grid, lineup: Lineup) -> Iterator[Table]:
    yield results_table(results_of(lineup))
    if significance := significance_of(lineup):
        yield significance_table(significance)
    yield costs_table(system_costs_of(grid, lineup))


def _matrices(summary: Summary) -> Iterator[Table]:
    if pairs := pairs_of(summary):
        yield differences_table(pairs)
        if significance := p_table(pairs):
            yield significance
