"""The tables of the paper, for whatever systems and benchmarks a run has.

Each is made by two functions: `…_of` reads the numbers from a run's records, `…_table` makes a `Table` of numbers. So
the paper's printed numbers go through the same second step as a run's.
"""

from mada.evaluation.summary import summarize
from mada.report.document import Table
from mada.report.paper.accuracy import ablations_of, pairs_of, results_of, significance_of, single_agents_of
from mada.report.paper.costs import costs_of, inference_table, training_table
from mada.report.paper.shading import PaperSystems
from mada.report.reading import Source

__all__ = ["paper_tables"]


def paper_tables(source: Source) -> list[Table]:
    """Return every table of the paper that the run has something for, in the order of the paper."""
    grid, recipe = source.grid, source.run.manifest.recipe
    ablated = source.ablations or grid  # `mada ablate` writes into a folder of a run, whose own grid they are
    ablations = ablations_of(summarize(ablated)) if ablated else None
    settings = training_table(recipe), inference_table(recipe)
    if grid is None:
        return [table for table in (ablations, *settings) if table]
    systems = PaperSystems.of(summarize(grid))
    tables = (
        results_of(systems),
        significance_of(systems),
        costs_of(grid, systems),
        ablations,
        single_agents_of(grid, systems),
        *settings,
        *pairs_of(systems.summary),
    )
    return [table for table in tables if table]
