"""The one place that turns a recipe, a run, a model name or an evaluation file into loaded agents on an engine.

`load_model` is for debates (`Team`) and evaluations: a model and trained adapters on the engine that `[engine]` asks
for. `load_adapted_model` is for training stages: a base in this process with adapters that a learner can write.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from pydantic import ValidationError

from mada.debate.prompts import Prompts
from mada.debate.transcript import Role
from mada.errors import AdapterError, EngineError, MadaError, ModelError, RunError
from mada.models.adapters import AdapterStack, Lora, count_adapter_parameters, is_blank, load_adapter, read_lora
from mada.models.adapters.peft_files import CONFIG
from mada.models.chat import chat_prompt, prompt_ids
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Engine, PacedEngine, Sampling
from mada.models.engines.background import BackgroundEngine
from mada.models.engines.starting import Log, choose_model_engine, connect, start_local, start_vllm
from mada.models.forward import set_threads
from mada.models.loading import Base, ChatModel, first_sentence, load_base, load_chat
from mada.recipe import Recipe
from mada.recipe.schema import EngineSection, ModelSection
from mada.runs import StoredRun
from mada.runs.manifest import FILE as MANIFEST

ADAPTERS = "adapters"
"""The folder of a run that holds its trained adapters, one folder per agent."""
MAX_NEW_TOKENS = 32768  # the paper's (I3)
_ROW_STEP = 128
"""The engine of a training stage has rows of a multiple of so many tokens."""


# --- names of agents, and where their adapters are


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The model and adapter of an agent; a judge is asked with the judge's prompt.

    `parameters` is how many parameters its training changed; only needed for models without an adapter that were
    trained as a whole.
    """

    model: ModelSection
    adapter: Path | None = None
    is_judge: bool = False
    parameters: int | None = None

    @property
    def identity(self) -> tuple[str, str | None, Path | None]:
        """What was trained, under whatever name and with whatever window."""
        return self.model.name, self.model.revision, self.adapter

    @property
    def trained_parameters(self) -> int:
        """How many parameters training changed: those given, or else all of the adapter's, unless it is blank."""
        if self.parameters is not None:
            return self.parameters
        return 0 if self.adapter is None or is_blank(self.adapter) else count_adapter_parameters(self.adapter)


def agent_names(role: Role, count: int) -> tuple[str, ...]:
    """Return the names of a role's agents, which are also those of their adapters: generator-1, generator-2 …"""
    return tuple(f"{role}-{number}" for number in range(1, count + 1))


def team_names(recipe: Recipe) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a team's generators and critics; a team of one round has no critics."""
    critics = recipe.team.critics if recipe.team.rounds > 1 else 0
    return agent_names("generator", recipe.team.generators), agent_names("critic", critics)


def recipe_of(run: StoredRun) -> Recipe:
    """Return the recipe of a run; raise RunError if it has none or one that this version cannot read."""
    if "agents" in run.manifest.recipe or "team" not in run.manifest.recipe:
        raise RunError(f"{run.folder} holds an evaluation and no team; give the folder of a run that `mada run` made")
    try:
        return Recipe.model_validate_json(json.dumps(run.manifest.recipe))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"{run.folder}: this mada cannot read the run's recipe ({where}: {first['msg']}); "
            "use the version that made it, which its manifest names"
        ) from None


def adapter_folders(run: StoredRun, names: Sequence[str]) -> dict[str, Path]:
    """Return the folders of some agents' trained adapters; raise RunError if one is missing or damaged."""
    folders = {name: run.path(ADAPTERS, name) for name in names}
    missing = [name for name, folder in folders.items() if not (folder / CONFIG).is_file()]
    if missing:
        raise RunError(
            f"{run.folder} has no adapter for {', '.join(missing)} yet; "
            f"`mada run --run {run.folder}` goes on with its training"
        )
    for name in names:
        run.check_results(under=f"{ADAPTERS}/{name}/")
    return folders


def find_adapters(names: Sequence[str]) -> dict[str, Path]:
    """Return the folders of adapters by their names; raise AdapterError that lists all that are not to be had."""
    folders: dict[str, Path] = {}
    mistakes: list[str] = []
    # Those of runs first: the Hub need not be asked, and may take a while, when one of them is missing.
    for of_runs in (True, False):
        for name in dict.fromkeys(names):
            if (Path(name).parent.name == ADAPTERS) is of_runs:
                try:
                    folders[name] = _adapter_folder(name)
                except MadaError as error:
                    mistakes.append(str(error))
        if mistakes:
            raise AdapterError("\n  ".join(dict.fromkeys(mistakes)))
    return folders


