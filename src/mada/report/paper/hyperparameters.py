"""The paper's Tables 6 and 7: how the agents were trained and how they answered, as the run's recipe says.

A recipe is read as it was stored, by this or an older version: settings that it does not have are left out.
"""

from collections.abc import Collection, Mapping
from typing import Any

from mada.report.document import Column, Row, Table, row

Recipe = Mapping[str, Any]
Setting = tuple[str, tuple[str, ...]]
"""What people call a setting, and where the recipe has it."""

TRAINING: tuple[tuple[Setting, ...], ...] = (
    (
        ("batch size", ("training", "batch_size")),
        ("learning rate", ("training", "learning_rate")),
        ("learning rate of generators", ("generators", "learning_rate")),
        ("learning rate of critics", ("critics", "learning_rate")),
        ("warm-up ratio", ("training", "warmup_ratio")),
        ("schedule", ("training", "schedule")),
        ("epochs", ("training", "epochs")),
        ("steps", ("training", "steps")),
        ("steps of generators", ("generators", "steps")),
        ("steps of critics", ("critics", "steps")),
    ),
    (
        ("AdamW weight decay", ("training", "weight_decay")),
        ("AdamW β₁", ("training", "adam_beta1")),
        ("AdamW β₂", ("training", "adam_beta2")),
        ("AdamW ε", ("training", "adam_epsilon")),
    ),
    (
        ("GRPO group size", ("training", "group_size")),
        ("GRPO sampling temperature", ("training", "temperature")),
        ("GRPO β", ("training", "kl_coefficient")),
        ("GRPO ε", ("training", "clip_range")),
        ("advantage of generators", ("generators", "advantage")),
        ("advantage of critics", ("critics", "advantage")),
        ("maximum generated tokens", ("training", "max_new_tokens")),
    ),
    (
        ("LoRA rank", ("lora", "rank")),
        ("LoRA α", ("lora", "alpha")),
        ("LoRA dropout", ("lora", "dropout")),
    ),
)
INFERENCE: tuple[tuple[Setting, ...], ...] = (
    (
        ("temperature", ("inference", "temperature")),
        ("top p", ("inference", "top_p")),
        ("top k", ("inference", "top_k")),
        ("maximum generated tokens", ("inference", "max_new_tokens")),
    ),
    (
        ("number of generators", ("team", "generators")),
        ("number of critics", ("team", "critics")),
        ("number of rounds", ("team", "rounds")),
    ),
    (
        ("seeds per system", ("evaluation", "seeds")),
        ("problems per benchmark, at most", ("evaluation", "problems")),
    ),
)
EPOCHS = ("training", "epochs")
STEPS = (("training", "steps"), ("generators", "steps"), ("critics", "steps"))


def training_table(recipe: Recipe) -> Table | None:
    """Return how agents were trained; None for a run that trains none."""
    # Where everybody has a number of steps, epochs decide nothing.
    common, *roles = (_value(recipe, path) is not None for path in STEPS)
    hidden = [EPOCHS] if common or all(roles) else []
    return _table("training-hyperparameters", "Training hyperparameters", TRAINING, recipe=recipe, hidden=hidden)


def inference_table(recipe: Recipe) -> Table | None:
    """Return how systems answered; None where the recipe does not say."""
    return _table("inference-hyperparameters", "Inference hyperparameters", INFERENCE, recipe=recipe)


def value_text(value: object) -> str:
    """Return a setting as people write it: `16`, `0.7`, `1e-06`, or its name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(
    name: str,
    title: str,
    settings: tuple[tuple[Setting, ...], ...],
    *,
    recipe: Recipe,
    hidden: Collection[tuple[str, ...]] = (),
) -> Table | None:
    groups = tuple(
        found
        for group in settings
        if (found := tuple(_rows(recipe, [setting for setting in group if setting[1] not in hidden])))
    )
    if not groups:
        return None
    notes = ("As the run's recipe has them; what it leaves out or sets to none is not listed.",)
    return Table(name, title, (Column("setting", "text"), Column("value")), groups, notes=notes)


def _rows(recipe: Recipe, settings: list[Setting]) -> list[Row]:
    return [
        row(heading, [value_text(value)]) for heading, path in settings if (value := _value(recipe, path)) is not None
    ]


def _value(recipe: Recipe, path: tuple[str, ...]) -> object:
    """Return a setting, None where the recipe has nothing of it or something with settings of its own."""
    found: object = recipe
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return None if isinstance(found, Mapping | list | tuple) else found
