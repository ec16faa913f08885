"""How good every system is and at what cost, by how much they differ, and what more samples would reach."""

from collections.abc import Iterator, Mapping, Sequence

from mada.evaluation.grid import Grid
from mada.evaluation.statistics import Comparison
from mada.evaluation.summary import (
    AgainstReference,
    PowerNote,
    Summary,
    SystemSummary,
    accuracies_over_problems,
    against_reference,
    at_k,
    power_note,
    summarize,
)
from mada.report.document import Block, Cell, Row, Section, Table, columns, paragraph, row, table
from mada.report.figures import figure
from mada.report.numbers import (
    NOTHING,
    REFERENCE,
    SPREAD,
    accuracy,
    count_text,
    difference,
    numbered_titles,
    p_text,
    points_text,
    quoted,
    range_text,
    share_text,
    small_text,
    uncertain_difference,
)
from mada.text import counted

INTERVAL = "95 % interval"


def results_section(grid: Grid) -> Section:
    """Return the results of an evaluation: the headline table, and how replies and votes ended."""
    summary = summarize(grid)
    headline, *others = headline_tables(summary)
    return Section("results", "Results", (headline, figure("tokens"), *others, _replies_table(summary)))


def headline_sentence(summary: Summary) -> str:
    """Say in one sentence how the reference did, against its strongest rival; the numbers are the headline table's."""
    reference = summary.reference
    parts = [f"{reference.system.title}: {accuracy(reference.verdict.average)} % of its verdicts are right"]
    # The best system with the reference's budget; without any, the best of the others.
    others = [one for one in summary.systems if one is not reference]
    matched = [one for one in others if one.system.matched_to == reference.system.name]
    rival = max(matched or others, key=lambda one: one.verdict.average.mean, default=None)
    compared = rival and rival.verdict.against_reference
    if rival and compared:
        p = "" if compared.p is None else " (p < 0.001)" if compared.p < 0.001 else f" (p = {compared.p:.3f})"
        kind = "rival at its budget" if matched else "other system"
        points = points_text(compared.difference)
        parts.append(f"the strongest {kind}, {quoted(rival.system.title)}, has {points} points{p}")
    if reference.improves is not None:
        improved, damaged = share_text(reference.improves), share_text(reference.damages)
        parts.append(f"critics improve {improved} % of the questions and damage {damaged} %")
    return f"{'; '.join(parts)}."


def headline_tables(summary: Summary) -> list[Table]:
    """Return how right every system is and at what cost, and a table by benchmark where there are several."""
    is_compared = len(summary.systems) > 1
    headings = (
        *columns("verdict", *(("difference", "p") if is_compared else ()), "mean", "calls"),
        *columns("generated", "prompt", group="tokens"),
        *columns("improve", "damage", group="critics"),
    )

    def cells(one: SystemSummary) -> list[str | Cell]:
        compared = one.verdict.against_reference
        against = [difference(compared), p_text(compared.p)] if compared else [REFERENCE, NOTHING]
        return [
            accuracy(one.verdict.average),
            *(against if is_compared else ()),
            accuracy(one.mean.average),
            count_text(one.calls),
            *(f"{tokens:,.0f}" for tokens in (one.tokens, one.prompt_tokens)),
            *map(share_text, (one.improves, one.damages)),
        ]

    titles = numbered_titles([summary.plan])
    systems = {titles[one.system.name]: one for one in summary.systems}
    rows = [(title, cells(one)) for title, one in systems.items()]
    headline = table("headline", "Right verdicts and cost of every system", headings, rows, *_notes(summary))
    if len(summary.benchmarks) < 2:
        return [headline]
    by_benchmark = [(title, map(accuracy, one.verdict.benchmarks.values())) for title, one in systems.items()]
    title = "Right verdicts on every benchmark, in percent"
    return [headline, table("benchmarks", title, columns(*summary.benchmarks), by_benchmark)]


