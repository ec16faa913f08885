"""The paper's tables of accuracy: results (1), significance (2), ablations (4), generators alone (5), all pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mada.evaluation.grid import Grid
from mada.evaluation.statistics import Comparison, Estimate, estimate, welch_from_moments
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.document import Cell, Row, Shade, Table, columns, row, table
from mada.report.numbers import NOTHING, p_text, points_text, quoted, uncertain_text
from mada.report.paper.shading import BY_STARS, PaperSystems, by_difference, by_size, largest_significant
from mada.text import counted

MEASURED = (
    "Accuracy is the paper's measure, for every system the mean over the answers of its last round; a vote's are its "
    "single samples. The report's own tables compare verdicts: what votes, judges and debates decide in the end."
)
STARS_EXPLAINED = "* p < 0.05, ** p < 0.01, *** p < 0.001."
# The names that `mada.evaluation.systems` gives; other systems of the same evaluation are no ablations.
ABLATION_KINDS = ("rounds-", "agents-", "homogeneous", "no-counterfactual")
FEWEST_SYSTEMS, MOST_SYSTEMS = 3, 24
"""Systems that make a matrix: a pair is one comparison, and more columns than that fit no page."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A system's accuracy on average and on each benchmark, and how it compares with another system."""

    title: str
    accuracy: Estimate
    comparison: Comparison | None = None
    benchmarks: tuple[Estimate, ...] = ()


Groups = Sequence[Sequence[Measured]]
"""Rows of a table, with a rule between the groups."""
Pairs = Mapping[tuple[int, int], Comparison]
"""Comparisons by (row, column) indices of systems, row minus column."""


def _measured(one: SystemSummary) -> Measured:
    return Measured(one.system.title, one.mean.average, None, tuple(one.mean.benchmarks.values()))


def _compared(one: SystemSummary, first: SystemSummary, second: SystemSummary) -> Measured:
    """Return the row of a system with the comparison of the first system with the second."""
    return Measured(one.system.title, one.mean.average, welch_from_moments(first.mean.average, second.mean.average))


def results_of(systems: PaperSystems) -> Table:
    """Return the paper's Table 1 of a summary."""
    groups = [[_measured(one) for one in group] for group in systems.groups()]
    return results_table(tuple(systems.summary.benchmarks), groups, base=_measured(systems.base))


def results_table(benchmarks: Sequence[str], groups: Groups, *, base: Measured) -> Table:
    """Return the accuracies of all systems, shaded against the base; a single benchmark is the average."""

    def estimates(one: Measured) -> tuple[Estimate, ...]:
        return (*one.benchmarks, one.accuracy) if len(benchmarks) > 1 else (one.accuracy,)

    rows = [one for group in groups for one in group]
    scales = [
        max(one.mean for one in column) - min(one.mean for one in column)
        for column in zip(*map(estimates, rows), strict=True)
    ]

    def shown(measured: Measured) -> Row:
        cells: list[Cell] = []
        for one, other, scale in zip(estimates(measured), estimates(base), scales, strict=True):
            shade = None if measured == base else by_difference(welch_from_moments(one, other), scale=scale)
            cells.append(Cell(uncertain_text(one.mean, one.standard_error), shade=shade))
        return row(measured.title, cells)

    seeds = base.accuracy.count
    weights = " The average gives each benchmark equal weight." if len(benchmarks) > 1 else ""
    shading = (
        f"Green cells are significantly better than {quoted(base.title)}, red ones significantly worse "
        "(Welch's two-sided t-test over seeds in each column, p < 0.05, not corrected for the number of tests); the "
        "deeper, the larger the difference, as a share of the column's range. White cells do not differ significantly."
    )
    return Table(
        "main-results",
        "Main results: accuracy in percent",
        (*columns("system", kind="text"), *columns(*(benchmarks if len(benchmarks) > 1 else ()), "average")),
        tuple(tuple(map(shown, group)) for group in groups),
        (f"{_averaged(seeds)}{weights} {MEASURED}", *([shading] if seeds > 1 and len(rows) > 1 else [])),
    )


def significance_of(systems: PaperSystems) -> Table | None:
    """Return the paper's Table 2 of a summary; None where the reference is alone."""
    reference, benchmarks = systems.summary.reference, len(systems.summary.benchmarks)
    others = systems.groups(lambda one: one is not reference)
    groups = [[_compared(one, reference, one) for one in group] for group in others]
    return significance_table(_measured(reference), groups, benchmarks=benchmarks) if groups else None


