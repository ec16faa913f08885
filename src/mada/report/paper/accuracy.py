"""The paper's tables of accuracy: results (1), significance (2), ablations (4), generators alone (5), all pairs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import Comparison, Estimate, estimate, welch_from_moments
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.document import Cell, Row, Table, columns
from mada.report.numbers import NOTHING, p_text, quoted, uncertain_text
from mada.report.paper.layout import (
    BY_STARS,
    MEASURED,
    STARS_EXPLAINED,
    Compared,
    PaperSystems,
    about_the_test,
    averaged,
    by_difference,
    by_size,
    comparison_columns,
    comparison_notes,
    comparison_row,
    is_significant,
    largest_significant,
    shaded_groups,
)
from mada.text import counted

# The names that `mada.evaluation.systems` gives; other systems of the same evaluation are no ablations.
ABLATION_KINDS: tuple[Callable[[str], bool], ...] = (
    lambda name: name.startswith("rounds-"),
    lambda name: name.startswith("agents-"),
    lambda name: name == "homogeneous",
    lambda name: name == "no-counterfactual",
)
FEWEST_SYSTEMS, MOST_SYSTEMS = 3, 24
"""Systems that make a matrix: a pair is one comparison, and more columns than that fit no page."""


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


def results_of(systems: PaperSystems) -> Results:
    """Take the accuracies out of a summary."""
    rows = {
        one.system.name: ResultRow(one.system.title, tuple(one.mean.benchmarks.values()), one.mean.average)
        for one in systems.summary.systems
    }
    groups = tuple(tuple(rows[one.system.name] for one in group) for group in systems.groups())
    return Results(tuple(systems.summary.benchmarks), groups, rows[systems.base.system.name])


def results_table(results: Results) -> Table:
    """Return the paper's Table 1, shaded against the base; a single benchmark needs no column beside the average."""
    benchmarks = results.benchmarks if len(results.benchmarks) > 1 else ()

    def estimates(one: ResultRow) -> tuple[Estimate, ...]:
        return (*one.benchmarks, one.average) if benchmarks else (one.average,)

    rows = [one for group in results.groups for one in group]
    means = zip(*([one.mean for one in estimates(row)] for row in rows), strict=True)
    scales = [max(column) - min(column) for column in means]

    def shown(row: ResultRow) -> Row:
        cells: list[Cell] = []
        for one, base, scale in zip(estimates(row), estimates(results.base), scales, strict=True):
            shade = None if row is results.base else by_difference(welch_from_moments(one, base), scale=scale)
            cells.append(Cell(uncertain_text(one.mean, one.standard_error), shade=shade))
        return Cell(row.title), *cells

    seeds = results.base.average.count
    weights = " The average gives each benchmark equal weight." if len(results.benchmarks) > 1 else ""
    shading = (
        f"Green cells are significantly better than {quoted(results.base.title)}, red ones significantly worse "
        "(Welch's two-sided t-test over seeds in each column, p < 0.05, not corrected for the number of tests); the "
        "deeper, the larger the difference, as a share of the column's range. White cells do not differ significantly."
    )
    return Table(
        "main-results",
        "Main results: accuracy in percent",
        (*columns("system", kind="text"), *columns(*benchmarks, "average")),
        tuple(tuple(map(shown, group)) for group in results.groups),
        (f"{averaged(seeds)}{weights} {MEASURED}", *([shading] if seeds > 1 and len(rows) > 1 else [])),
    )


@dataclass(frozen=True, slots=True)
class Comparisons:
    """A main system, and others compared with it in groups; `shape` describes the main one."""

    main: Compared
    groups: tuple[tuple[Compared, ...], ...]
    benchmarks: int
    shape: str = ""


def significance_of(systems: PaperSystems) -> Comparisons | None:
    """Compare the reference with every other shown system, reference minus system; None where it is alone."""
    reference = systems.summary.reference
    if len(systems.summary.systems) < 2:
        return None

    def compared(one: SystemSummary) -> Compared:
        comparison = welch_from_moments(reference.mean.average, one.mean.average)
        return Compared(one.system.title, one.mean.average, comparison)

    groups = tuple(tuple(map(compared, group)) for group in systems.groups(lambda one: one is not reference))
    main = Compared(reference.system.title, reference.mean.average, None)
    return Comparisons(main, groups, benchmarks=len(systems.summary.benchmarks))