def _notes(summary: Summary) -> Iterator[str]:
    problems = ", ".join(f"{name} ({count:,})" for name, count in summary.benchmarks.items())
    spread = SPREAD if len(summary.seeds) > 1 else "one seed has no standard error"
    weights = " Averages give each benchmark equal weight." if len(summary.benchmarks) > 1 else ""
    yield f"Percent, mean over {counted(len(summary.seeds), 'seed')}; {spread}. Problems: {problems}.{weights}"
    compared = (
        f" difference: verdict against verdict, in points above {quoted(summary.reference.system.title)}. p: Welch's "
        "two-sided t-test of the seeds' averages; * below 0.05, ** below 0.01, *** below 0.001."
    )
    yield (
        "verdict: the system's one answer, which is a vote of its last round, or what a judge or critics chose."
        f"{compared if len(summary.systems) > 1 else ''} mean: the answers of the last round one by one (the paper's "
        "measure)."
    )
    yield (
        "calls, tokens: per question. critics improve, damage: share of all questions on which the vote of the first "
        "round is wrong and the verdict right, and the other way round."
    )
    # Systems that were given another's tokens or cost as their budget.
    titles = {one.name: one.title for one in summary.plan.systems}
    matched: dict[tuple[str, str], list[str]] = {}
    for one in (one.system for one in summary.systems):
        if one.matched_to is not None:
            matched.setdefault((one.matched_to, one.match), []).append(quoted(one.title))
    for (target, match), rivals in matched.items():
        title = quoted(titles[target])
        budget = f"generated tokens of {title} allow" if match == "tokens" else f"cost of {title} allows"
        yield f"{', '.join(rivals)}: as many samples as the {budget}."
    if (price := summary.plan.prompt_price) is not None:
        yield f"cost: generated tokens, and prompt tokens at {small_text(price)} of a generated one."
    failed = [f"{one.system.title} {100 * one.failed:.2f} %" for one in summary.systems if one.failed]
    if failed:
        yield f"Replies that the server failed to give, counted as wrong: {', '.join(failed)}."


def _replies_table(summary: Summary) -> Table:
    """Return how many replies were cut off or had no answer, and how many votes were tied."""
    shares = {
        "replies cut off": [one.truncated for one in summary.systems],
        "replies without an answer": [one.unanswered for one in summary.systems],
        "tied votes": [one.ties for one in summary.systems],
    }
    rare = {
        "replies never given: no room for the question": [one.unfit for one in summary.systems],
        "replies that the server failed to give": [one.failed for one in summary.systems],
    }
    shares |= {name: values for name, values in rare.items() if any(values)}
    titles = numbered_titles([summary.plan])
    rows = [
        (titles[one.system.name], [share_text(values[index]) for values in shares.values()])
        for index, one in enumerate(summary.systems)
    ]
    return table("replies", "Replies and votes, in percent", columns(*shares), rows)


def comparisons_section(grid: Grid) -> Section | None:
    """Return the comparisons of all systems with the reference; None for a system that is alone."""
    if len(grid.plan.shown_systems) < 2:
        return None
    compared = against_reference(grid)
    opening = paragraph(
        f"Verdict against verdict, in points, system minus {quoted(grid.plan.reference_system.title)}. "
        "One, two or three stars stand for p below .05, .01 and .001. Intervals are 95 %."
    )
    titles = numbered_titles([grid.plan])
    blocks: list[Block] = [opening, _over_seeds(grid, compared, titles), _over_problems(grid, compared, titles)]
    if len(grid.problems) > 1:
        spread = f" {SPREAD}." if len(grid.seeds) > 1 else ""
        by_benchmark = table(
            "by-benchmark",
            "Benchmark by benchmark, over seeds",
            [column for name in grid.problems for column in columns("difference", "p", group=name)],
            [(titles[one.system.name], _differences(*one.benchmarks.values())) for one in compared],
            f"Verdict against verdict, by Welch's t-test. p is not adjusted.{spread}",
        )
        blocks.append(by_benchmark)
    blocks += [figure("pairs"), paragraph(power_text(power_note(grid)))]
    return Section("comparisons", "Comparisons", tuple(blocks))


def power_text(note: PowerNote) -> str:
    """Say in sentences how small a difference the evaluation could have found."""
    if note.detectable is None or note.spread is None:
        return "One seed allows no test over seeds: run more of them before calling two systems alike or different."
    # Estimates beyond 100 points say that nothing is found, not that much is.
    found = f"find a true difference of {share_text(note.detectable)} points four times in five"
    text = (
        f"Power: a system's average varies by {share_text(note.spread)} points from seed to seed (standard deviation), "
        f"so {note.seeds} seeds {found if note.detectable < 1 else 'are too few to find anything reliably'}. "
        "Smaller differences are often missed: no star is no proof that two systems are alike."
    )
    benchmarks = [
        f"{share_text(one.detectable)} on {name} ({counted(one.problems, 'problem')})"
        for name, one in note.benchmarks.items()
        if one.detectable is not None and one.detectable < 1
    ]
    if benchmarks:
        text += (
            f" On a single benchmark, at the reference's accuracy and if all problems were equally hard, {note.seeds} "
            f"seeds find this many points: {', '.join(benchmarks)}."
        )
    return text


