"""How good every system is, by how much, and for how many tokens: the table that a reader wants first."""

from collections.abc import Sequence

from mada.evaluation.grid import Grid
from mada.evaluation.summary import Summary, SystemSummary, summary_of
from mada.report.document import Cell, Column, Row, Section, Table, row
from mada.report.figures.data import TokensFigure
from mada.report.numbering import numbered_titles
from mada.report.numbers import NOTHING, REFERENCE, count_text, p_text, points_text, quoted, share_text, small_text
from mada.report.sections.entries import SPREAD, accuracy, difference, figure_place
from mada.text import counted


def results_section(grid: Grid) -> Section:
    """Return the results of an evaluation: the headline table, and how replies and votes ended."""
    summary = summary_of(grid)
    headline, *others = headline_tables(summary)
    return Section("results", "Results", (headline, figure_place(TokensFigure), *others, replies_table(summary)))


def headline_sentence(summary: Summary) -> str:
    """Say what came of an evaluation, verdict against verdict: the reference, and its strongest rival's difference.

    The numbers are those of the headline table.
    """
    reference = summary.reference
    parts = [f"{reference.system.title}: {accuracy(reference.verdict.average)} % of its verdicts are right"]
    rival = _rival(summary)
    compared = rival and rival.verdict.against_reference
    if rival and compared:
        sure = "" if compared.p is None else f" (p {_p_in_words(compared.p)})"
        kind = "rival at its budget" if rival.system.matched_to == reference.system.name else "other system"
        parts.append(
            f"the strongest {kind}, {quoted(rival.system.title)}, has {points_text(compared.difference)} points{sure}"
        )
    if reference.improves is not None:
        critics = f"critics improve {share_text(reference.improves)} % of the questions and damage"
        parts.append(f"{critics} {share_text(reference.damages)} %")
    return f"{'; '.join(parts)}."


def _rival(summary: Summary) -> SystemSummary | None:
    """Return the best system that had the reference's budget to use up; without any, the best of the others."""
    others = [one for one in summary.systems if one is not summary.reference]
    matched = [one for one in others if one.system.matched_to == summary.plan.reference]
    return max(matched or others, key=lambda one: one.verdict.average.mean, default=None)


