"""A recipe's plan on the terminal: stages and their completions, parameters, memory, and times where measured."""

from pathlib import Path
from typing import TYPE_CHECKING

from mada.cli.terminal import console, safe
from mada.text import duration, in_bytes, in_millions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mada.pipeline.measure import Rates
    from mada.pipeline.plan import Plan
    from mada.recipe import Recipe
    from mada.runs import StoredRun


def print_plan(
    plan: "Plan", recipe: "Recipe", *, folder: Path, rates: "Rates | None" = None, lender: "StoredRun | None" = None
) -> None:
    """Print what a recipe would do in a folder, perhaps with the generators of another run; nothing is done."""
    from rich.table import Table

    from mada.pipeline.stages import generator_stages

    taken = generator_stages(recipe) if lender else ()
    screen = console()
    screen.print(f"{safe(recipe.name)} on {safe(recipe.model.name)}, in {safe(str(folder))}; nothing is done yet\n")
    table = Table("stage", "what", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("completions", "tokens at most", *(("time",) if rates else ())):
        table.add_column(header, justify="right")
    for stage in plan.stages:
        done = (folder / "stages" / f"{stage.name}.json").is_file()
        mark = " (done)" if done else " (taken)" if stage.name in taken else ""
        counts = [f"{stage.completions:,}", in_millions(stage.most_tokens or 0)] if stage.completions else ["–", "–"]
        seconds = rates.stage_seconds(stage) if rates else None
        time = [] if rates is None else ["–" if seconds is None else duration(seconds)]
        table.add_row(f"{stage.name}{mark}", safe(stage.size), *counts, *time)
    if rates:
        table.add_row("together", "", "", "", duration(rates.total_seconds(plan)))
    screen.print(table)
    screen.print(f"\n{_about_times(rates)}\n")
    facts = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for name, value in _facts(plan, recipe):
        facts.add_row(name, value)
    screen.print(facts)
    for sentence in plan.warnings:
        screen.print(f"\n! {sentence}")


def _about_times(rates: "Rates | None") -> str:
    if rates is None:
        return "Time depends on how long replies are: --measure runs a few steps here and extrapolates."
    learned = "nothing learned" if rates.learned_per_second is None else f"{rates.learned_per_second:,.0f} learned"
    return (
        f"Times extrapolate a few steps of the generators' training here: replies of {rates.reply_tokens:,.0f} tokens, "
        f"{rates.sampled_per_second:,.0f} tokens per second sampled, {learned}. "
        "Loading, grading and reports come on top; replies that grow longer take longer."
    )


def _facts(plan: "Plan", recipe: "Recipe") -> "Iterator[tuple[str, str]]":
    memory = plan.memory
    agents = plan.trainable // plan.trainable_per_agent
    yield "trainable parameters", f"{plan.trainable_per_agent:,} × {agents} agents = {plan.trainable:,}"
    yield "window", f"{plan.window:,} tokens, prompt and reply; debates are shortened to it"
    training, inference = recipe.training.max_new_tokens, recipe.inference.max_new_tokens
    yield "replies are cut off", f"at {training:,} tokens in training, {_truncated(recipe)}, otherwise at {inference:,}"
    yield "base", f"{plan.base_parameters:,} parameters, {in_bytes(memory.base)} in {plan.dtype}"
    yield "adapters, gradients, optimizer", in_bytes(memory.training)
    yield "keys and values", f"{in_bytes(memory.cache)}: {memory.rows} rows of {memory.row_tokens:,} tokens"
    yield (
        "activations, logits",
        f"{in_bytes(memory.micro_batch)}: a micro-batch of {memory.micro_batch_tokens:,} tokens",
    )
    yield "memory together, at most", f"{in_bytes(memory.total)} of {in_bytes(plan.device.memory)}, {plan.device.name}"


def _truncated(recipe: "Recipe") -> str:
    """Say what happens to replies cut off in training."""
    words = {"learn": "learnt from", "skip": "not learnt from", "wrong": "learnt from as wrong"}
    generators, critics = (words[recipe.training_for(role).truncated] for role in ("generators", "critics"))
    if generators == critics or not recipe.team.critics:
        return f"counted and {generators} (training.truncated)"
    return f"counted and {generators} by generators, {critics} by critics (critics.truncated)"
