"""What a recipe asks for, before anything runs: completions by stage, parameters, and memory from the model's shape.

How long replies turn out to be decides the time, and no recipe knows that. `mada.pipeline.measure` runs a few steps on
the machine at hand and extrapolates; memory is what it takes if all replies reach their limit.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedConfig

from mada.evaluation.plan import PlannedSystem
from mada.learning.learner import CPU_MICRO_BATCH_TOKENS, CUDA_MICRO_BATCH_TOKENS
from mada.learning.rollouts import steps_to_take
from mada.models.adapters import Lora
from mada.models.loading import load_config
from mada.models.memory import (
    DEFAULT_ROWS,
    GIB,
    MAX_CPU_MEMORY,
    cache_bytes_per_token,
    cache_share,
    count_parameters,
)
from mada.pipeline.evaluations import systems_of_run
from mada.pipeline.split import load_training_problems
from mada.pipeline.stages import stage_names
from mada.problems.known import KNOWN_SETS, known_name
from mada.recipe import Recipe
from mada.text import in_bytes

QUESTION_TOKENS = 1024
"""Tokens of the longest question that rows are expected to need room for."""
SMALL_MODEL = 100_000_000
"""Up to so many parameters a recipe is meant for a CPU where there is no GPU."""
ASSUMED_GPU_BYTES = 139 * GIB
BYTES_PER_TRAINED_PARAMETER = 16
"""float32 weights and gradients, and AdamW's two moments."""
ACTIVATIONS, RECOMPUTED_ACTIVATIONS = 4.32, 0.32
"""Bytes per token of a micro-batch, as multiples of layers × (2 × hidden + MLP) × bytes of a number. Two peaks measured
on an H200 (48 and 7 GiB for 16,384 tokens) and one on a CPU (455 MiB for 6,144) give 4.31, 0.32 and 4.33."""
_WINDOW_STEP = 1024

TrainedRole = Literal["generators", "critics"]


