"""The paper's Table 5: what each debate's generators reach alone, beside what the debate reaches."""

from dataclasses import dataclass

from mada.evaluation.grid import Grid
from mada.evaluation.scores import Score
from mada.evaluation.statistics import Comparison, estimate, welch_from_moments
from mada.report.document import Row, Table
from mada.report.numbers import quoted
from mada.report.paper.compared import Compared, comparison_columns, comparison_row
from mada.report.paper.lineup import STARS_EXPLAINED, Lineup, about_the_test, averaged
from mada.report.paper.shading import by_difference, by_size, is_significant, largest_significant


@dataclass(frozen=True, slots=True)
class SingleAgents:
    """Debates by the accuracy of their generators alone, compared as alone minus debate.

    `base` is the untrained debate's row, None where there is none.
    """

    groups: tuple[tuple[Compared, ...], ...]
    base: Compared | None
    benchmarks: int


def single_agents_of(grid: Grid, lineup: Lineup) -> SingleAgents | None:
    """Read the generators' accuracy out of the first round of each shown debate; None without debates."""

    def is_debate(name: str) -> bool:
        [system] = [one for one in grid.plan.systems if one.name == name]
        return all(member.is_debate for member in grid.members_of(system))

    debates = lineup.kept(lambda one: is_debate(one.system.name))
    rows: dict[str, Compared] = {}
    for one in (one for group in debates for one in group):
        alone = estimate(grid.seed_averages(one.system, _first_round))
        rows[one.system.name] = Compared(one.system.title, alone, welch_from_moments(alone, one.mean.average))
    if not rows:
        return None
    groups = tuple(tuple(rows[one.system.name] for one in group) for group in debates)
    return SingleAgents(groups, rows.get(lineup.base.system.name), benchmarks=len(grid.problems))


def single_agents_table(single: SingleAgents) -> Table:
    """Return the table: accuracies shaded against the base's, differences by their size alone."""
    rows = [one for group in single.groups for one in group]
    scale = largest_significant(_against_base(one, single) for one in rows)
    drops = [abs(one.comparison.difference) for one in rows if one.comparison and is_significant(one.comparison)]

    def shown(one: Compared) -> Row:
        size = None
        if one.comparison is not None and is_significant(one.comparison):
            size = by_size(abs(one.comparison.difference), low=min(drops), high=max(drops))
        return comparison_row(one, accuracy=by_difference(_against_base(one, single), scale=scale), difference=size)

    return Table(
        "single-agent",
        "Generators alone, without the debate",
        comparison_columns("system", accuracy="single agent"),
        tuple(tuple(shown(one) for one in group) for group in single.groups),
        notes=_notes(single, seeds=rows[0].accuracy.count),
    )


def _against_base(one: Compared, single: SingleAgents) -> Comparison | None:
    if single.base is None or one is single.base:
        return None
    return welch_from_moments(one.accuracy, single.base.accuracy)


def _first_round(score: Score) -> float:
    return score.accuracy_of_round(0)


def _notes(single: SingleAgents, *, seeds: int) -> tuple[str, ...]:
    what = (
        f"{averaged(seeds)} Single agent: the mean over the answers of the debate's first round, which its "
        "generators give alone. Difference: points of accuracy, single agent minus the mean "
        "over the answers of the debate's last round."
    )
    if seeds < 2:
        return what, about_the_test(seeds, benchmarks=single.benchmarks)
    test = (
        f"{about_the_test(seeds, benchmarks=single.benchmarks)} {STARS_EXPLAINED} The test takes the two for "
        "independent samples, though the first round belongs to the very debate."
    )
    base = (
        ""
        if single.base is None
        else f"Green single agents are significantly better than those of {quoted(single.base.title)}, red ones "
        "significantly worse; the deeper, the larger the difference. "
    )
    gray = "Gray is the size of a significant difference, from the smallest to the largest, without better or worse."
    return what, test, base + gray
