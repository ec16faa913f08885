"""The paper's Table 1: every system on every benchmark and on average, shaded against the base."""

from collections.abc import Sequence
from dataclasses import dataclass

from mada.evaluation.statistics import Estimate, welch_from_moments
from mada.report.document import Cell, Column, Row, Table
from mada.report.numbers import quoted, uncertain_text
from mada.report.paper.lineup import MEASURED, Lineup, averaged
from mada.report.paper.shading import by_difference, span

AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A system's accuracy on every benchmark, and on average."""

    title: str
    benchmarks: tuple[Estimate, ...]
    average: Estimate


@dataclass(frozen=True, slots=True)
class Results:
    """The accuracies of all systems; `base` is one of the rows."""

    benchmarks: tuple[str, ...]
    groups: tuple[tuple[ResultRow, ...], ...]
    base: ResultRow


def results_of(lineup: Lineup) -> Results:
    """Take the accuracies out of a summary."""
    rows = {
        one.system.name: ResultRow(one.system.title, tuple(one.mean.benchmarks.values()), one.mean.average)
        for one in lineup.summary.systems
    }
    groups = tuple(tuple(rows[one.system.name] for one in group) for group in lineup.groups)
    return Results(tuple(lineup.summary.benchmarks), groups, rows[lineup.base.system.name])


def results_table(results: Results) -> Table:
    """Return the table; a single benchmark is the average, and needs no column of its own."""
    benchmarks = results.benchmarks if len(results.benchmarks) > 1 else ()
    rows = [_estimates(row, benchmarks) for group in results.groups for row in group]
    spans = [span([one.mean for one in column]) for column in zip(*rows, strict=True)]
    return Table(
        "main-results",
        "Main results: accuracy in percent",
        (Column("system", "text"), *(Column(name) for name in (*benchmarks, AVERAGE))),
        tuple(tuple(_row(row, results, benchmarks, spans=spans) for row in group) for group in results.groups),
        notes=_notes(results),
    )


def _estimates(row: ResultRow, benchmarks: Sequence[str]) -> tuple[Estimate, ...]:
    return (*row.benchmarks, row.average) if benchmarks else (row.average,)


def _row(row: ResultRow, results: Results, benchmarks: Sequence[str], *, spans: Sequence[float]) -> Row:
    bases = _estimates(results.base, benchmarks)
    return Cell(row.title), *(
        Cell(
            uncertain_text(one.mean, one.standard_error),
            shade=None if row is results.base else by_difference(welch_from_moments(one, base), scale=scale),
        )
        for one, base, scale in zip(_estimates(row, benchmarks), bases, spans, strict=True)
    )


def _notes(results: Results) -> tuple[str, ...]:
    seeds = results.base.average.count
    averages = " The average gives each benchmark equal weight." if len(results.benchmarks) > 1 else ""
    shading = (
        f"Green cells are significantly better than {quoted(results.base.title)}, red ones significantly worse "
        "(Welch's two-sided t-test over seeds in each column, p < 0.05, not corrected for the number of tests); the "
        "deeper, the larger the difference, as a share of the column's range. White cells do not differ significantly."
    )
    has_rivals = sum(map(len, results.groups)) > 1
    return (
        f"{averaged(seeds)}{averages} {MEASURED}",
        *([shading] if seeds > 1 and has_rivals else []),
    )
