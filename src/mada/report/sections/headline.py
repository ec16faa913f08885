"""How good every system is, by how much, and for how many tokens: the table that a reader wants first."""

from collections.abc import Sequence

from mada.evaluation.grid import Grid
from mada.evaluation.statistics import welch_from_moments
from mada.evaluation.summary import Summary, SystemSummary, summary_of
from mada.report.document import Cell, Column, Row, Section, Table, row
from mada.report.figures.data import TokensFigure
from mada.report.numbers import NOTHING, REFERENCE, count_text, counted, p_text, points_text, quoted, share_text
from mada.report.sections.entries import BRACKETS, accuracy, difference, figure_place


def results_section(grid: Grid) -> Section:
    """Return the results of an evaluation: the headline table, and how replies and votes ended."""
    summary = summary_of(grid)
    blocks = headline_table(summary), figure_place(TokensFigure), replies_table(summary)
    return Section("results", "Results", blocks)


def headline_sentence(summary: Summary) -> str:
    """Say what came of an evaluation: how right the reference is, verdict against verdict of its strongest rival."""
    reference = next(one for one in summary.systems if one.system == summary.reference)
    parts = [f"{reference.system.title}: {accuracy(reference.verdict)} % of its verdicts are right"]
    rival = _rival(summary, reference)
    if rival is not None:
        compared = welch_from_moments(reference.verdict, rival.verdict)
        sure = "" if compared.p is None else f" (p {_p_in_words(compared.p)})"
        parts.append(f"{points_text(compared.difference)} points from those of {quoted(rival.system.title)}{sure}")
    if reference.improves is not None:
        critics = f"critics improve {share_text(reference.improves)} % of the questions and damage"
        parts.append(f"{critics} {share_text(reference.damages)} %")
    return f"{'; '.join(parts)}."


def _rival(summary: Summary, reference: SystemSummary) -> SystemSummary | None:
    """Return the best system that had the reference's tokens to use up; without any, the best of the others."""
    others = [one for one in summary.systems if one is not reference]
    matched = [one for one in others if one.system.matched_to == reference.system.name]
    return max(matched or others, key=lambda one: one.verdict.mean, default=None)


def _p_in_words(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def headline_table(summary: Summary) -> Table:
    """Return the table of an evaluation; what a reader wants first comes first, the benchmarks come last."""
    is_compared = len(summary.systems) > 1
    # A single benchmark is the average, and needs no column of its own.
    benchmarks = tuple(summary.benchmarks) if len(summary.benchmarks) > 1 else ()
    columns = (
        Column("system", "text"),
        *map(Column, ("calls", "accuracy", "verdict", *(("difference", "p") if is_compared else ()), "tokens")),
        *(Column(heading, group="critics") for heading in ("improve", "damage")),
        *map(Column, benchmarks),
    )
    rows = tuple(_row(one, benchmarks=benchmarks, is_compared=is_compared) for one in summary.systems)
    return Table("headline", "Accuracy and cost of every system", columns, (rows,), _notes(summary))


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
    rows = tuple(row(one.system.title, cells) for one, cells in zip(summary.systems, texts, strict=True))
    columns = (Column("system", "text"), *map(Column, shares))
    return Table("replies", "Replies and votes, in percent", columns, (rows,))


def _row(one: SystemSummary, *, benchmarks: Sequence[str], is_compared: bool) -> Row:
    return row(
        one.system.title,
        [
            count_text(one.calls),
            accuracy(one.accuracy),
            accuracy(one.verdict),
            *(_against_reference(one) if is_compared else []),
            f"{one.tokens:,.0f}",
            share_text(one.improves),
            share_text(one.damages),
            *(accuracy(one.benchmarks[name]) for name in benchmarks),
        ],
    )


def _against_reference(one: SystemSummary) -> list[Cell]:
    compared = one.against_reference
    if compared is None:
        return [Cell(REFERENCE), Cell(NOTHING)]
    return [difference(compared), Cell(p_text(compared.p))]


def _notes(summary: Summary) -> tuple[str, ...]:
    problems = ", ".join(f"{name} ({count:,})" for name, count in summary.benchmarks.items())
    spread = f", {BRACKETS}" if len(summary.seeds) > 1 else "; one seed has no standard error"
    weights = " Averages give each benchmark equal weight." if len(summary.benchmarks) > 1 else ""
    compared = (
        f"difference: points of accuracy above {quoted(summary.reference.title)}. p: Welch's two-sided t-test of the "
        "seeds' averages; * below 0.05, ** below 0.01, *** below 0.001."
    )
    return (
        f"Percent, mean over {counted(len(summary.seeds), 'seed')}{spread}. Problems: {problems}.{weights}",
        f"accuracy: {_measures(summary.systems)}. verdict: that one answer, of every system; a debate's is the vote of "
        "its last round.",
        *([compared] if len(summary.systems) > 1 else []),
        "calls, tokens: model calls and generated tokens per question. critics improve, damage: share of all questions "
        "on which the vote of the first round is wrong and the verdict right, and the other way round.",
        *_budgets(summary.systems),
        *_failures(summary.systems),
    )


def _failures(systems: Sequence[SystemSummary]) -> Sequence[str]:
    """Say which results a server has spoilt, wherever the headline table is shown."""
    shares = [f"{one.system.title} {100 * one.failed:.2f} %" for one in systems if one.failed]
    return [f"Replies that the server failed to give, counted as wrong: {', '.join(shares)}."] if shares else []


def _measures(systems: Sequence[SystemSummary]) -> str:
    deciding = [quoted(one.system.title) for one in systems if one.system.measure == "verdict"]
    mean = "the mean over the last round's answers"
    one_answer = "the system's one answer (a vote, a weighted vote, or what a judge or critics chose)"
    if not deciding:
        return f"{mean}, not {one_answer}"
    if len(deciding) == len(systems):
        return one_answer
    return f"for {', '.join(deciding)} {one_answer}, for the others {mean}"


def _budgets(systems: Sequence[SystemSummary]) -> list[str]:
    """Name the systems that had another's tokens to use up."""
    titles = {one.system.name: one.system.title for one in systems}
    matched: dict[str, list[str]] = {}
    for one in systems:
        if one.system.matched_to is not None:
            matched.setdefault(one.system.matched_to, []).append(quoted(one.system.title))
    return [
        f"{', '.join(rivals)}: as many samples as the generated tokens of {quoted(titles.get(name, name))} allow."
        for name, rivals in matched.items()
    ]
