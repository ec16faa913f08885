"""What a run cost, how its training went, what critics learnt from, and how it was run."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mada.evaluation.costs import EvaluationCost, Reuse, SystemCost, system_cost
from mada.report.document import Block, Code, Column, Listing, Row, Section, Table, columns, paragraph, row, table
from mada.report.figures import figure
from mada.report.numbers import (
    NOTHING,
    count_text,
    numbered_titles,
    optional,
    points_text,
    share_text,
    small_text,
)
from mada.report.reading import CRITIC_EXAMPLES, Source, stored
from mada.report.training import ROLES, TrainingCurve, read_curves
from mada.text import duration

PRIVATE = ("host", "pid")
"""Fields of a session that are not shown, since pages are passed on."""


@dataclass(frozen=True, slots=True)
class CriticExampleCount:
    """The part of a critic example that the report needs: its data part, and the share of right generators."""

    part: str
    generator_accuracy: float


def costs_section(source: Source) -> Section | None:
    """Return the cost of the evaluation, where it is on record, and every system's cost per question."""
    grid, price = source.grid, source.price_per_hour
    if grid is None:
        return None
    titles = numbered_titles([grid.plan])
    costs = {
        titles[one.name]: system_cost(grid, one, usage=source.efforts, price_per_hour=price)
        for one in grid.plan.shown_systems
    }
    total = [] if source.cost is None else [_total(source.cost, price_per_hour=price)]
    return Section("costs", "Costs", (*total, _per_question(costs), figure("parameters")))


def cost_lines(cost: EvaluationCost) -> list[str]:
    """Return the cost of an evaluation in a few lines of plain text."""
    lines = [
        f"{demand.requested:,} {name} asked for{_sampled(demand)}"
        for name, demand in (("completions", cost.completions), ("tokens", cost.generated_tokens))
    ]
    return [*lines, _resources(cost)] if cost.seconds else lines


def _sampled(demand: Reuse) -> str:
    if demand.saved is None:
        return ""
    if demand.saved < 0:
        return f", {demand.computed:,} sampled, more than asked for because lost work was done again"
    return f", {demand.computed:,} sampled: sharing saved {100 * demand.saved:.0f} %"


def _resources(cost: EvaluationCost) -> str:
    """Return time, accelerators' time, speed and money, as far as each is known."""
    parts = [f"{duration(cost.seconds)} (engines at work for {duration(cost.busy_seconds)})"]
    if cost.accelerator_seconds is not None:
        parts.append(f"{duration(cost.accelerator_seconds)} of accelerators")
    if cost.tokens_per_second is not None:
        parts.append(f"{small_text(cost.tokens_per_second)} tokens per second")
    if cost.money is not None:
        parts.append(f"{cost.money:,.2f} in money")
    return ", ".join(parts)


def _total(cost: EvaluationCost, *, price_per_hour: float | None) -> Table:
    """Return what systems asked for between them beside what was computed."""

    def cells(one: Reuse) -> list[str]:
        saved = NOTHING if one.saved is None else f"{100 * one.saved:.0f} %".replace("-", "−")
        return [f"{one.requested:,}", f"{one.computed:,}", saved]

    rows = {
        "completions": cost.completions,
        "generated tokens": cost.generated_tokens,
        "prompt tokens": cost.prompt_tokens,
    }
    note = f"It took {_resources(cost)}."
    if price_per_hour is not None:
        price = small_text(price_per_hour)
        note += f" The price is {price} for an hour of an accelerator, or of the machine without one."
    return table(
        "total-costs",
        "The complete evaluation",
        columns("asked for", "computed", "saved by sharing"),
        [(name, cells(one)) for name, one in rows.items()],
        note,
        first="what",
    )


def _per_question(costs: dict[str, SystemCost]) -> Table:
    """Return what each system costs per question; columns without any value are left out."""
    most = max(len(one.round_tokens) for one in costs.values())
    rounds = most if most > 1 else 0
    generated = "generated tokens"
    shown: list[tuple[Column, Callable[[SystemCost], str]]] = [
        (Column("calls"), lambda one: count_text(one.calls)),
        *((Column(f"round {index + 1}", group=generated), _round_tokens(index)) for index in range(rounds)),
        (Column("all", group=generated), lambda one: f"{one.generated_tokens:,.0f}"),
        (Column("per right verdict", group=generated), lambda one: optional(one.tokens_per_right_answer, ",.0f")),
        (Column("prompt tokens"), lambda one: f"{one.prompt_tokens:,.0f}"),
        (Column("trained parameters"), lambda one: optional(one.parameters, ",")),
        (Column("seconds"), lambda one: small_text(one.seconds)),
        (Column("accelerator seconds"), lambda one: small_text(one.accelerator_seconds)),
        (Column("money"), lambda one: small_text(one.money)),
    ]
    shown = [(column, text) for column, text in shown if any(text(one) != NOTHING for one in costs.values())]
    note = "Calls and tokens are counted; per right verdict: generated tokens by the share of right verdicts."
    if any(one.seconds is not None for one in costs.values()):
        note += (
            " Times and money of a system are not measured but attributed by its share of generated tokens, as if it "
            "had sampled alone: systems share samples and batches, so no clock can tell them apart."
        )
    rows = [(title, [text(one) for _, text in shown]) for title, one in costs.items()]
    return table("costs", "Costs per question", [column for column, _ in shown], rows, note)


