"""What a recipe would do, before anything is done: sizes, parameters, and bounds of tokens and memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from mada.evaluation.plan import PlannedSystem
from mada.learning.prompts import steps_to_take
from mada.learning.settings import TrainingSettings
from mada.models.adapters import Lora
from mada.models.loading import load_config
from mada.models.parameters import count_parameters
from mada.pipeline.evaluate import systems_of
from mada.pipeline.stages import stages_of
from mada.problems.known import KNOWN_SETS, known_name
from mada.recipe import Recipe

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_Size = tuple[str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage before it is done. None stands for what cannot be known without reading the data."""

    name: str
    does: str
    size: str
    completions: int | None
    most_tokens: int | None
    """Generated tokens if every reply were as long as it may be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole recipe before it is run; memory in bytes."""

    stages: tuple[PlannedStage, ...]
    base_parameters: int
    trainable_per_agent: int
    trainable: int
    base_bytes: int
    training_bytes: int
    """Adapters of one role, their gradients and the optimizer's state."""
    cache_bytes_per_row: int
    """Keys and values of one completion that is as long as the window."""


def plan_of(recipe: Recipe) -> Plan:
    """Work out what a recipe asks for; reads a model's configuration and no data."""
    lora = Lora(recipe.lora.rank, recipe.lora.alpha, dropout=recipe.lora.dropout, targets=recipe.lora.targets)
    # Critics speak from round 2 on; a team of one round trains none.
    critics = recipe.team.critics if recipe.team.rounds > 1 else 0
    agents = recipe.team.generators + critics
    count = count_parameters(recipe.model.name, lora=lora, agents=agents, revision=recipe.model.revision)
    config = load_config(recipe.model.name, revision=recipe.model.revision).get_text_config()
    # As `load_base` does it: without a GPU everything is float32 unless the recipe wants something else.
    saved = str(config.dtype).removeprefix("torch.") if torch.cuda.is_available() else "float32"
    width = _BYTES.get(saved if recipe.model.dtype == "auto" else recipe.model.dtype, 4)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    window = recipe.model.window or getattr(config, "max_position_embeddings", 0)
    together = max(recipe.team.generators, critics)
    return Plan(
        stages=tuple(_stages(recipe)),
        base_parameters=count.base,
        trainable_per_agent=count.per_agent,
        trainable=count.trainable,
        base_bytes=count.base * width,
        # float32 weights and gradients, and AdamW's two moments
        training_bytes=together * count.per_agent * 16,
        cache_bytes_per_row=2 * config.num_hidden_layers * heads * head_size * window * width,
    )


def _stages(recipe: Recipe) -> Iterator[PlannedStage]:
    sizes: dict[str, Callable[[Recipe], _Size]] = {
        "split": _split,
        "generators": partial(_training, critics=False),
        "critic-data": _critic_data,
        "critics": partial(_training, critics=True),
        "evaluate": _evaluate,
        "report": lambda _: ("a page with every debate, tables, figures", None, None),
    }
    for stage in stages_of(recipe):
        size, completions, most = sizes[stage.name](recipe)
        yield PlannedStage(stage.name, stage.does, size, completions, most)


def _split(recipe: Recipe) -> _Size:
    data = recipe.data
    return (
        f"{recipe.team.generators} × {data.subset_size:,} problems and {data.validation_size:,} for validation, "
        f"from {data.train}",
        None,
        None,
    )


def _training(recipe: Recipe, *, critics: bool) -> _Size:
    agents = recipe.team.critics if critics else recipe.team.generators
    settings = TrainingSettings(**recipe.training_for("critics" if critics else "generators").model_dump())
    problems = recipe.team.generators * recipe.data.subset_size // agents if critics else recipe.data.subset_size
    # Only the number of prompts matters for the number of steps.
    steps = steps_to_take(settings, {"any": [None] * problems})  # pyright: ignore[reportArgumentType]
    looks = 1 + steps // settings.validate_every + bool(steps % settings.validate_every)
    completions = agents * (steps * settings.batch_size + looks * recipe.data.validation_size)
    size = f"{agents} agents × {steps:,} steps × {settings.batch_size} completions, {looks} looks at the validation set"
    return size, completions, completions * settings.max_new_tokens


def _critic_data(recipe: Recipe) -> _Size:
    problems = recipe.team.generators * recipe.data.subset_size + recipe.data.validation_size
    completions = problems * recipe.team.generators
    size = f"{problems:,} problems × {recipe.team.generators} generators"
    return size, completions, completions * recipe.inference.max_new_tokens


def _completions_a_question(recipe: Recipe) -> int:
    """Count what the systems need between them; a matched one is taken to have as many calls as what it is matched to.

    How many it really has depends on how long replies turn out to be.
    """
    chosen = [system for system in systems_of(recipe) if system.name in recipe.evaluation.systems]
    calls = {system.name: len(system.generators) + _later(system) for system in chosen}
    answers: set[tuple[str, int]] = set()
    debates: dict[tuple[object, ...], int] = {}
    for system in chosen:
        sized = system.with_generators(calls[system.matched_to] - _later(system)) if system.matched_to else system
        draws = sized.draws or tuple(range(len(sized.generators)))
        answers |= set(zip(sized.generators, draws, strict=True))
        debates[sized.generators, draws, sized.critics] = _later(sized)
    return len(answers) + sum(debates.values())


def _later(system: PlannedSystem) -> int:
    return (system.rounds - 1) * len(system.critics)


def _evaluate(recipe: Recipe) -> _Size:
    evaluation = recipe.evaluation
    each = _completions_a_question(recipe)
    known = [known_name(name) for name in evaluation.benchmarks]
    size = f"{len(known)} benchmarks × {evaluation.seeds} seeds × {each} completions a question"
    if None in known and evaluation.problems is None:
        return size, None, None
    rows = [KNOWN_SETS[name].rows if name else evaluation.problems or 0 for name in known]
    problems = sum(min(count, evaluation.problems or count) for count in rows)
    completions = problems * evaluation.seeds * each
    return size, completions, completions * recipe.inference.max_new_tokens