@dataclass(frozen=True, slots=True)
class Workload:
    """Completions of one kind that a stage needs."""

    completions: int
    max_tokens: int
    at_once: int = 0
    """How many a step of training wants at the same time."""
    group_size: int = 1
    """How many continue the same prompt."""
    responses: int = 0
    """Responses of other agents in the prompt, and the tokens after which each was cut off."""
    response_tokens: int = 0
    learns: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """The device that memory is planned for."""

    name: str
    kind: str
    memory: int

    @classmethod
    def for_model(cls, parameters: int) -> "Device":
        """Return the GPU or CPU here; a model too large for a CPU is planned for a GPU of 139 GiB."""
        if torch.cuda.is_available():
            memory = torch.cuda.get_device_properties(0).total_memory
            return cls(f"the {torch.cuda.get_device_name()} here", "cuda", memory)
        if parameters > SMALL_MODEL:
            return cls("a GPU of 139 GiB (there is none here)", "cuda", ASSUMED_GPU_BYTES)
        return cls("the CPU here", "cpu", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held at the same time by the training that needs most, if all replies reach their limit."""

    base: int
    training: int
    """Adapters of one role, their gradients and the optimizer's state."""
    rows: int
    row_tokens: int
    cache: int
    micro_batch_tokens: int
    micro_batch: int

    @property
    def total(self) -> int:
        """All of it together: the engine keeps its cache while the learner works."""
        return self.base + self.training + self.cache + self.micro_batch


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage before it runs; `workloads` is None where nothing is sampled or the data's size is unknown."""

    name: str
    size: str
    workloads: tuple[Workload, ...] | None

    @property
    def completions(self) -> int | None:
        """Completions to sample."""
        return None if self.workloads is None else sum(one.completions for one in self.workloads)

    @property
    def most_tokens(self) -> int | None:
        """Generated tokens if every reply reached its limit."""
        return None if self.workloads is None else sum(one.completions * one.max_tokens for one in self.workloads)


@dataclass(frozen=True, slots=True)
class Plan:
    """A recipe before it runs."""

    stages: tuple[PlannedStage, ...]
    base_parameters: int
    trainable_per_agent: int
    trainable: int
    window: int
    dtype: str
    device: Device
    memory: Memory
    warnings: tuple[str, ...]
    blockers: tuple[str, ...]
    """Why nothing could be sampled at all; empty where something can."""


def plan_of(recipe: Recipe) -> Plan:
    """Work out what a recipe asks for from its fields and the model's configuration, without weights."""
    shape = recipe.lora
    lora = Lora(shape.rank, shape.alpha, dropout=shape.dropout, targets=shape.targets)
    critics = recipe.team.critics if recipe.team.rounds > 1 else 0
    agents = recipe.team.generators + critics
    count = count_parameters(recipe.model.name, lora=lora, agents=agents, revision=recipe.model.revision)
    config = load_config(recipe.model.name, revision=recipe.model.revision).get_text_config()
    device = Device.for_model(count.base)
    # As `load_base` does it: on a CPU everything is float32 unless the recipe says otherwise.
    saved = str(config.dtype or "float32").removeprefix("torch.") if device.kind == "cuda" else "float32"
    dtype: torch.dtype = getattr(torch, saved if recipe.model.dtype == "auto" else recipe.model.dtype)
    window = recipe.model.window or getattr(config, "max_position_embeddings", 0)
    planner = _Planner(
        recipe,
        config,
        device,
        window=window,
        dtype=dtype,
        base_bytes=count.base * dtype.itemsize,
        training_bytes=max(recipe.team.generators, critics) * count.per_agent * BYTES_PER_TRAINED_PARAMETER,
    )
    roles: tuple[TrainedRole, ...] = ("generators", "critics") if critics else ("generators",)
    rollouts: dict[TrainedRole, Workload] = {role: training_work(recipe, role)[1][0] for role in roles}
    memory = max((planner.memory(role, work) for role, work in rollouts.items()), key=lambda one: one.total)
    blockers = planner.blockers(rollouts)
    return Plan(
        stages=tuple(PlannedStage(name, *_work_of(recipe, name)) for name in stage_names(recipe)),
        base_parameters=count.base,
        trainable_per_agent=count.per_agent,
        trainable=count.trainable,
        window=window,
        dtype=str(dtype).removeprefix("torch."),
        device=device,
        memory=memory,
        warnings=blockers if planner.base_bytes > device.memory else tuple(planner.warnings(rollouts, memory)),
        blockers=blockers,
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    """Memory of a recipe's trainings on a device, and what to change where it does not fit."""

    recipe: Recipe
    config: PreTrainedConfig
    device: Device
    window: int
    dtype: torch.dtype
    base_bytes: int
    training_bytes: int

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's keys and values."""
        return max(1, cache_bytes_per_token(self.config, dtype=self.dtype))

    @property
    def cache_budget(self) -> int:
        """Bytes that an engine takes for keys and values beside the learner."""
        # Gradients and optimizer state are not there yet when the engine starts.
        free = max(0, self.device.memory - self.base_bytes - self.training_bytes // 4)
        free = free if self.device.kind == "cuda" else min(free, MAX_CPU_MEMORY)
        return int(cache_share(self.device.kind, alone=False) * free)

    def row_tokens(self, work: Workload) -> int:
        """Return the tokens that a row needs room for: the longest prompt and the longest reply."""
        return min(self.window, QUESTION_TOKENS + work.responses * work.response_tokens + work.max_tokens)

    def rows(self, work: Workload) -> int:
        """Return how many rows fit, of those that the engine would have."""
        wanted = self.recipe.engine.rows or DEFAULT_ROWS[self.device.kind]
        return min(wanted, self.cache_budget // (self.row_tokens(work) * self.token_bytes))

    def wanted_rows(self, work: Workload) -> int:
        """Return how many rows a step would use."""
        return min(work.at_once, self.recipe.engine.rows or work.at_once)

    def memory(self, role: TrainedRole, work: Workload) -> Memory:
        settings = self.recipe.training_for(role)
        limit = CUDA_MICRO_BATCH_TOKENS if self.device.kind == "cuda" else CPU_MICRO_BATCH_TOKENS
        longest, rows = self.row_tokens(work), self.rows(work)
        # A sequence longer than the limit has a micro-batch to itself.
        tokens = min(max(settings.micro_batch_tokens or limit, longest), work.at_once * longest)
        config = self.config
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        token_bytes = config.num_hidden_layers * (2 * config.hidden_size + inner) * self.dtype.itemsize
        factor = RECOMPUTED_ACTIVATIONS if settings.gradient_checkpointing else ACTIVATIONS
        return Memory(
            base=self.base_bytes,
            training=self.training_bytes,
            rows=rows,
            row_tokens=longest,
            cache=rows * longest * self.token_bytes,
            micro_batch_tokens=tokens,
            micro_batch=round(tokens * token_bytes * factor),
        )

    def blockers(self, rollouts: Mapping[TrainedRole, Workload]) -> tuple[str, ...]:
        """Return why nothing could be sampled: the base does not fit, or not one row beside it."""
        there = self.device.memory
        if self.base_bytes > there:
            takes = f"the base alone takes {in_bytes(self.base_bytes)} of {in_bytes(there)}"
            return (f"{takes}; use a smaller model.name or a larger device",)
        return tuple(self.few_rows(role, work) for role, work in rollouts.items() if not self.rows(work))

    def warnings(self, rollouts: Mapping[TrainedRole, Workload], memory: Memory) -> Iterator[str]:
        """Yield what would be slow or may not fit, with what to change."""
        for role, work in rollouts.items():
            if self.rows(work) < self.wanted_rows(work):
                yield self.few_rows(role, work)
        if memory.total > self.device.memory:
            rest = memory.total - memory.micro_batch
            yield (
                f"training may not fit: a micro-batch of {memory.micro_batch_tokens:,} tokens takes "
                f"{in_bytes(memory.micro_batch)} beside {in_bytes(rest)} of the rest. When memory runs out the learner "
                "halves micro-batches, then computes activations again; to begin with that, lower "
                "training.micro_batch_tokens or set training.gradient_checkpointing = true, or lower model.window"
            )

    def few_rows(self, role: TrainedRole, work: Workload) -> str:
        wanted = self.wanted_rows(work)
        window = self.cache_budget // (wanted * self.token_bytes) // _WINDOW_STEP * _WINDOW_STEP
        replies = max(self.recipe.inference.max_new_tokens, self.recipe.training.max_new_tokens)
        shorter = "" if replies < window else f" and max_new_tokens (now {replies:,}) below it"
        change = f"set model.window = {window}{shorter}" if window else "use a smaller model.name or a larger device"
        return (
            f"{self.rows(work)} rows of {self.row_tokens(work):,} tokens fit, and a step of the {role}' training "
            f"samples {wanted} at once; {change}, or use vLLM, whose cache has pages"
        )


def subset_size(recipe: Recipe) -> int:
    """Return the problems in an agent's subset; with "all", at most so many."""
    data = recipe.data
    if data.subset_size != "all":
        return data.subset_size
    name = known_name(data.train)
    rows = KNOWN_SETS[name].rows if name else len(load_training_problems(recipe, skipped=[]))
    return max(1, (rows - data.validation_size) // recipe.team.generators)


def training_work(recipe: Recipe, role: TrainedRole) -> tuple[str, tuple[Workload, Workload]]:
    """Return the size of a role's training in words, its rollouts and its validations."""
    critics = role == "critics"
    agents = recipe.team.critics if critics else recipe.team.generators
    settings = recipe.training_for(role)
    problems = subset_size(recipe)
    if critics:
        problems = recipe.team.generators * problems // agents
    # Only the number of prompts matters for the number of steps.
    steps = steps_to_take(settings, {"any": [None] * problems})  # pyright: ignore[reportArgumentType]
    validations = 1 + steps // settings.validate_every + bool(steps % settings.validate_every)
    size = f"{agents} agents × {steps:,} steps × {settings.batch_size} completions, {validations} validations"
    responses, response_tokens = (recipe.team.generators, recipe.inference.max_new_tokens) if critics else (0, 0)
    rollouts = Workload(
        completions=agents * steps * settings.batch_size,
        max_tokens=settings.max_new_tokens,
        at_once=agents * settings.batch_size,
        group_size=settings.group_size,
        responses=responses,
        response_tokens=response_tokens,
        learns=True,
    )
    validation = Workload(
        completions=agents * validations * recipe.data.validation_size,
        max_tokens=settings.max_new_tokens,
        responses=responses,
        response_tokens=response_tokens,
    )
    return size, (rollouts, validation)


def _work_of(recipe: Recipe, stage: str) -> tuple[str, tuple[Workload, ...] | None]:
    generators, data = recipe.team.generators, recipe.data
    match stage:
        case "generators" | "critics":
            return training_work(recipe, stage)
        case "screen":
            problems = generators * subset_size(recipe)
            completions, limit = problems * data.screen, recipe.training_for("generators").max_new_tokens
            work = Workload(completions, limit, group_size=data.screen)
            return f"{problems:,} problems × {data.screen} answers of the bare model", (work,)
        case "critic-data":
            problems = generators * subset_size(recipe) + data.validation_size
            work = Workload(problems * generators, recipe.inference.max_new_tokens)
            return f"{problems:,} problems × {generators} generators", (work,)
        case "evaluate":
            return _evaluation_work(recipe)
        case "split":
            most = "at most " if data.subset_size == "all" else ""
            parts = f"{generators} × {subset_size(recipe):,} problems and {data.validation_size:,} for validation"
            return f"{most}{parts}, from {data.train}", None
        case _:
            return "a page with every debate, tables, figures", None


def _evaluation_work(recipe: Recipe) -> tuple[str, tuple[Workload, ...] | None]:
    evaluation, limit = recipe.evaluation, recipe.inference.max_new_tokens
    answers, later = _completions_per_question(recipe)
    known = [known_name(name) for name in evaluation.benchmarks]
    size = f"{len(known)} benchmarks × {evaluation.seeds} seeds × {answers + later} completions a question"
    if None in known and evaluation.problems is None:
        return size, None
    rows = [KNOWN_SETS[name].rows if name else evaluation.problems or 0 for name in known]
    questions = sum(min(count, evaluation.problems or count) for count in rows) * evaluation.seeds

    works = [Workload(questions * answers, limit)]
    if later:
        works.append(Workload(questions * later, limit, responses=recipe.team.generators, response_tokens=limit))
    return size, tuple(works)


def _completions_per_question(recipe: Recipe) -> tuple[int, int]:
    """Count the first answers and the later turns that the systems need between them.

    A matched system is counted with as many calls as what it is matched to; its real size depends on reply lengths.
    """
    systems = [system for system in systems_of_run(recipe) if system.name in recipe.evaluation.systems]
    calls = {system.name: len(system.generators) + _later_turns(system) for system in systems}
    answers: set[tuple[str, int]] = set()
    debates: dict[tuple[object, ...], int] = {}
    for system in systems:
        matched = system.matched_to
        sized = system.with_generators(calls[matched] - _later_turns(system)) if matched else system
        draws = sized.draws or tuple(range(len(sized.generators)))
        answers |= set(zip(sized.generators, draws, strict=True))
        debates[sized.generators, draws, sized.critics] = _later_turns(sized)
    return len(answers), sum(debates.values())


def _later_turns(system: PlannedSystem) -> int:
    return (system.rounds - 1) * len(system.critics)
