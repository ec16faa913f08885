"""The paper's Table 3 (what systems cost, and what critics correct) and Tables 6 and 7 (hyperparameters).

The paper leaves out what critics damage; a critic that changes many answers corrects many, so both stand here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import gain_per_parameter
from mada.evaluation.summary import SystemSummary
from mada.report.document import Cell, Column, Row, Table, columns, row
from mada.report.numbers import NOTHING, quoted, share_text
from mada.report.paper.shading import PaperSystems, by_sign, by_size, largest
from mada.text import counted


@dataclass(frozen=True, slots=True)
class CostRow:
    """What a system costs: trained parameters, accuracy gained by 1e12 of them, tokens per question.

    `improves` and `damages` are shares of all questions. What is unknown or does not apply is None.
    """

    title: str
    parameters: int | None
    gain_per_parameter: float | None
    tokens: float
    improves: float | None
    damages: float | None


def costs_of(grid: Grid, systems: PaperSystems) -> Table:
    """Return the paper's Table 3 of an evaluation; gains are over the untrained system of the same shape."""
    accuracies = {one.system.name: one.mean.average.mean for one in systems.summary.systems}

    def costs(one: SystemSummary) -> CostRow:
        parameters, base = one.system.parameters, base_of(grid, one.system)
        gain = None
        if parameters and base is not None:
            gain = gain_per_parameter(accuracies[one.system.name] - accuracies[base.name], parameters)
        return CostRow(one.system.title, parameters, gain, one.tokens, improves=one.improves, damages=one.damages)

    groups = [[costs(one) for one in group] for group in systems.groups()]
    return costs_table(groups, base=costs(systems.base), seeds=len(grid.seeds))


def base_of(grid: Grid, system: PlannedSystem) -> PlannedSystem | None:
    """Return the shown system without training that has the same shape; None without one, or of several models.

    Only above that is accuracy a gain of training, and not of more rounds.
    """
    if system.members:
        return None
    shape = _shape(system)
    found = [one for one in grid.plan.shown_systems if one.parameters == 0 and not one.members and _shape(one) == shape]
    return found[0] if len({one.agents for one in found}) == 1 else None


def _shape(system: PlannedSystem) -> tuple[object, ...]:
    # The mean of single samples depends neither on how many there are nor on what is made of them.
    if system.rounds == 1:
        return (1,)
    # A budget has its own number of seats.
    seats = None if system.matched_to else len(system.generators)
    return system.rounds, seats, len(system.critics), system.rule, system.matched_to


def costs_table(groups: Sequence[Sequence[CostRow]], *, base: CostRow, seeds: int) -> Table:
    """Return what systems cost beside a base's; columns that no system has anything for are left out."""
    rows = [one for group in groups for one in group]
    most = max(one.parameters or 0 for one in rows)
    gains = [one.gain_per_parameter for one in rows if one.gain_per_parameter is not None]
    tokens = [one.tokens for one in rows]

    def trained(one: CostRow) -> Cell:
        if one.parameters is None:
            return Cell(NOTHING)
        return Cell(
            parameters_text(one.parameters), shade=by_size(one.parameters, high=most) if one.parameters else None
        )

    def gained(one: CostRow) -> Cell:
        if one.gain_per_parameter is None:
            return Cell(NOTHING)
        text = f"{round(one.gain_per_parameter) + 0:+,}".replace("-", "−")
        return Cell(text, shade=by_sign(one.gain_per_parameter, scale=largest(gains)))

    def spent(one: CostRow) -> Cell:
        # A single system is neither cheap nor expensive.
        low, high = min(tokens), max(tokens)
        return Cell(f"{one.tokens:,.0f}", shade=by_size(one.tokens, low=low, high=high) if low < high else None)

    def rate(of: Callable[[CostRow], float | None], *, better: int) -> Callable[[CostRow], Cell]:
        own = of(base)

        def above(one: CostRow) -> float:
            value = of(one)
            return 0.0 if value is None or own is None else better * (value - own)

        scale = largest(map(above, rows))
        return lambda one: Cell(share_text(of(one)), shade=by_sign(above(one), scale=scale))

    shown: list[tuple[Column, Callable[[CostRow], Cell]]] = []
    notes = [f"Tokens/question: generated tokens, mean over {counted(seeds, 'seed')}."]
    colours = ["Gray is magnitude alone, without better or worse."]
    if most:
        shown.append((Column("trained parameters"), trained))
    if gains:
        shown.append((Column("gain/parameter"), gained))
        notes.append(
            "Gain/parameter: accuracy (the mean over the last round's answers) above the untrained system of the same "
            "shape (seats, rounds, budget), as a fraction, per trained parameter, times 10¹²."
        )
        colours.append("Gains are green and losses red, the deeper the larger.")
    shown.append((Column("tokens/question"), spent))
    if any(one.improves is not None for one in rows):
        shown.append((Column("improves", group="critics"), rate(lambda one: one.improves, better=1)))
        shown.append((Column("damages", group="critics"), rate(lambda one: one.damages, better=-1)))
        notes.append(
            "Improves, damages: percent of all questions on which the vote of the first round is wrong and the verdict "
            "right, and the other way round."
        )
        if base.improves is not None:
            colours.append(
                f"What critics improve and damage is green where it is better than with {quoted(base.title)} and "
                "red where it is worse, the deeper the larger the difference."
            )
    if len(colours) > 1:
        colours.append("None of this is a test: colours in this table say nothing about significance.")
    return Table(
        "costs-performance",
        "Costs and what critics correct and damage",
        (*columns("system", kind="text"), *(column for column, _ in shown)),
        tuple(tuple(row(one.title, [cell(one) for _, cell in shown]) for one in group) for group in groups),
        (" ".join(notes), " ".join(colours)),
    )


