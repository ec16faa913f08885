"""A recipe's plan on the terminal: stages, sizes, parameters, bounds of tokens and memory."""

from pathlib import Path
from typing import TYPE_CHECKING

from mada.cli.terminal import console, safe

if TYPE_CHECKING:
    from mada.pipeline.plan import Plan
    from mada.recipe import Recipe

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def print_plan(plan: "Plan", recipe: "Recipe", *, folder: Path) -> None:
    """Print what a recipe would do in a folder; nothing is done."""
    from rich.table import Table

    screen = console()
    screen.print(f"{safe(recipe.name)} on {safe(recipe.model.name)}, in {safe(str(folder))}; nothing is done yet\n")
    table = Table("stage", "what", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("completions", justify="right")
    table.add_column("tokens, at most", justify="right")
    for stage in plan.stages:
        marks = _mark(folder, stage.name)
        table.add_row(f"{stage.name}{marks}", safe(stage.size), _count(stage.completions), _count(stage.most_tokens))
    screen.print(table)
    agents = plan.trainable // plan.trainable_per_agent
    facts = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("trainable parameters", f"{plan.trainable_per_agent:,} × {agents} agents = {plan.trainable:,}")
    facts.add_row("base", f"{plan.base_parameters:,} parameters, {in_bytes(plan.base_bytes)}")
    facts.add_row("adapters, gradients, optimizer", in_bytes(plan.training_bytes))
    rows = recipe.engine.rows
    cache = in_bytes(plan.cache_bytes_per_row)
    whole = f", {in_bytes(plan.cache_bytes_per_row * rows)} for {rows} rows" if rows else ""
    facts.add_row("keys and values", f"{cache} for a completion that fills the window{whole}")
    screen.print()
    screen.print(facts)


def in_bytes(count: int) -> str:
    """Write a number of bytes with three digits that count."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def _mark(folder: Path, stage: str) -> str:
    return " (done)" if (folder / "stages" / f"{stage}.json").is_file() else ""


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