def _adapter_folder(name: str) -> Path:
    """Return the folder of an adapter: a folder here, or one that is downloaded from the Hub.

    On the Hub an adapter may be in a folder of its repository: `owner/name/checkpoint-2000`. A name such as
    `runs/mine/adapters/generator-1` is never a Hub id: it is refused if the run has no such adapter.
    """
    folder = Path(name).expanduser()
    if folder.parent.name == ADAPTERS and not (folder / CONFIG).is_file():
        run = folder.parent.parent
        if not (run / MANIFEST).is_file():
            raise AdapterError(f"{run}: no such run; train it with `mada run`, or give the folder of its adapters")
        stored = StoredRun.read(run)
        generators, critics = team_names(recipe_of(stored))
        if folder.name not in (*generators, *critics):
            raise AdapterError(f"{run} has no {folder.name}; its agents are {', '.join((*generators, *critics))}")
        adapter_folders(stored, [folder.name])
    if folder.exists():
        return folder
    from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HFValidationError

    repository, inside = "/".join(name.split("/")[:2]), name.split("/")[2:]
    try:
        downloaded = snapshot_download(repository, allow_patterns=["/".join([*inside, "adapter_*"])])
    except (OSError, ValueError, HFValidationError) as error:
        raise AdapterError(
            f"{name}: no such folder, and the Hub does not give it ({first_sentence(error)}); check the name, "
            "or download it where there is a network and give the folder"
        ) from None
    return Path(downloaded, *inside)


# --- how agents answer


