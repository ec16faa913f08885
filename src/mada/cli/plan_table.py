"""A recipe's plan on the terminal: stages, sizes, parameters, and what they may take in tokens, time and memory."""

from pathlib import Path
from typing import TYPE_CHECKING

from mada.cli.terminal import console, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table

    from mada.pipeline.plan import Plan
    from mada.recipe import Recipe
    from mada.run import StoredRun


def print_plan(plan: "Plan", recipe: "Recipe", *, folder: Path, lender: "StoredRun | None" = None) -> None:
    """Print what a recipe would do in a folder, perhaps with the generators of another run; nothing is done."""
    from mada.pipeline.borrowing import shared_stages

    lent = shared_stages(recipe) if lender else ()
    screen = console()
    screen.print(f"{safe(recipe.name)} on {safe(recipe.model.name)}, in {safe(str(folder))}; nothing is done yet\n")
    table = _table("stage", "what")
    table.add_column("completions", justify="right")
    for stage in plan.stages:
        mark = _mark(folder, stage.name) or (" (taken)" if stage.name in lent else "")
        table.add_row(f"{stage.name}{mark}", safe(stage.size), _count(stage.completions))
    screen.print(table)
    _print_times(plan, screen)
    facts = _table(headers=False)
    for name, value in _facts(plan, recipe):
        facts.add_row(name, value)
    screen.print()
    screen.print(facts)
    for sentence in plan.advice:
        screen.print(f"\n! {sentence}")


def _print_times(plan: "Plan", screen: "Console") -> None:
    from mada.pipeline.estimates import QUARTER
    from mada.pipeline.quantities import in_millions
    from mada.text import duration

    screen.print(
        f"\nAn estimate for {safe(plan.setting.machine.words)}, sampling with mada's own engine: rates of "
        "docs/performance.md, scaled to this model. How long replies will be is not known: ¼ is for replies that fill "
        "a quarter of their limit on average, all for replies that all fill it. Loading, grading and reports come on "
        "top.\n"
    )
    table = _table("estimated")
    for header in ("tokens, ¼", "tokens, all", "time, ¼", "time, all"):
        table.add_column(header, justify="right")

    def add(name: str, most: int, low: float, high: float) -> None:
        table.add_row(name, in_millions(QUARTER * most), in_millions(most), duration(low), duration(high))

    known = [(stage.most_tokens or 0, *stage.seconds) for stage in plan.stages if stage.seconds]
    for stage in plan.stages:
        if stage.seconds:
            add(stage.name, stage.most_tokens or 0, *stage.seconds)
        elif stage.name == "evaluate":  # a benchmark of unknown size
            table.add_row(stage.name, *"––––")
    add("together", *(sum(column) for column in zip(*known, strict=True)))
    screen.print(table)


def _facts(plan: "Plan", recipe: "Recipe") -> "Iterator[tuple[str, str]]":
    from mada.pipeline.quantities import in_bytes

    setting, memory = plan.setting, plan.memory
    agents = plan.trainable // plan.trainable_per_agent
    yield "trainable parameters", f"{plan.trainable_per_agent:,} × {agents} agents = {plan.trainable:,}"
    yield "window", f"{setting.window:,} tokens, prompt and reply; debates are shortened to it"
    training, inference = recipe.training.max_new_tokens, recipe.inference.max_new_tokens
    yield "replies are cut off", f"at {training:,} tokens in training, {_fate(recipe)}, otherwise at {inference:,}"
    yield "base", f"{plan.base_parameters:,} parameters, {in_bytes(setting.base_bytes)} in {plan.dtype}"
    yield "adapters, gradients, optimizer", in_bytes(setting.training_bytes)
    slots = f"{memory.rows} rows of {memory.row:,} tokens, {in_bytes(memory.cache_bytes / max(1, memory.rows))} each"
    yield "keys and values", f"{in_bytes(memory.cache_bytes)}: {slots}"
    low, high = memory.micro_batches
    tokens = f"{low.tokens:,}" if low.tokens == high.tokens else f"{low.tokens:,} (¼) or {high.tokens:,} (all)"
    yield "activations, logits", f"{_either(low.bytes, high.bytes)} for a micro-batch of {tokens} tokens"
    yield "memory together", f"{_either(*memory.together)} of {in_bytes(setting.machine.memory)}"


def _fate(recipe: "Recipe") -> str:
    """Say what becomes of replies cut off in training."""
    words = {"learn": "learnt from", "skip": "not learnt from", "wrong": "learnt from as wrong"}
    generators, critics = (words[recipe.training_for(role).truncated] for role in ("generators", "critics"))
    if generators == critics or not recipe.team.critics:
        return f"counted and {generators} (training.truncated)"
    return f"counted and {generators} by generators, {critics} by critics (critics.truncated)"


def _either(low: int, high: int) -> str:
    from mada.pipeline.quantities import in_bytes

    return in_bytes(low) if in_bytes(low) == in_bytes(high) else f"{in_bytes(low)} (¼) or {in_bytes(high)} (all)"


def _table(*headers: str, **options: bool) -> "Table":
    from rich.table import Table

    shown = options.get("headers", True)
    return Table(*headers, box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=shown)


def _mark(folder: Path, stage: str) -> str:
    return " (done)" if (folder / "stages" / f"{stage}.json").is_file() else ""


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
