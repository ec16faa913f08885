"""Who can be seated in an evaluation: agents by name, each a model with an adapter or without, loaded when needed.

Agents on one model share its weights, a stack of adapters and an engine. What they say goes through the run's samples,
so nothing is sampled twice.
"""

import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mada.digest import digest_of
from mada.errors import AdapterError
from mada.evaluation.effort import Reading
from mada.evaluation.prompt_price import measure_prompt_price
from mada.evaluation.samples import SampleStore
from mada.evaluation.sharing import SharingEngine
from mada.models.adapters import count_adapter_parameters, is_blank
from mada.models.adapters.peft_files import CONFIG, digest_of_adapter
from mada.models.engines import PacedEngine
from mada.models.engines.local import LocalEngine
from mada.models.engines.openai import OpenAIEngine
from mada.models.forward import choose_threads
from mada.models.loading import ChatModel, digest_of_model, first_sentence, load_base, load_chat
from mada.pipeline.engines import Log, chosen_engine, ignored, local_engine, start_engine, weights_of
from mada.recipe.sections import EngineSection, ModelSection
from mada.run import StoredRun
from mada.run.manifest import FILE as MANIFEST
from mada.team.agent import EngineAgent
from mada.team.encoding import chat_prompt, prompt_ids
from mada.team.seats import ADAPTERS, recipe_of, stack_of, team_seats
from mada.team.settings import DebateSettings


@dataclass(frozen=True, slots=True)
class Member:
    """Who an agent is; a judge is asked with the judge's prompt.

    `parameters` are those that its training changed, where that is not to be seen: in a model trained as a whole.
    """

    model: ModelSection
    adapter: Path | None = None
    is_judge: bool = False
    parameters: int | None = None

    @property
    def identity(self) -> tuple[str, str | None, Path | None]:
        """What was trained, whatever it is called and however long its window is."""
        return self.model.name, self.model.revision, self.adapter

    @property
    def trained(self) -> int:
        """How many parameters its training changed: those given, or else all of its adapter's, unless that is blank."""
        if self.parameters is not None:
            return self.parameters
        return 0 if self.adapter is None or is_blank(self.adapter) else count_adapter_parameters(self.adapter)


Cast = Mapping[str, Member]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A model that is loaded, with the adapters that are needed on it."""

    chat: ChatModel
    engine: PacedEngine
    sharing: SharingEngine
    window: int
    device: str
    accelerators: int
    inputs: Mapping[str, str]
    """Digests of what is sampled from, by a name for people."""


class Seated:
    """Agents whose models are loaded."""

    def __init__(self, cast: Cast, stages: Mapping[ModelSection, _Stage], settings: DebateSettings) -> None:
        self._cast, self._stages, self._settings = cast, stages, settings
        self._agents: dict[str, EngineAgent] = {}

    def seat(self, name: str) -> EngineAgent:
        """Return an agent by its name."""
        if name not in self._agents:
            self._agents[name] = self._seated(name)
        return self._agents[name]

    @property
    def slots(self) -> int:
        """How many completions can be sampled at the same time."""
        return sum(stage.engine.slots for stage in self._stages.values())

    @property
    def inputs(self) -> dict[str, str]:
        """Digests of the weights and adapters that answer here."""
        weights = {name: digest for stage in self._stages.values() for name, digest in stage.inputs.items()}
        return weights | digests_of_adapters(self._cast)

    def read(self) -> Reading:
        """Say what the engines have done so far."""
        done = [stage.engine.statistics for stage in self._stages.values()]
        # Models of one sitting are on one device, or beside a server.
        most = max(self._stages.values(), key=lambda stage: stage.accelerators)
        return Reading(
            device=most.device,
            accelerators=most.accelerators,
            busy=sum(one.seconds for one in done),
            completions=sum(stage.sharing.sampled for stage in self._stages.values()),
            generated_tokens=sum(one.generated_tokens for one in done),
            prompt_tokens=sum(one.prompt_tokens for one in done),
        )

    async def prompt_price(self, name: str, question: str) -> float:
        """Measure what reading a prompt token costs an agent's engine, in generated tokens."""
        member, agent = self._cast[name], self.seat(name)
        stage = self._stages[member.model]
        ids = prompt_ids(chat_prompt(agent.prompts.ask(question), stage.chat.tokenizer), stage.chat.tokenizer)
        # Of this process where it computes itself: whoever else uses the cores does not count.
        clock = time.process_time if stage.device == "cpu" else time.perf_counter
        return await measure_prompt_price(stage.engine, agent.adapter, prompt_ids=ids, clock=clock)

    def _seated(self, name: str) -> EngineAgent:
        member = self._cast[name]
        stage = self._stages[member.model]
        settings = replace(self._settings, window=stage.window)
        return EngineAgent(
            name,
            None if member.adapter is None else _label(member.adapter),
            engine=stage.sharing,
            tokenizer=stage.chat.tokenizer,
            prompts=settings.prompts.of_judge if member.is_judge else settings.prompts,
            sampling=settings.sampling_of(stage.chat),
            window=stage.window,
        )


@asynccontextmanager
async def seated(
    cast: Cast,
    agents: Collection[str],
    *,
    settings: DebateSettings,
    engine: EngineSection,
    store: SampleStore,
    log: Log = ignored,
) -> AsyncGenerator[Seated]:
    """Load the models of some agents for as long as the block lasts."""
    stages: dict[ModelSection, _Stage] = {}
    async with AsyncExitStack() as closing:
        models = models_of(cast, agents)
        for model in models:
            members = [cast[name] for name in agents if cast[name].model == model]
            adapters = [member.adapter for member in members if member.adapter is not None]
            stage = await _stage(
                model, adapters, settings=settings, engine=engine, store=store, alone=len(models) == 1, log=log
            )
            closing.push_async_callback(stage.engine.close)
            stages[model] = stage
        yield Seated({name: cast[name] for name in agents}, stages, settings)