def significance_table(main: Measured, groups: Groups, *, benchmarks: int) -> Table:
    """Return the comparison of a system with every other, main minus other; the main one has the last row."""
    title, seeds = quoted(main.title), main.accuracy.count
    what = f"{_averaged(seeds)} Difference: points of accuracy, {title} minus the system. {MEASURED}"
    shading = (
        f"Green favours {title}, red the other system; the deeper, the larger the difference, as a share of the "
        "largest significant one. White rows do not differ significantly."
    )
    notes, groups = _notes(what, shading, seeds=seeds, benchmarks=benchmarks), (*groups, (main,))
    return _comparisons("significance", f"{title} against every other system", groups, notes)


def ablations_of(summary: Summary) -> Table | None:
    """Return the paper's Table 4 of an evaluation, which compares settings with the main one; None without any."""
    main = summary.reference
    groups = [
        [
            _compared(one, one, main)
            for one in summary.systems
            if one is not main and (one.system.name.startswith(kind) if kind[-1] == "-" else one.system.name == kind)
        ]
        for kind in ABLATION_KINDS
    ]
    groups = [group for group in groups if group]
    if not groups:
        return None
    system, shape = main.system, ""
    if not system.members:
        critics = f" and {counted(len(system.critics), 'critic')}" if system.critics else ""
        shape = f"{counted(system.rounds, 'round')}, {counted(len(system.generators), 'generator')}{critics}"
    return ablations_table(_measured(main), groups, benchmarks=len(summary.benchmarks), shape=shape)


def ablations_table(main: Measured, groups: Groups, *, benchmarks: int, shape: str = "") -> Table:
    """Return the comparison of settings with the main one, setting minus main; the main one has the first row."""
    title, seeds = quoted(main.title), main.accuracy.count
    described = f" {title}: {shape}." if shape else ""
    what = f"{_averaged(seeds)} Difference: points of accuracy, setting minus {title}.{described} {MEASURED}"
    shading = (
        f"Green settings are significantly better than {title}, red ones significantly worse; the deeper, the larger "
        "the difference, as a share of the largest significant one. White rows do not differ significantly."
    )
    notes, groups = _notes(what, shading, seeds=seeds, benchmarks=benchmarks), ((main,), *groups)
    return _comparisons("ablations", f"Ablations of {title}", groups, notes, first="setting")


def single_agents_of(grid: Grid, systems: PaperSystems) -> Table | None:
    """Return the paper's Table 5, which compares the first round of each shown debate with its last; None without."""

    def compared(one: SystemSummary) -> Measured:
        alone = estimate(grid.seed_averages(one.system, lambda score: score.accuracy_of_round(0)))
        return Measured(one.system.title, alone, welch_from_moments(alone, one.mean.average))

    def is_debate(one: SystemSummary) -> bool:
        return all(member.is_debate for member in grid.members_of(one.system))

    groups = [[compared(one) for one in group] for group in systems.groups(is_debate)]
    if not groups:
        return None
    base = groups[0][0] if is_debate(systems.base) else None
    return single_agents_table(groups, base=base, benchmarks=len(grid.problems))


def single_agents_table(groups: Groups, *, base: Measured | None, benchmarks: int) -> Table:
    """Return generators alone minus their debate, accuracies shaded against the base's, differences by their size."""
    rows = [one for group in groups for one in group]
    sizes = [abs(one.comparison.difference) for one in rows if one.comparison and one.comparison.stars]

    def against_base(one: Measured) -> Comparison | None:
        return None if base is None or one == base else welch_from_moments(one.accuracy, base.accuracy)

    scale = largest_significant(map(against_base, rows))

    def shades(one: Measured) -> tuple[Shade | None, Shade | None]:
        size = None
        if one.comparison and one.comparison.stars:
            size = by_size(abs(one.comparison.difference), low=min(sizes), high=max(sizes))
        return by_difference(against_base(one), scale=scale), size

    seeds = rows[0].accuracy.count
    what = (
        f"{_averaged(seeds)} Single agent: the mean over the answers of the debate's first round, which its "
        "generators give alone. Difference: points of accuracy, single agent minus the mean "
        "over the answers of the debate's last round."
    )
    caveat = "The test takes the two for independent samples, though the first round belongs to the very debate."
    shading = "Gray is the size of a significant difference, from the smallest to the largest, without better or worse."
    if base is not None:
        shading = (
            f"Green single agents are significantly better than those of {quoted(base.title)}, red ones "
            f"significantly worse; the deeper, the larger the difference. {shading}"
        )
    notes = _notes(what, shading, seeds=seeds, benchmarks=benchmarks, caveat=caveat)
    title = "Generators alone, without the debate"
    return _comparisons("single-agent", title, groups, notes, accuracy="single agent", shades=shades)


