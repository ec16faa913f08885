"""Filling a team's seats: from a run's adapters, or with one bare base everywhere."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mada.debate.protocol import check_seats
from mada.debate.transcript import Role
from mada.errors import RunError
from mada.models.adapters import AdapterStack, Lora, load_adapter, read_lora
from mada.models.adapters.layer import Targets
from mada.models.engines import Engine
from mada.models.engines.local import LocalEngine
from mada.models.loading import Base, ChatModel, load_base, load_chat
from mada.recipe import Recipe
from mada.run import StoredRun
from mada.team.agent import EngineAgent, check_chat_template
from mada.team.settings import DebateSettings

ADAPTERS = "adapters"
_CONFIG = "adapter_config.json"
_SECONDS_OF_A_DEBATE = 60.0


@dataclass(frozen=True, slots=True)
class Seats:
    """Who sits where, the base they share, None where a server has it, and the engine through which all speak."""

    generators: tuple[EngineAgent, ...]
    critics: tuple[EngineAgent, ...]
    base: Base | None
    engine: Engine


def seat_names(role: Role, count: int) -> tuple[str, ...]:
    """Return the names of a role's seats, which are also those of their adapters: generator-1, generator-2 …"""
    return tuple(f"{role}-{number}" for number in range(1, count + 1))


def team_seats(recipe: Recipe) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a team's generators and critics; in one round nobody is a critic."""
    critics = recipe.team.critics if recipe.team.rounds > 1 else 0
    return seat_names("generator", recipe.team.generators), seat_names("critic", critics)


def recipe_of(run: StoredRun) -> Recipe:
    """Return the recipe of a run, or say that it has none that this mada knows."""
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


def seats_of_run(
    run: StoredRun, recipe: Recipe, *, settings: DebateSettings, device: str, server: str | None = None
) -> Seats:
    """Fill the seats with the adapters that a run has trained; a server has to have them under the seats' names."""
    generators = seat_names("generator", recipe.team.generators)
    critics = seat_names("critic", recipe.team.critics)
    check_seats(generators, critics, rounds=settings.rounds)
    if settings.rounds == 1:
        critics = ()  # nobody asks them, so none needs to have been trained
    folders = adapter_folders(run, (*generators, *critics))
    if server is not None:
        chat = load_chat(recipe.model.name, revision=recipe.model.revision)
        return _elsewhere(server, chat, adapters={name: name for name in folders}, settings=settings)
    base = load_base(recipe.model.name, revision=recipe.model.revision, dtype=recipe.model.dtype, device=device)
    adapters: dict[str, str | None] = {name: name for name in folders}
    return _seated(base, stack_of(base, folders), adapters=adapters, settings=settings)


def seats_of_base(
    model: str, *, generators: int, critics: int, settings: DebateSettings, device: str, server: str | None = None
) -> Seats:
    """Fill every seat with the same bare base, here or on a server."""
    names = seat_names("generator", generators), seat_names("critic", critics)
    check_seats(*names, rounds=settings.rounds)
    adapters: dict[str, str | None] = dict.fromkeys(names[0] + names[1])
    if server is not None:
        return _elsewhere(server, load_chat(model), adapters=adapters, settings=settings)
    return _seated(load_base(model, device=device), None, adapters=adapters, settings=settings)


def adapter_folders(run: StoredRun, names: Sequence[str]) -> dict[str, Path]:
    """Return where the trained adapters of some seats lie; a run that has not trained them all is refused."""
    folders = {name: run.path(ADAPTERS, name) for name in names}
    missing = [name for name, folder in folders.items() if not (folder / _CONFIG).is_file()]
    if missing:
        raise RunError(
            f"{run.folder} has no adapter for {', '.join(missing)} yet; "
            f"`mada run --run {run.folder}` goes on with its training"
        )
    for name in names:
        run.check_results(under=f"{ADAPTERS}/{name}/")
    return folders


def stack_of(base: Base, folders: Mapping[str, Path]) -> AdapterStack:
    """Put adapters from folders on a base, each under its name."""
    # They may come from elsewhere, so the stack has room for the largest, on every layer that one of them has.
    shapes = [read_lora(folder) for folder in folders.values()]
    rank = max(shape.rank for shape in shapes)
    stack = AdapterStack.attach(base.model, tuple(folders), Lora(rank=rank, dropout=0.0, targets=_targets(shapes)))
    for name, folder in folders.items():
        load_adapter(stack, name, folder)
    return stack


def _targets(shapes: Sequence[Lora]) -> Targets:
    named = {target for shape in shapes if shape.targets != "all-linear" for target in shape.targets}
    return "all-linear" if any(shape.targets == "all-linear" for shape in shapes) else tuple(sorted(named))


def _seated(
    base: Base, stack: AdapterStack | None, *, adapters: Mapping[str, str | None], settings: DebateSettings
) -> Seats:
    chat = ChatModel.of(base)
    engine = LocalEngine(base.model, stack, context=settings.window_of(chat))
    return _filled(engine, chat, base=base, adapters=adapters, settings=settings)


def _elsewhere(server: str, chat: ChatModel, *, adapters: Mapping[str, str | None], settings: DebateSettings) -> Seats:
    from mada.models.engines.openai import OpenAIEngine

    names = {adapter: adapter for adapter in adapters.values() if adapter is not None}
    # Somebody waits for this one debate: a server that is away for long is said to be.
    engine = OpenAIEngine(
        server, models={None: chat.name, **names}, tokenizer=chat.tokenizer, retry_for=_SECONDS_OF_A_DEBATE
    )
    return _filled(engine, chat, base=None, adapters=adapters, settings=settings)


def _filled(
    engine: Engine,
    chat: ChatModel,
    *,
    base: Base | None,
    adapters: Mapping[str, str | None],
    settings: DebateSettings,
) -> Seats:
    check_chat_template(chat.tokenizer)
    window, sampling = settings.window_of(chat), settings.sampling_of(chat)
    agents = [
        EngineAgent(
            name,
            adapter,
            engine=engine,
            tokenizer=chat.tokenizer,
            prompts=settings.prompts,
            sampling=sampling,
            window=window,
        )
        for name, adapter in adapters.items()
    ]
    generators = tuple(agent for agent in agents if agent.name.startswith("generator"))
    return Seats(generators, tuple(agents[len(generators) :]), base, engine)