def significance_table(comparisons: Comparisons) -> Table:
    """Return the paper's Table 2; the reference has the last row."""
    title, seeds = quoted(comparisons.main.title), comparisons.main.accuracy.count
    what = f"{averaged(seeds)} Difference: points of accuracy, {title} minus the system. {MEASURED}"
    shading = (
        f"Green favours {title}, red the other system; the deeper, the larger the difference, as a share of the "
        "largest significant one. White rows do not differ significantly."
    )
    return Table(
        "significance",
        f"{title} against every other system",
        comparison_columns("system"),
        (*shaded_groups(comparisons.groups), (comparison_row(comparisons.main),)),
        comparison_notes(what, shading, seeds=seeds, benchmarks=comparisons.benchmarks),
    )


def ablations_of(summary: Summary) -> Comparisons | None:
    """Pick the ablations out of an evaluation, compared as setting minus main; None where it has none."""
    main = summary.reference

    def compared(one: SystemSummary) -> Compared:
        comparison = welch_from_moments(one.mean.average, main.mean.average)
        return Compared(one.system.title, one.mean.average, comparison)

    others = [one for one in summary.systems if one is not main]
    kinds = (tuple(compared(one) for one in others if is_kind(one.system.name)) for is_kind in ABLATION_KINDS)
    groups = tuple(kind for kind in kinds if kind)
    if not groups:
        return None
    itself = Compared(main.system.title, main.mean.average, None)
    return Comparisons(itself, groups, benchmarks=len(summary.benchmarks), shape=_shape(main.system))


def _shape(system: PlannedSystem) -> str:
    if system.members:
        return ""
    critics = f" and {counted(len(system.critics), 'critic')}" if system.critics else ""
    return f"{counted(system.rounds, 'round')}, {counted(len(system.generators), 'generator')}{critics}"


def ablations_table(comparisons: Comparisons) -> Table:
    """Return the paper's Table 4; the main setting has the first row."""
    title, seeds = quoted(comparisons.main.title), comparisons.main.accuracy.count
    shape = f" {title}: {comparisons.shape}." if comparisons.shape else ""
    what = f"{averaged(seeds)} Difference: points of accuracy, setting minus {title}.{shape} {MEASURED}"
    shading = (
        f"Green settings are significantly better than {title}, red ones significantly worse; the deeper, the larger "
        "the difference, as a share of the largest significant one. White rows do not differ significantly."
    )
    return Table(
        "ablations",
        f"Ablations of {title}",
        comparison_columns("setting"),
        ((comparison_row(comparisons.main),), *shaded_groups(comparisons.groups)),
        comparison_notes(what, shading, seeds=seeds, benchmarks=comparisons.benchmarks),
    )


@dataclass(frozen=True, slots=True)
class SingleAgents:
    """Debates by the accuracy of their generators alone, compared as alone minus debate.

    `base` is the untrained debate's row, None where there is none.
    """

    groups: tuple[tuple[Compared, ...], ...]
    base: Compared | None
    benchmarks: int


def single_agents_of(grid: Grid, systems: PaperSystems) -> SingleAgents | None:
    """Read the generators' accuracy out of the first round of each shown debate; None without debates."""
    planned = {one.name: one for one in grid.plan.systems}

    def is_debate(one: SystemSummary) -> bool:
        return all(member.is_debate for member in grid.members_of(planned[one.system.name]))

    rows: dict[str, Compared] = {}
    groups = systems.groups(is_debate)
    for one in (one for group in groups for one in group):
        alone = estimate(grid.seed_averages(one.system, lambda score: score.accuracy_of_round(0)))
        rows[one.system.name] = Compared(one.system.title, alone, welch_from_moments(alone, one.mean.average))
    if not rows:
        return None
    by_group = tuple(tuple(rows[one.system.name] for one in group) for group in groups)
    return SingleAgents(by_group, rows.get(systems.base.system.name), benchmarks=len(grid.problems))


def single_agents_table(single: SingleAgents) -> Table:
    """Return the paper's Table 5: accuracies shaded against the base's, differences by their size alone."""
    rows = [one for group in single.groups for one in group]
    sizes = [abs(one.comparison.difference) for one in rows if one.comparison and is_significant(one.comparison)]

    def against_base(one: Compared) -> Comparison | None:
        if single.base is None or one is single.base:
            return None
        return welch_from_moments(one.accuracy, single.base.accuracy)

    scale = largest_significant(map(against_base, rows))

    def shown(one: Compared) -> Row:
        size = None
        if one.comparison is not None and is_significant(one.comparison):
            size = by_size(abs(one.comparison.difference), low=min(sizes), high=max(sizes))
        return comparison_row(one, accuracy=by_difference(against_base(one), scale=scale), difference=size)

    return Table(
        "single-agent",
        "Generators alone, without the debate",
        comparison_columns("system", accuracy="single agent"),
        tuple(tuple(map(shown, group)) for group in single.groups),
        _single_agent_notes(single, seeds=rows[0].accuracy.count),
    )