def _comparisons(
    name: str,
    title: str,
    groups: Groups,
    notes: tuple[str, ...],
    *,
    first: str = "system",
    accuracy: str = "accuracy",
    shades: Callable[[Measured], tuple[Shade | None, Shade | None]] | None = None,
) -> Table:
    """Return a table of accuracies, differences, intervals and p, the first two shaded alike unless `shades` says."""
    scale = largest_significant(one.comparison for group in groups for one in group)

    def shown(one: Measured) -> Row:
        own, other = shades(one) if shades else [by_difference(one.comparison, scale=scale)] * 2
        measured = Cell(uncertain_text(one.accuracy.mean, one.accuracy.standard_error), shade=own)
        compared = one.comparison
        if compared is None:
            return row(one.title, [measured, *[NOTHING] * 3])
        points = Cell(uncertain_text(compared.difference, compared.standard_error, signed=True), shade=other)
        interval = NOTHING
        if compared.low is not None and compared.high is not None:
            interval = f"[{points_text(compared.low)}, {points_text(compared.high)}]"
        return row(one.title, [measured, points, interval, Cell(p_text(compared.p), compared.stars)])

    headings = (*columns(first, kind="text"), *columns(accuracy, "difference", "95 % interval", "p"))
    return Table(name, title, headings, tuple(tuple(map(shown, group)) for group in groups), notes)


def _averaged(seeds: int, *, what: str = "Percent") -> str:
    """Say what the numbers of a table are, over how many seeds, and what the brackets behind them mean."""
    if seeds < 2:
        return f"{what}, with one seed."
    brackets = "in brackets the standard error over seeds; without a point it counts in the last digit"
    return f"{what}, mean over {counted(seeds, 'seed')}; {brackets}."


def _about_the_test(seeds: int, *, benchmarks: int) -> str:
    if seeds < 2:
        return "One seed has no standard error and allows no test."
    averages = "averages over the benchmarks" if benchmarks > 1 else "accuracies"
    return f"p: Welch's two-sided t-test of per-seed {averages} ({counted(seeds, 'seed')} per system)."


def _notes(
    what: str,
    shading: str,
    *,
    seeds: int,
    benchmarks: int,
    caveat: str = "Not corrected for the number of tests.",
) -> tuple[str, ...]:
    """Return what is compared, the test, and the shading where there is a test."""
    test = _about_the_test(seeds, benchmarks=benchmarks)
    return (what, test) if seeds < 2 else (what, f"{test} {STARS_EXPLAINED} {caveat}", shading)


def pairs_of(summary: Summary) -> list[Table]:
    """Return the comparisons of all shown systems with each other; none where they are too few or too many."""
    systems = summary.systems
    if not FEWEST_SYSTEMS <= len(systems) <= MOST_SYSTEMS:
        return []
    pairs = {
        (i, j): welch_from_moments(one.mean.average, other.mean.average)
        for i, one in enumerate(systems)
        for j, other in enumerate(systems)
        if i != j
    }
    titles = [one.system.title for one in systems]
    return pairs_tables(titles, pairs, seeds=len(summary.seeds), benchmarks=len(summary.benchmarks))


def pairs_tables(titles: Sequence[str], pairs: Pairs, *, seeds: int, benchmarks: int) -> list[Table]:
    """Return all differences, row minus column, and where there is a test their p-values."""
    scale = largest_significant(pairs.values())

    def matrix(name: str, title: str, cell: Callable[[Comparison], Cell], *notes: str) -> Table:
        indices = range(len(titles))
        rows = [
            (f"{i + 1} {title}", [Cell(NOTHING) if i == j else cell(pairs[i, j]) for j in indices])
            for i, title in enumerate(titles)
        ]
        return table(name, title, columns(*(str(i + 1) for i in indices)), rows, *notes, first="row minus column")

    def points(one: Comparison) -> Cell:
        text = uncertain_text(one.difference, one.standard_error, signed=True)
        return Cell(text, shade=by_difference(one, scale=scale))

    shading = (
        "Green: the row's system is significantly more accurate than the column's; red: significantly less (Welch's "
        f"two-sided t-test over {seeds} seeds, p < 0.05, not corrected for the number of tests); the deeper, the "
        "larger the difference, as a share of the largest significant one. White pairs do not differ significantly."
    )
    differences = matrix(
        "pairwise-differences",
        "All pairs: differences of accuracy",
        points,
        f"{_averaged(seeds, what='Points of accuracy, row minus column')} Columns have the rows' numbers.",
        MEASURED,
        *([shading] if seeds > 1 else []),
    )
    if all(one.p is None for one in pairs.values()):
        return [differences]
    significance = matrix(
        "pairwise-p",
        "All pairs: significance of the differences",
        lambda one: Cell(p_text(one.p), shade=BY_STARS[one.stars]),
        f"{_about_the_test(seeds, benchmarks=benchmarks)} A pair and its mirror are one test; "
        f"the {len(pairs) // 2} tests are not corrected for their number. Columns have the rows' numbers.",
        "Light, medium and dark gray: p < 0.05, p < 0.01, p < 0.001. White pairs do not differ significantly.",
    )
    return [differences, significance]