def _round_tokens(index: int) -> Callable[[SystemCost], str]:
    return lambda one: f"{one.round_tokens[index]:,.0f}" if index < len(one.round_tokens) else NOTHING


def training_section(source: Source) -> Section | None:
    """Return the outcome of every agent's training, generators first; None before the first validation."""
    curves = [curve for curve in read_curves(source.run) if curve.validation]
    if not curves:
        return None
    explanation = paragraph(
        "Accuracy on the validation set in percent, and mean tokens of a reply. The best adapter is chosen by this "
        "very set, so its number flatters it; the results of the evaluation do not."
    )
    headings = (
        *columns("agent", kind="text"),
        *columns("first", "best", "gain", "last", group="accuracy"),
        *columns("best", "last", group="step"),
        *columns("first", "best", group="tokens"),
    )
    groups = tuple(tuple(_outcome(one) for one in curves if one.role == role) for role in ROLES)
    outcomes = Table("training", "Every agent on the validation set", headings, tuple(filter(None, groups)))
    return Section("training", "Training", (explanation, outcomes, figure("training"), figure("advantages")))


def _outcome(one: TrainingCurve) -> Row:
    first, best, last = one.validation[0], one.best, one.validation[-1]
    gain = points_text(best.accuracy - first.accuracy)
    accuracies = [share_text(first.accuracy), share_text(best.accuracy), gain, share_text(last.accuracy)]
    counts = [f"{number:,.0f}" for number in (best.step, last.step, first.length, best.length)]
    return row(one.agent, [*accuracies, *counts])


def critic_examples_section(source: Source) -> Section | None:
    """Return how many examples each data part has, by the share of right generators; None without any records."""
    if CRITIC_EXAMPLES not in source.run.record_names():
        return None
    examples = stored(source.run, CRITIC_EXAMPLES, CriticExampleCount)
    counts = Counter((one.part, round(one.generator_accuracy, 6)) for one in examples)
    shares = sorted({share for _, share in counts})
    rows: list[tuple[str, list[str]]] = []
    for part in sorted({part for part, _ in counts}):
        numbers = [counts[part, share] for share in shares]
        rows.append((part, [*(f"{number:,}" if number else NOTHING for number in numbers), f"{sum(numbers):,}"]))
    headings = columns(*(f"{100 * share:.0f} % right" for share in shares), "all")
    note = "Numbers of problems, by the share of generators that were right about them."
    found = table("critic-examples", "What the critics learn from", headings, rows, note, first="part")
    return Section("critic-examples", "Critic examples", (found,))


def provenance_section(source: Source) -> Section:
    """Return the finished stages with their times, and the code, versions and machine of the latest session."""
    manifest, marks = source.run.manifest, source.run.finished_stages()
    blocks: list[Block] = []
    if marks:
        rows = tuple(row(mark.name, [duration(mark.seconds)]) for mark in marks)
        total = row("all", [duration(sum(mark.seconds for mark in marks))])
        headings = (*columns("stage", kind="text"), *columns("time"))
        blocks.append(Table("stages", "Stages", headings, (rows, (total,))))
    for mark in marks:
        counts = [f"{name} {count:,}" for name, count in mark.summary.items() if isinstance(count, int) and count]
        if mark.name == "split" and counts:
            blocks.append(paragraph(f"Training data: {', '.join(counts)}."))
    session = manifest.sessions[-1]
    commit, hardware = session.commit, session.hardware
    if commit is None:
        blocks.append(paragraph("Commit: unknown."))
    else:
        blocks.append(paragraph("Commit: ", Code(commit.id), ", with changes." if commit.dirty else "."))
    versions = ", ".join(f"{name} {version}" for name, version in session.versions.items())
    machine = ", ".join([hardware.cpu, f"{hardware.cores or '?'} cores", *(gpu.name for gpu in hardware.gpus)])
    blocks += [paragraph(f"Versions: {versions}."), paragraph(f"Machine: {machine}.")]
    if len(manifest.sessions) > 1:
        text = (
            f"The run took {len(manifest.sessions)} sessions; a stage's time is that of the session that ended it, "
            "and commit, versions and machine are those of the latest."
        )
        blocks.append(paragraph(text))
    return Section("provenance", "How it was run", tuple(blocks))


def recipe_section(source: Source) -> Section:
    """Return the recipe with every default filled in, and the manifest without it."""
    manifest = source.run.manifest.model_dump(mode="json")
    recipe = manifest.pop("recipe")
    for session in manifest["sessions"]:
        for private in PRIVATE:
            session.pop(private)
    listed = {
        "The recipe, with every default filled in": recipe,
        "The manifest: sessions, commits, versions, machines": manifest,
    }
    blocks = (Listing(json.dumps(one, indent=2, ensure_ascii=False), summary) for summary, one in listed.items())
    return Section("recipe", "Recipe and manifest", tuple(blocks), only="page")