def parameters_text(parameters: int) -> str:
    """Return a number of parameters with three significant digits: `1.10e8`; none are `0`."""
    if parameters == 0:
        return "0"
    digits, exponent = f"{parameters:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


Recipe = Mapping[str, Any]
"""A recipe as it was stored, by this or an older version; settings that it does not have are left out of tables."""
Settings = Mapping[str, str]
"""Keys of a recipe, with the names that people know them by."""

TRAINING: tuple[Settings, ...] = (
    {
        "training.batch_size": "batch size",
        "training.learning_rate": "learning rate",
        "generators.learning_rate": "learning rate of generators",
        "critics.learning_rate": "learning rate of critics",
        "training.warmup_ratio": "warm-up ratio",
        "training.schedule": "schedule",
        "training.epochs": "epochs",
        "training.steps": "steps",
        "generators.steps": "steps of generators",
        "critics.steps": "steps of critics",
    },
    {
        "training.weight_decay": "AdamW weight decay",
        "training.adam_beta1": "AdamW β₁",
        "training.adam_beta2": "AdamW β₂",
        "training.adam_epsilon": "AdamW ε",
    },
    {
        "training.group_size": "GRPO group size",
        "training.temperature": "GRPO sampling temperature",
        "training.kl_coefficient": "GRPO β",
        "training.clip_range": "GRPO ε",
        "generators.advantage": "advantage of generators",
        "critics.advantage": "advantage of critics",
        "training.max_new_tokens": "maximum generated tokens",
    },
    {
        "lora.rank": "LoRA rank",
        "lora.alpha": "LoRA α",
        "lora.dropout": "LoRA dropout",
    },
)
INFERENCE: tuple[Settings, ...] = (
    {
        "inference.temperature": "temperature",
        "inference.top_p": "top p",
        "inference.top_k": "top k",
        "inference.max_new_tokens": "maximum generated tokens",
    },
    {
        "team.generators": "number of generators",
        "team.critics": "number of critics",
        "team.rounds": "number of rounds",
    },
    {
        "evaluation.seeds": "seeds per system",
        "evaluation.problems": "problems per benchmark, at most",
    },
)


def training_table(recipe: Recipe) -> Table | None:
    """Return the paper's Table 6, how agents were trained; None for a run that trains none."""
    # Where everybody has a number of steps, epochs decide nothing.
    common, *roles = (_value(recipe, f"{part}.steps") is not None for part in ("training", "generators", "critics"))
    hidden = ["training.epochs"] if common or all(roles) else []
    return _settings_table("training-hyperparameters", "Training hyperparameters", TRAINING, recipe, hidden)


def inference_table(recipe: Recipe) -> Table | None:
    """Return the paper's Table 7, how systems answered; None where the recipe does not say."""
    return _settings_table("inference-hyperparameters", "Inference hyperparameters", INFERENCE, recipe)


def _settings_table(
    name: str, title: str, settings: Sequence[Settings], recipe: Recipe, hidden: Collection[str] = ()
) -> Table | None:
    groups: list[tuple[Row, ...]] = []
    for group in settings:
        values = {label: _value(recipe, key) for key, label in group.items() if key not in hidden}
        groups.append(tuple(row(label, [value_text(value)]) for label, value in values.items() if value is not None))
    if not any(groups):
        return None
    notes = ("As the run's recipe has them; what it leaves out or sets to none is not listed.",)
    headings = (*columns("setting", kind="text"), *columns("value"))
    return Table(name, title, headings, tuple(filter(None, groups)), notes)


def value_text(value: object) -> str:
    """Return a setting as people write it: `16`, `0.7`, `1e-06`, or its name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(recipe: Recipe, key: str) -> object:
    """Return a setting, None where the recipe has nothing of it or something with settings of its own."""
    found: object = recipe
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if isinstance(found, Mapping | list | tuple) else found