@dataclass(frozen=True, slots=True)
class DebateSettings:
    """What all agents of a team have in common; the defaults are the paper's (I3).

    `max_new_tokens` is where a reply is cut off: `None` is the paper's, but at most half of the window, so that there
    is room for other agents' replies.
    """

    rounds: int = 2
    prompts: Prompts = field(default_factory=Prompts)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    max_new_tokens: int | None = None

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """Return a recipe's settings."""
        prompts = Prompts(**recipe.prompts.model_dump())
        return cls(rounds=recipe.team.rounds, prompts=prompts, **recipe.inference.model_dump())

    def sampling(self, chat: ChatModel, *, window: int) -> Sampling:
        """Return how agents on a model sample."""
        most = min(MAX_NEW_TOKENS, max(1, window // 2))
        return Sampling(
            max_tokens=most if self.max_new_tokens is None else self.max_new_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            stop_tokens=chat.stop_tokens,
        )

    def agent(
        self,
        name: str,
        adapter: str | None,
        *,
        engine: Engine,
        chat: ChatModel,
        window: int,
        is_judge: bool = False,
    ) -> EngineAgent:
        """Return an agent that answers with an adapter of an engine, or with the bare base."""
        return EngineAgent(
            name,
            adapter,
            engine=engine,
            tokenizer=chat.tokenizer,
            prompts=self.prompts.for_judge if is_judge else self.prompts,
            sampling=self.sampling(chat, window=window),
            window=window,
        )


def window_of(model: ModelSection, chat: ChatModel) -> int:
    """Return the longest row, prompt and reply, that a model may have."""
    window = model.window or chat.window
    if not window:
        raise ModelError(f"{model.name} does not say how long its window is; set model.window, or give --window")
    return int(window)


def weights_key(model: ModelSection) -> str:
    """Return the name under which a run's manifest keeps the digest of a model's weights."""
    return f"weights of {model.name}{f'@{model.revision}' if model.revision else ''}"


# --- loaded models


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on an engine, with adapters under the names that agents ask for.

    `base` is `None` where vLLM or a server holds the weights. `precision` says how the model computes, `device` where;
    `accelerators` is 0 on a CPU and on a server.
    """

    chat: ChatModel
    engine: PacedEngine
    window: int
    precision: str
    device: str
    accelerators: int
    base: Base | None = None


async def load_model(
    model: ModelSection,
    adapters: Mapping[str, Path],
    *,
    engine: EngineSection,
    alone: bool,
    log: Log,
    device: str = "auto",
    any_loop: bool = False,
) -> LoadedModel:
    """Load a model with trained adapters, by the names that agents ask for, on the engine that `[engine]` asks for.

    `alone` says that nothing else needs the device's memory; `any_loop` that the engine must work in event loops other
    than the one that runs now. A `device` other than auto is for the local engine.
    """
    for folder in adapters.values():
        _check_run_adapter(folder)
    chat = load_chat(model.name, revision=model.revision)
    window = window_of(model, chat)
    choice = choose_model_engine(engine, model, window=window, alone=alone, log=log)
    if choice.kind == "openai":
        server = await connect(engine, model, chat=chat, adapters=adapters)
        return LoadedModel(chat, server, window, f"{model.dtype} by openai", f"server {engine.url}", 0)
    if choice.kind == "vllm":

        async def start() -> PacedEngine:
            return await start_vllm(engine, model, window=window, adapters=adapters)

        vllm = BackgroundEngine(start) if any_loop else await start()
        return LoadedModel(chat, vllm, window, f"{model.dtype} by vllm", torch.cuda.get_device_name(), 1)
    base = load_base(model.name, revision=model.revision, dtype=model.dtype, device=device)
    set_threads(base.model, engine.threads)
    stack = stack_of(base, adapters) if adapters else None
    local = start_local(engine, base.model, stack, window=window, alone=alone, log=log)
    on_gpu = base.model.device.type == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else "cpu"
    return LoadedModel(chat, local, window, str(base.model.dtype), name, int(on_gpu), base)


def _check_run_adapter(folder: Path) -> None:
    """Refuse an adapter of a run that is not what its training wrote."""
    adapters = folder.absolute().parent
    if adapters.name == ADAPTERS and (adapters.parent / MANIFEST).is_file():
        StoredRun.read(adapters.parent).check_results(under=f"{ADAPTERS}/{folder.name}/")


def stack_of(base: Base, adapters: Mapping[str, Path]) -> AdapterStack:
    """Put trained adapters from folders on a base, each under its name.

    Their shapes may differ: the stack has the largest rank, on every layer that one of them adapts.
    """
    shapes = [read_lora(folder) for folder in adapters.values()]
    named = {target for shape in shapes if shape.targets != "all-linear" for target in shape.targets}
    any_all = any(shape.targets == "all-linear" for shape in shapes)
    rank = max(shape.rank for shape in shapes)
    shape = Lora(rank=rank, dropout=0.0, targets="all-linear" if any_all else tuple(sorted(named)))
    stack = AdapterStack.attach(base.model, tuple(adapters), shape)
    for name, folder in adapters.items():
        load_adapter(stack, name, folder)
    return stack


@dataclass(frozen=True, slots=True)
class AdaptedModel:
    """A base in this process with one adapter per agent that a learner can write, and the window of its rows."""

    base: Base
    stack: AdapterStack
    chat: ChatModel
    window: int
    model: ModelSection
    section: EngineSection

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the prompt tokens of a user message."""
        return prompt_ids(chat_prompt(text, self.chat.tokenizer), self.chat.tokenizer)

    @asynccontextmanager
    async def engine(self, *, longest: int, alone: bool, log: Log) -> AsyncGenerator[PacedEngine]:
        """Start an engine with room for `longest` tokens of prompt and reply in a row; close it after the block.

        Rows of the whole window would take many times the memory. More rows fit if the engine is `alone`, without a
        learner.
        """
        window = min(self.window, -(-longest // _ROW_STEP) * _ROW_STEP)
        choice = choose_model_engine(self.section, self.model, window=window, alone=alone, log=log)
        if choice.kind == "openai":
            raise EngineError(
                "training samples from adapters that change with every step, which a server cannot; use "
                "engine.kind=auto for the training, and a server for `mada evaluate` and `mada debate`"
            )
        engine: PacedEngine
        if choice.kind == "local":
            engine = start_local(self.section, self.base.model, self.stack, window=window, alone=alone, log=log)
        else:
            engine = await start_vllm(self.section, self.model, window=window, stack=self.stack)
        try:
            yield engine
        finally:
            await engine.close()


def load_adapted_model(
    recipe: Recipe, agents: Sequence[str], *, seed: int, adapters: Mapping[str, Path] | None = None
) -> AdaptedModel:
    """Load a recipe's base with blank adapters for these agents, or with trained ones from folders."""
    model, lora = recipe.model, recipe.lora
    base = load_base(model.name, revision=model.revision, dtype=model.dtype)
    set_threads(base.model, recipe.engine.threads)
    shape = Lora(lora.rank, lora.alpha, dropout=lora.dropout, targets=lora.targets)
    stack = AdapterStack.attach(base.model, agents, shape, seed=seed)
    for name, folder in (adapters or {}).items():
        load_adapter(stack, name, folder)
    chat = ChatModel.of(base)
    return AdaptedModel(base, stack, chat, window_of(model, chat), model, recipe.engine)
