"""Who beats whom, and how sure that is: over seeds, over problems, per benchmark, all with all (E2, B3)."""

from collections.abc import Sequence

from mada.evaluation.analysis import (
    AgainstReference,
    Pairwise,
    PowerNote,
    accuracies_over_problems,
    against_reference,
    pairwise,
    power_note,
    shown_systems,
)
from mada.evaluation.grid import Grid
from mada.evaluation.statistics import Comparison, Interval
from mada.report.markdown import escaped, table
from mada.report.numbers import (
    NOTHING,
    REFERENCE,
    counted,
    p_text,
    points_text,
    quoted,
    range_text,
    share_text,
    starred,
)

WIDEST_MATRIX = 24
"""Systems that a matrix on a page can hold."""


def comparisons_section(grid: Grid) -> str:
    """Return the comparisons of an evaluation; nothing for a system that is alone."""
    if len(shown_systems(grid)) < 2:
        return ""
    compared = against_reference(grid)
    title = escaped(quoted(grid.plan.chosen.title))
    parts = [
        "## Comparisons",
        f"Differences are in points, system minus {title}, and one, two or three stars stand for p below .05, .01 and "
        ".001. Intervals are 95 %.",
        "**Over seeds: would other samples on the same problems say so again?** Welch's t-test of the seeds' averages. "
        f"Holm and BH (Benjamini–Hochberg) adjust its p for the {counted(len(compared), 'test')} of this table: Holm "
        "for claims that must all stand, BH where some false findings among many may pass. A vote against the mean of "
        "single answers is no fair match, so the last column has the same test of both systems' verdicts, p in "
        "brackets, not adjusted.",
        over_seeds_markdown(compared),
        "**Over problems: would other problems of the same kind?** Intervals are bootstrapped by drawing problems, "
        "each with all of its seeds, and p is that of a permutation test on the per-problem differences. McNemar's "
        "test counts problems that one system alone gets right more often than not over the seeds (exactly half is "
        "not), whatever their benchmark.",
        over_problems_markdown(grid, compared),
    ]
    if len(grid.problems) > 1:
        explanation = "**Benchmark by benchmark**, over seeds; p in brackets, not adjusted."
        parts += [explanation, per_benchmark_markdown(compared)]
    parts += _matrices(pairwise(grid), reference=grid.plan.reference)
    parts.append(escaped(power_text(power_note(grid))))
    return "\n\n".join(parts)


def over_seeds_markdown(compared: Sequence[AgainstReference]) -> str:
    """Return Welch's comparisons with the reference, adjusted for their number."""
    header = ["system", "difference", "SE", "95 % interval", "p", "Holm", "BH", "verdict against verdict"]
    return table(
        header,
        [
            [
                escaped(one.system.title),
                escaped(starred(one.seeds)),
                share_text(one.seeds.standard_error),
                range_text(one.seeds.low, one.seeds.high),
                *(escaped(p_text(p)) for p in (one.seeds.p, one.holm, one.benjamini_hochberg)),
                _difference_and_p(one.verdicts),
            ]
            for one in compared
        ],
    )


def over_problems_markdown(grid: Grid, compared: Sequence[AgainstReference]) -> str:
    """Return what problem-by-problem comparisons say; the reference has its own accuracy."""
    header = ["system", "accuracy", "difference", "p", "right by it alone", "by the reference alone", "McNemar p"]
    by_name = {one.system.name: one for one in compared}
    accuracies = accuracies_over_problems(grid)
    rows: list[list[str]] = []
    for system in shown_systems(grid):
        one = by_name.get(system.name)
        cells = [REFERENCE, *[NOTHING] * 4] if one is None else _over_problems_cells(one)
        rows.append([escaped(system.title), _share_and_range(accuracies[system.name]), *cells])
    return table(header, rows)


def per_benchmark_markdown(compared: Sequence[AgainstReference]) -> str:
    """Return the difference on each benchmark, with its stars and p."""
    return table(
        ["system", *map(escaped, compared[0].benchmarks)],
        [
            [
                escaped(one.system.title),
                *map(_difference_and_p, one.benchmarks.values()),
            ]
            for one in compared
        ],
    )


def power_text(note: PowerNote) -> str:
    """Say in sentences how small a difference the evaluation could have found."""
    if note.detectable is None or note.spread is None:
        return "One seed allows no test over seeds: run more of them before calling two systems alike or different."
    # Estimates beyond 100 points say that nothing is found, not that much is.
    found = f"find a true difference of {share_text(note.detectable)} points four times in five"
    parts = [
        f"Power: a system's average varies by {share_text(note.spread)} points from seed to seed (standard deviation), "
        f"so {note.seeds} seeds {found if note.detectable < 1 else 'are too few to find anything reliably'}. "
        "Smaller differences are often missed: no star is no proof that two systems are alike."
    ]
    benchmarks = [
        f"{share_text(one.detectable)} on {name} ({counted(one.problems, 'problem')})"
        for name, one in note.benchmarks.items()
        if one.detectable is not None and one.detectable < 1
    ]
    if benchmarks:
        parts.append(
            f"On a single benchmark, at the reference's accuracy and if all problems were equally hard, {note.seeds} "
            f"seeds find this many points: {', '.join(benchmarks)}."
        )
    return " ".join(parts)


def _matrices(pairs: Pairwise, *, reference: str) -> list[str]:
    names = [system.name for system in pairs.systems]
    if len(names) < 3:
        return []
    rows = names if len(names) <= WIDEST_MATRIX else [reference]
    scope = "" if rows is names else f" With {len(names)} systems the matrices are too wide to show: this is one row."
    titles = {system.name: f"{number} {system.title}" for number, system in enumerate(pairs.systems, start=1)}

    def matrix(shown: dict[tuple[str, str], str]) -> str:
        header = ["row minus column", *(str(number) for number in range(1, len(names) + 1))]
        if rows is not names:
            header = ["row minus column", *(escaped(titles[name]) for name in names)]
        body = [
            [escaped(titles[row]), *(escaped(shown.get((row, column), NOTHING)) for column in names)] for row in rows
        ]
        return table(header, body)

    differences = matrix({pair: starred(one) for pair, one in pairs.comparisons.items()})
    if all(one.p is None for one in pairs.comparisons.values()):
        return [f"**All with all**: differences in points.{scope}", differences]
    return [
        f"**All with all**, over seeds: differences in points, then p, not adjusted.{scope}",
        differences,
        matrix({pair: p_text(one.p) for pair, one in pairs.comparisons.items()}),
    ]


def _over_problems_cells(one: AgainstReference) -> list[str]:
    interval = one.bootstrap
    difference = points_text(interval.value)
    if interval.low is not None and interval.high is not None:
        difference = f"{difference} ({range_text(interval.low, interval.high)})"
    return [
        difference,
        escaped(p_text(one.permutation.p)),
        f"{one.mcnemar.only_first:,}",
        f"{one.mcnemar.only_second:,}",
        escaped(p_text(one.mcnemar.p)),
    ]


def _difference_and_p(comparison: Comparison) -> str:
    return escaped(starred(comparison) + ("" if comparison.p is None else f" ({p_text(comparison.p)})"))


def _share_and_range(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return share_text(interval.value)
    return f"{share_text(interval.value)} ({share_text(interval.low)} to {share_text(interval.high)})"