def digests_of_adapters(cast: Cast) -> dict[str, str]:
    """Return the digests of agents' adapters, by a name for people."""
    adapters = {name: member.adapter for name, member in cast.items() if member.adapter is not None}
    return {f"adapter of {name}": digest_of_adapter(folder) for name, folder in adapters.items()}


def models_of(cast: Cast, agents: Collection[str]) -> tuple[ModelSection, ...]:
    """Return the models that agents need, in the order of the cast."""
    return tuple(dict.fromkeys(member.model for name, member in cast.items() if name in agents))


def refuse_untrained(adapters: Iterable[str]) -> None:
    """Refuse adapters of runs (`runs/mine/adapters/generator-1`) that are not there, all of them at once.

    No such name is a Hub id, so nobody should have to wait for the Hub's answer to it.
    """
    missing: dict[Path, list[str]] = {}
    for folder in (Path(name).expanduser() for name in adapters):
        if folder.parent.name == ADAPTERS and not (folder / CONFIG).is_file():
            missing.setdefault(folder.parent.parent, []).append(folder.name)
    lines = [_untrained(run, seats) for run, seats in missing.items()]
    if lines:
        raise AdapterError("\n  ".join(lines if len(lines) == 1 else [f"{len(lines)} runs are missing:", *lines]))


def _untrained(run: Path, seats: Sequence[str]) -> str:
    if not (run / MANIFEST).is_file():
        return (
            f"{run}: no such run, but its {', '.join(seats)} should answer here; train it with `mada run`, "
            "or give the folder where it is"
        )
    generators, critics = team_seats(recipe_of(StoredRun.read(run)))
    unknown = [seat for seat in seats if seat not in generators + critics]
    if unknown:
        return f"{run} has no {', '.join(unknown)}; its team is {', '.join(generators + critics)}"
    return f"{run} has no adapter for {', '.join(seats)} yet; `mada run --run {run}` continues its training"


def adapter_folder(name: str) -> Path:
    """Return the folder of an adapter; one that is not here is fetched from the Hub.

    On the Hub an adapter may lie in a folder of its repository: `owner/name/checkpoint-2000`.
    """
    folder = Path(name).expanduser()
    if folder.exists():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    owner_and_name, inside = "/".join(name.split("/")[:2]), name.split("/")[2:]
    try:
        fetched = snapshot_download(owner_and_name, allow_patterns=["/".join([*inside, "adapter_*"])])
    except (OSError, ValueError, HFValidationError) as error:
        raise AdapterError(
            f"{name}: no such folder, and the Hub does not give it ({first_sentence(error)}); check the name, "
            "or download it where there is a network and give the folder"
        ) from None
    return Path(fetched, *inside)


async def _stage(
    model: ModelSection,
    adapters: Collection[Path],
    *,
    settings: DebateSettings,
    engine: EngineSection,
    store: SampleStore,
    alone: bool,
    log: Log,
) -> _Stage:
    folders = {_label(folder): folder for folder in adapters}
    for folder in adapters:
        _refuse_damaged(folder)
    chat = load_chat(model.name, revision=model.revision)
    window = model.window or settings.window_of(chat)
    choice = chosen_engine(engine, model, window=window, alone=alone, log=log)
    if choice.kind == "local":
        made, name, device, accelerators = _local_stage(
            model, folders, engine=engine, window=window, alone=alone, log=log
        )
    else:
        made = await start_engine(choice, engine, model, chat=chat, window=window, adapters=folders)
        name = f"{model.dtype} by {choice.kind}"
        on_gpu = choice.kind == "vllm"
        device, accelerators = (torch.cuda.get_device_name(), 1) if on_gpu else (f"server {engine.url}", 0)
    if isinstance(made, OpenAIEngine):
        served = made.identity()
        name = f"{digest_of(served)} {name}"
        inputs = {f"served model {one}": digest_of(said) for one, said in served["models"].items()}
    else:
        weights = digest_of_model(model.name, revision=model.revision)
        name = f"{weights} {name}"
        inputs = {weights_of(model): weights}
    speakers: dict[str | None, str] = {None: name}
    speakers |= {label: f"{name} {digest_of_adapter(folder)}" for label, folder in folders.items()}
    return _Stage(chat, made, SharingEngine(made, store.of_model(speakers)), window, device, accelerators, inputs)


def _local_stage(
    model: ModelSection,
    folders: Mapping[str, Path],
    *,
    engine: EngineSection,
    window: int,
    alone: bool,
    log: Log,
) -> tuple[LocalEngine, str, str, int]:
    """Load a model here; also return its number format and where it is."""
    base = load_base(model.name, revision=model.revision, dtype=model.dtype)
    choose_threads(base.model, engine.threads)
    stack = stack_of(base, folders) if folders else None
    local = local_engine(engine, base.model, stack, window=window, alone=alone, log=log)
    on_gpu = base.model.device.type == "cuda"
    return local, str(base.model.dtype), torch.cuda.get_device_name() if on_gpu else "cpu", int(on_gpu)


def _refuse_damaged(adapter: Path) -> None:
    """Refuse an adapter of a run that is not what its training wrote."""
    run = adapter.absolute().parent.parent
    if adapter.absolute().parent.name == ADAPTERS and (run / MANIFEST).is_file():
        StoredRun.read(run).check_results(under=f"{ADAPTERS}/{adapter.name}/")


def _label(folder: Path) -> str:
    return str(folder)