def _over_seeds(grid: Grid, compared: Sequence[AgainstReference], titles: Mapping[str, str]) -> Table:
    """Return Welch's comparisons with the reference, adjusted for their number, and the paper's measure beside them."""
    means = {one.system.name: one.mean.against_reference for one in summarize(grid).systems}
    rows = [
        (
            titles[one.system.name],
            [
                uncertain_difference(one.seeds),
                range_text(one.seeds.low, one.seeds.high),
                *map(p_text, (one.seeds.p, one.holm, one.benjamini_hochberg)),
                *_differences(means[one.system.name]),
            ],
        )
        for one in compared
    ]
    return table(
        "over-seeds",
        "Over seeds: would other samples on the same problems say so again?",
        (
            *columns("difference", INTERVAL, "p", "Holm", "BH"),
            *columns("difference", "p", group="mean against mean"),
        ),
        rows,
        "Verdict against verdict, by Welch's t-test of seeds' averages. Holm and BH (Benjamini–Hochberg) adjust its p "
        f"for the {counted(len(compared), 'test')} of this table: Holm for claims that must all stand, BH where some "
        "false findings among many may pass. Mean against mean: the same test of both systems' single answers in their "
        "last round (the paper's measure), its p not adjusted.",
        *([f"{SPREAD}."] if len(grid.seeds) > 1 else []),
    )


def _over_problems(grid: Grid, compared: Sequence[AgainstReference], titles: Mapping[str, str]) -> Table:
    """Return problem-by-problem comparisons of verdicts; the reference has its own accuracy."""
    by_name = {one.system.name: one for one in compared}
    rows: list[tuple[str, list[str]]] = []
    for name, interval in accuracies_over_problems(grid).items():
        has_range = interval.low is not None and interval.high is not None
        cells = [share_text(interval.value)]
        cells.append(f"{share_text(interval.low)} to {share_text(interval.high)}" if has_range else NOTHING)
        if one := by_name.get(name):
            cells += [
                points_text(one.bootstrap.value),
                range_text(one.bootstrap.low, one.bootstrap.high),
                p_text(one.permutation.p),
                *(f"{count:,}" for count in (one.pairs.first_better, one.pairs.second_better)),
                p_text(one.pairs.comparison.p),
                *(f"{count:,}" for count in (one.mcnemar.only_first, one.mcnemar.only_second)),
                p_text(one.mcnemar.p),
            ]
        else:
            cells += [REFERENCE, *[NOTHING] * 8]
        rows.append((titles[name], cells))
    return table(
        "over-problems",
        "Over problems: would other problems of the same kind say so?",
        (
            *columns("mean", INTERVAL, group="right verdicts"),
            *columns("mean", INTERVAL, "p", group="difference"),
            *columns("wins", "losses", "p", group="problem and seed"),
            *columns("wins", "losses", "p", group="McNemar"),
        ),
        rows,
        "Verdict against verdict. Intervals are bootstrapped by drawing problems, each with all of its seeds, and the "
        "difference's p is that of a permutation test on per-problem differences. Problem and seed: how many pairs of "
        "these the system alone gets right (wins), or the reference alone (losses); p is a paired t-test with problems "
        "as clusters. McNemar's test counts problems that one of them alone gets right more often than not over the "
        "seeds (exactly half is not), whatever their benchmark. No p of this table is adjusted.",
    )


def _differences(*compared: Comparison | None) -> Iterator[str | Cell]:
    """Yield difference and p of each comparison."""
    for one in compared:
        yield NOTHING if one is None else uncertain_difference(one)
        yield NOTHING if one is None else p_text(one.p)


def samples_section(grid: Grid) -> Section | None:
    """Return pass@k and maj@k of every system that is several samples of one agent; None without any."""
    curves = at_k(grid)
    if not curves:
        return None
    titles = numbered_titles([grid.plan])
    explanation = paragraph(
        "Of k samples of one agent, in percent: pass@k, how often a right one is among them, which is the best that a "
        "judge or critics could choose; maj@k, how often a majority vote is right, where tied answers win with equal "
        "chance. Both are means over all choices of k from the samples there are."
    )
    numbers = sorted({point.k for curve in curves for point in curve.points})
    groups: list[tuple[Row, ...]] = []
    for curve in curves:
        measures = {
            "pass@k": {point.k: accuracy(point.passed) for point in curve.points},
            "maj@k": {point.k: accuracy(point.majority) for point in curve.points},
        }
        title = titles[curve.system.name]
        rows = (row(title, [name, *(at.get(k, NOTHING) for k in numbers)]) for name, at in measures.items())
        groups.append(tuple(rows))
    headings = (*columns("system", "measure", kind="text"), *columns(*(f"k = {k}" for k in numbers)))
    notes = (f"{SPREAD}.",) if len(grid.seeds) > 1 else ()
    samples = Table("samples", "pass@k and maj@k", headings, tuple(groups), notes)
    return Section("samples", "More samples", (explanation, samples))