def _single_agent_notes(single: SingleAgents, *, seeds: int) -> tuple[str, ...]:
    what = (
        f"{averaged(seeds)} Single agent: the mean over the answers of the debate's first round, which its "
        "generators give alone. Difference: points of accuracy, single agent minus the mean "
        "over the answers of the debate's last round."
    )
    test = about_the_test(seeds, benchmarks=single.benchmarks)
    if seeds < 2:
        return what, test
    test += (
        f" {STARS_EXPLAINED} The test takes the two for independent samples, though the first round belongs to the "
        "very debate."
    )
    shading = "Gray is the size of a significant difference, from the smallest to the largest, without better or worse."
    if single.base is not None:
        shading = (
            f"Green single agents are significantly better than those of {quoted(single.base.title)}, red ones "
            f"significantly worse; the deeper, the larger the difference. {shading}"
        )
    return what, test, shading


@dataclass(frozen=True, slots=True)
class Pairs:
    """Systems by title, and their comparisons by (row, column) indices, row minus column."""

    titles: tuple[str, ...]
    comparisons: Mapping[tuple[int, int], Comparison]
    seeds: int
    benchmarks: int


def pairs_of(summary: Summary) -> Pairs | None:
    """Compare all shown systems with each other; None where they are too few or too many for a matrix."""
    systems = summary.systems
    if not FEWEST_SYSTEMS <= len(systems) <= MOST_SYSTEMS:
        return None
    comparisons = {
        (i, j): welch_from_moments(row.mean.average, column.mean.average)
        for i, row in enumerate(systems)
        for j, column in enumerate(systems)
        if i != j
    }
    titles = tuple(one.system.title for one in systems)
    return Pairs(titles, comparisons, seeds=len(summary.seeds), benchmarks=len(summary.benchmarks))


def differences_table(pairs: Pairs) -> Table:
    """Return all differences, row minus column, with their standard errors."""
    scale = largest_significant(pairs.comparisons.values())

    def cell(one: Comparison) -> Cell:
        text = uncertain_text(one.difference, one.standard_error, signed=True)
        return Cell(text, shade=by_difference(one, scale=scale))

    shading = (
        "Green: the row's system is significantly more accurate than the column's; red: significantly less (Welch's "
        f"two-sided t-test over {pairs.seeds} seeds, p < 0.05, not corrected for the number of tests); the deeper, the "
        "larger the difference, as a share of the largest significant one. White pairs do not differ significantly."
    )
    notes = (
        f"{averaged(pairs.seeds, what='Points of accuracy, row minus column')} Columns have the rows' numbers.",
        MEASURED,
        *([shading] if pairs.seeds > 1 else []),
    )
    return _matrix("pairwise-differences", "All pairs: differences of accuracy", pairs, cell, notes)


def p_table(pairs: Pairs) -> Table | None:
    """Return the p-values of all differences; None where one seed allows no test."""
    if all(one.p is None for one in pairs.comparisons.values()):
        return None
    count = len(pairs.titles) * (len(pairs.titles) - 1) // 2
    notes = (
        f"{about_the_test(pairs.seeds, benchmarks=pairs.benchmarks)} A pair and its mirror are one test; "
        f"the {count} tests are not corrected for their number. Columns have the rows' numbers.",
        "Light, medium and dark gray: p < 0.05, p < 0.01, p < 0.001. White pairs do not differ significantly.",
    )

    def cell(one: Comparison) -> Cell:
        return Cell(p_text(one.p), shade=BY_STARS[one.stars])

    return _matrix("pairwise-p", "All pairs: significance of the differences", pairs, cell, notes)


def _matrix(name: str, title: str, pairs: Pairs, cell: Callable[[Comparison], Cell], notes: tuple[str, ...]) -> Table:
    indices = range(len(pairs.titles))
    rows = tuple(
        (
            Cell(f"{i + 1} {pairs.titles[i]}"),
            *(Cell(NOTHING) if i == j else cell(pairs.comparisons[i, j]) for j in indices),
        )
        for i in indices
    )
    headings = (*columns("row minus column", kind="text"), *columns(*(str(index + 1) for index in indices)))
    return Table(name, title, headings, (rows,), notes)
