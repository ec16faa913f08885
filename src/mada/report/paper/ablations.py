"""The paper's Table 4: the team with other rounds, fewer agents, one agent in all seats, or other critics."""

from collections.abc import Callable
from dataclasses import dataclass

from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import welch_from_moments
from mada.evaluation.summary import Summary
from mada.report.document import Table
from mada.report.numbers import quoted
from mada.report.paper.compared import Compared, comparison_columns, comparison_row, shaded_groups
from mada.report.paper.lineup import MEASURED, STARS_EXPLAINED, about_the_test, averaged
from mada.text import counted

# As `mada.evaluation.ablations` names them; other systems of the same evaluation are rivals, not ablations.
KINDS: tuple[Callable[[str], bool], ...] = (
    lambda name: name.startswith("rounds-"),
    lambda name: name.startswith("agents-"),
    lambda name: name == "homogeneous",
    lambda name: name == "no-counterfactual",
)


@dataclass(frozen=True, slots=True)
class Ablations:
    """The main setting and its ablations by kind, compared as setting minus main; `shape` describes the main one."""

    main: Compared
    kinds: tuple[tuple[Compared, ...], ...]
    benchmarks: int
    shape: str = ""


def ablations_of(summary: Summary) -> Ablations | None:
    """Pick the ablations out of an evaluation; None where it has none."""
    main = summary.reference
    kinds = tuple(
        tuple(
            Compared(one.system.title, one.mean.average, welch_from_moments(one.mean.average, main.mean.average))
            for one in summary.systems
            if one is not main and is_kind(one.system.name)
        )
        for is_kind in KINDS
    )
    found = tuple(kind for kind in kinds if kind)
    if not found:
        return None
    itself = Compared(main.system.title, main.mean.average, None)
    return Ablations(itself, found, benchmarks=len(summary.benchmarks), shape=_shape(main.system))


def ablations_table(ablations: Ablations) -> Table:
    """Return the table; the main setting has the first row."""
    return Table(
        "ablations",
        f"Ablations of {quoted(ablations.main.title)}",
        comparison_columns("setting", accuracy="accuracy"),
        ((comparison_row(ablations.main),), *shaded_groups(ablations.kinds)),
        notes=_notes(ablations),
    )


def _notes(ablations: Ablations) -> tuple[str, ...]:
    seeds = ablations.main.accuracy.count
    title = quoted(ablations.main.title)
    shape = f" {title}: {ablations.shape}." if ablations.shape else ""
    test = about_the_test(seeds, benchmarks=ablations.benchmarks)
    if seeds > 1:
        test += f" {STARS_EXPLAINED} Not corrected for the number of tests."
    shading = (
        f"Green settings are significantly better than {title}, red ones significantly worse; the deeper, the larger "
        "the difference, as a share of the largest significant one. White rows do not differ significantly."
    )
    return (
        f"{averaged(seeds)} Difference: points of accuracy, setting minus {title}.{shape} {MEASURED}",
        test,
        *([shading] if seeds > 1 else []),
    )


def _shape(system: PlannedSystem) -> str:
    if system.members:
        return ""
    seats = [counted(len(system.generators), "generator")]
    if system.critics:
        seats.append(counted(len(system.critics), "critic"))
    return f"{counted(system.rounds, 'round')}, {' and '.join(seats)}"
