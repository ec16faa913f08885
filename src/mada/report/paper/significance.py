"""The paper's Table 2: the reference against every other system."""

from dataclasses import dataclass

from mada.evaluation.statistics import welch_from_moments
from mada.report.document import Table
from mada.report.numbers import quoted
from mada.report.paper.compared import Compared, comparison_columns, comparison_row, shaded_groups
from mada.report.paper.lineup import MEASURED, STARS_EXPLAINED, Lineup, about_the_test, averaged


@dataclass(frozen=True, slots=True)
class Significance:
    """Every other system, compared as reference minus system, and the reference itself."""

    rivals: tuple[tuple[Compared, ...], ...]
    reference: Compared
    benchmarks: int


def significance_of(lineup: Lineup) -> Significance | None:
    """Compare the reference with every other shown system; None where it is alone."""
    reference = lineup.reference
    if len(lineup.summary.systems) < 2:
        return None
    rivals = tuple(
        tuple(
            Compared(one.system.title, one.mean.average, welch_from_moments(reference.mean.average, one.mean.average))
            for one in group
        )
        for group in lineup.kept(lambda one: one is not reference)
    )
    itself = Compared(reference.system.title, reference.mean.average, None)
    return Significance(rivals, itself, benchmarks=len(lineup.summary.benchmarks))


def significance_table(significance: Significance) -> Table:
    """Return the table; the reference has the last row."""
    title = quoted(significance.reference.title)
    return Table(
        "significance",
        f"{title} against every other system",
        comparison_columns("system", accuracy="accuracy"),
        (*shaded_groups(significance.rivals), (comparison_row(significance.reference),)),
        notes=_notes(significance, title),
    )


def _notes(significance: Significance, title: str) -> tuple[str, ...]:
    seeds = significance.reference.accuracy.count
    shading = (
        f"Green favours {title}, red the other system; the deeper, the larger the difference, as a share of the "
        "largest significant one. White rows do not differ significantly."
    )
    test = about_the_test(seeds, benchmarks=significance.benchmarks)
    if seeds > 1:
        test += f" {STARS_EXPLAINED} Not corrected for the number of tests."
    difference = f"Difference: points of accuracy, {title} minus the system."
    return (
        f"{averaged(seeds)} {difference} {MEASURED}",
        test,
        *([shading] if seeds > 1 else []),
    )
