"""What a recipe would do, before anything is done: sizes, parameters, and estimates of tokens, time and memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from mada.models.adapters import Lora
from mada.models.loading import load_config
from mada.models.memory import ParameterCount, count_parameters
from mada.pipeline.advice import advice, blockers
from mada.pipeline.calls import (
    Calls,
    critic_data_calls,
    evaluation_calls,
    screen_calls,
    subset_size,
    training_calls,
    training_settings,
)
from mada.pipeline.estimates import SHARES, MemoryEstimate, Setting, memory_of, seconds_of
from mada.pipeline.machine import Machine
from mada.pipeline.stages import chosen
from mada.pipeline.throughput import Shape
from mada.recipe import Recipe

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage before it is done. None stands for what cannot be known without reading the data, or has no model."""

    name: str
    does: str
    size: str
    calls: tuple[Calls, ...] | None
    seconds: tuple[float, float] | None
    """If replies fill a quarter of their limit, and if all fill it."""

    @property
    def completions(self) -> int | None:
        """Completions to sample."""
        return None if self.calls is None else sum(one.completions for one in self.calls)

    @property
    def most_tokens(self) -> int | None:
        """Generated tokens if every reply were as long as it may be."""
        return None if self.calls is None else sum(one.completions * one.most for one in self.calls)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole recipe before it is run; memory in bytes."""

    stages: tuple[PlannedStage, ...]
    base_parameters: int
    trainable_per_agent: int
    trainable: int
    setting: Setting
    dtype: str
    memory: MemoryEstimate
    advice: tuple[str, ...]
    blockers: tuple[str, ...]
    """Why nothing could be sampled at all; empty where something can."""


def plan_of(recipe: Recipe) -> Plan:
    """Work out what a recipe asks for; reads a model's configuration and no data."""
    lora = Lora(recipe.lora.rank, recipe.lora.alpha, dropout=recipe.lora.dropout, targets=recipe.lora.targets)
    # Critics speak from round 2 on; a team of one round trains none.
    critics = recipe.team.critics if recipe.team.rounds > 1 else 0
    agents = recipe.team.generators + critics
    count = count_parameters(recipe.model.name, lora=lora, agents=agents, revision=recipe.model.revision)
    setting, dtype = _setting(recipe, count, together=max(recipe.team.generators, critics))
    roles = (False, True) if critics else (False,)
    rollouts = [training_calls(recipe, critics=role)[1][0] for role in roles]
    learning = [training_settings(recipe, critics=role) for role in roles]
    memory = memory_of(setting, zip(rollouts, learning, strict=True))
    return Plan(
        stages=tuple(_stages(recipe, setting)),
        base_parameters=count.base,
        trainable_per_agent=count.per_agent,
        trainable=count.trainable,
        setting=setting,
        dtype=dtype,
        memory=memory,
        advice=tuple(advice(recipe, setting, memory, rollouts=rollouts, settings=learning[0])),
        blockers=tuple(blockers(recipe, setting, rollouts=rollouts)),
    )


def _setting(recipe: Recipe, count: ParameterCount, *, together: int) -> tuple[Setting, str]:
    config = load_config(recipe.model.name, revision=recipe.model.revision).get_text_config()
    machine = Machine.for_model(count.base)
    # As `load_base` does it: on a CPU everything is float32 unless the recipe wants something else.
    saved = str(config.dtype or torch.float32).removeprefix("torch.") if machine.is_gpu else "float32"
    dtype = saved if recipe.model.dtype == "auto" else recipe.model.dtype
    width = _BYTES.get(dtype, 4)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    embedding = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    shape = Shape(
        parameters=count.base - embedding,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        cache_bytes=2 * config.num_hidden_layers * heads * head_size * width,
        width=width,
    )
    setting = Setting(
        machine=machine,
        shape=shape,
        window=recipe.model.window or getattr(config, "max_position_embeddings", 0),
        base_bytes=count.base * width,
        # float32 weights and gradients, and AdamW's two moments
        training_bytes=together * count.per_agent * 16,
        wanted_rows=recipe.engine.rows,
    )
    return setting, dtype


def _stages(recipe: Recipe, setting: Setting) -> Iterator[PlannedStage]:
    for stage in chosen(recipe):
        size, calls = _asked(recipe, stage.name)
        settings = training_settings(recipe, critics=stage.name == "critics")
        seconds = None
        if calls is not None:
            low, high = (seconds_of(calls, setting, settings, share=share) for share in SHARES)
            seconds = low, high
        yield PlannedStage(stage.name, stage.does, size, calls, seconds)


def _asked(recipe: Recipe, stage: str) -> tuple[str, tuple[Calls, ...] | None]:
    if stage in ("generators", "critics"):
        return training_calls(recipe, critics=stage == "critics")
    if stage == "screen":
        return screen_calls(recipe)
    if stage == "critic-data":
        return critic_data_calls(recipe)
    if stage == "evaluate":
        return evaluation_calls(recipe)
    if stage == "split":
        data = recipe.data
        parts = (
            f"{recipe.team.generators} × {subset_size(recipe):,} problems and {data.validation_size:,} for validation"
        )
        most = "at most " if data.subset_size == "all" else ""
        return f"{most}{parts}, from {data.train}", None
    return "a page with every debate, tables, figures", None