def _p_in_words(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def headline_tables(summary: Summary) -> list[Table]:
    """Return what a reader wants first: the headline table, and a table by benchmark where there are several."""
    return [headline_table(summary), *([benchmarks_table(summary)] if len(summary.benchmarks) > 1 else [])]


def headline_table(summary: Summary) -> Table:
    """Return how right every system is, on average over benchmarks, and for how many tokens."""
    is_compared = len(summary.systems) > 1
    columns = (
        Column("system", "text"),
        *map(Column, ("verdict", *(("difference", "p") if is_compared else ()), "mean", "calls")),
        *(Column(heading, group="tokens") for heading in ("generated", "prompt")),
        *(Column(heading, group="critics") for heading in ("improve", "damage")),
    )
    titles = _titles(summary)
    rows = tuple(_row(titles[one.system.name], one, is_compared=is_compared) for one in summary.systems)
    return Table("headline", "Right verdicts and cost of every system", columns, (rows,), _notes(summary))


def benchmarks_table(summary: Summary) -> Table:
    """Return the share of right verdicts on every benchmark."""
    titles = _titles(summary)
    rows = tuple(
        row(titles[one.system.name], [accuracy(one.verdict.benchmarks[name]) for name in summary.benchmarks])
        for one in summary.systems
    )
    columns = (Column("system", "text"), *map(Column, summary.benchmarks))
    return Table("benchmarks", "Right verdicts on every benchmark, in percent", columns, (rows,))


def replies_table(summary: Summary) -> Table:
    """Return how many replies were cut off or had no answer, and how many votes were tied, in percent."""
    shares = {
        "replies cut off": [one.truncated for one in summary.systems],
        "replies without an answer": [one.unanswered for one in summary.systems],
        "tied votes": [one.ties for one in summary.systems],
    }
    if any(one.unfit for one in summary.systems):
        shares["replies never given: no room for the question"] = [one.unfit for one in summary.systems]
    if any(one.failed for one in summary.systems):
        shares["replies that the server failed to give"] = [one.failed for one in summary.systems]
    texts = zip(*(map(share_text, column) for column in shares.values()), strict=True)
    titles = _titles(summary)
    rows = tuple(row(titles[one.system.name], cells) for one, cells in zip(summary.systems, texts, strict=True))
    columns = (Column("system", "text"), *map(Column, shares))
    return Table("replies", "Replies and votes, in percent", columns, (rows,))


def _titles(summary: Summary) -> dict[str, str]:
    return numbered_titles([summary.plan])


def _row(title: str, one: SystemSummary, *, is_compared: bool) -> Row:
    return row(
        title,
        [
            accuracy(one.verdict.average),
            *(_against_reference(one) if is_compared else []),
            accuracy(one.mean.average),
            count_text(one.calls),
            f"{one.tokens:,.0f}",
            f"{one.prompt_tokens:,.0f}",
            share_text(one.improves),
            share_text(one.damages),
        ],
    )


def _against_reference(one: SystemSummary) -> list[Cell]:
    compared = one.verdict.against_reference
    if compared is None:
        return [Cell(REFERENCE), Cell(NOTHING)]
    return [difference(compared), Cell(p_text(compared.p))]


def _notes(summary: Summary) -> tuple[str, ...]:
    problems = ", ".join(f"{name} ({count:,})" for name, count in summary.benchmarks.items())
    spread = f"; {SPREAD}" if len(summary.seeds) > 1 else "; one seed has no standard error"
    weights = " Averages give each benchmark equal weight." if len(summary.benchmarks) > 1 else ""
    compared = (
        f" difference: verdict against verdict, in points above {quoted(summary.reference.system.title)}. p: Welch's "
        "two-sided t-test of the seeds' averages; * below 0.05, ** below 0.01, *** below 0.001."
    )
    return (
        f"Percent, mean over {counted(len(summary.seeds), 'seed')}{spread}. Problems: {problems}.{weights}",
        "verdict: the system's one answer, which is a vote of its last round, or what a judge or critics chose."
        f"{compared if len(summary.systems) > 1 else ''} mean: the answers of the last round one by one (the paper's "
        "measure).",
        "calls, tokens: per question. critics improve, damage: share of all questions on which the vote of the first "
        "round is wrong and the verdict right, and the other way round.",
        *_budgets(summary),
        *_failures(summary.systems),
    )


def _failures(systems: Sequence[SystemSummary]) -> Sequence[str]:
    """Say which results a server has spoilt, wherever the headline table is shown."""
    shares = [f"{one.system.title} {100 * one.failed:.2f} %" for one in systems if one.failed]
    return [f"Replies that the server failed to give, counted as wrong: {', '.join(shares)}."] if shares else []


def _budgets(summary: Summary) -> list[str]:
    """Name the systems that had another's tokens, or its cost, to use up."""
    titles = {one.name: one.title for one in summary.plan.systems}
    matched: dict[tuple[str, str], list[str]] = {}
    for one in (one.system for one in summary.systems):
        if one.matched_to is not None:
            matched.setdefault((one.matched_to, one.match), []).append(quoted(one.title))
    notes: list[str] = []
    for (target, match), rivals in matched.items():
        what = "generated tokens" if match == "tokens" else "cost"
        allow = "allow" if match == "tokens" else "allows"
        notes.append(f"{', '.join(rivals)}: as many samples as the {what} of {quoted(titles[target])} {allow}.")
    price = summary.plan.prompt_price
    if price is not None:
        notes.append(f"cost: generated tokens, and prompt tokens at {small_text(price)} of a generated one (measured).")
    return notes
