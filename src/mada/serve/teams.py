"""What is served: teams, their agents and bare bases, each by its name, on models that are loaded once."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mada.agents import DebateSettings, LoadedModel, load_model
from mada.debate.protocol import check_agents
from mada.errors import EngineError, MadaError
from mada.models.chat import prompt_ids
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Engine, Sampling
from mada.recipe.schema import EngineSection, ModelSection
from mada.serve.admission import Admission
from mada.serve.protocol import RequestError, SamplingRequest
from mada.team import TeamSpec
from mada.text import shortened

_log = logging.getLogger(__name__)
ALIAS = "mada"
"""The first team's other name."""
_PROBE_SECONDS = 60.0
_LONGEST_PAUSE = 60.0
_BUSY = 3
"""Rows given to requests for each row of the engine's batch. While a debate waits for its slowest agent, others
should fill the batch: on a GPU 1.25 reached 0.72 of an evaluation's tokens per second, and 3 all of them."""


class ServedModel:
    """A model with the adapters of all teams on it, and the requests it works on; loaded again where it fails."""

    def __init__(
        self, section: ModelSection, engine: EngineSection, adapters: Mapping[str, Path], *, alone: bool
    ) -> None:
        self.section = section
        self._engine_section, self._adapters, self._alone = engine, adapters, alone
        self._loaded: LoadedModel | None = None
        self._repair: asyncio.Task[None] | None = None
        self.admission = Admission(rows=1, queue=0)

    @property
    def name(self) -> str:
        """The name of the bare base."""
        return self.section.name if self.section.revision is None else f"{self.section.name}@{self.section.revision}"

    @property
    def is_ready(self) -> bool:
        """Whether the engine works, as far as is known."""
        return self._loaded is not None and self._repair is None

    @property
    def loaded(self) -> LoadedModel:
        """The model; raise RequestError 503 while it is being loaded again."""
        if self._loaded is None:
            raise RequestError(503, "the engine has failed and is being started again", retry_after=5)
        return self._loaded

    async def load(self) -> None:
        """Load the model and start its engine."""
        self._loaded = await load_model(
            self.section, self._adapters, engine=self._engine_section, alone=self._alone, log=_log.info
        )

    def limit(self, *, agents: int, queue: int, at_once: int | None) -> None:
        """Set how many debates of so many agents work at once, by default as fill the batch, and how many may wait."""
        rows = _BUSY * self.loaded.engine.slots if at_once is None else at_once * agents
        self.admission = Admission(rows=rows, queue=queue)

    def check_health(self) -> None:
        """Find out after a failure whether the engine still samples; start it again where it does not."""
        if self._repair is None:
            self._repair = asyncio.create_task(self._restore())

    async def close(self) -> None:
        """End the engine."""
        if self._repair is not None:
            self._repair.cancel()
            await asyncio.gather(self._repair, return_exceptions=True)
        if self._loaded is not None:
            await self._loaded.engine.close()

    async def _restore(self) -> None:
        pause = 1.0
        try:
            while not await self._samples():
                if self._loaded is not None:
                    broken, self._loaded = self._loaded, None
                    await self._quietly_close(broken.engine)
                    del broken  # its weights make room for the new ones
                try:
                    await self.load()
                    _log.warning("the engine of %s was started again", self.name)
                except (MadaError, RuntimeError, OSError) as error:
                    _log.warning(
                        "the engine of %s does not start (%s); next try in %.0f s",
                        self.name,
                        shortened(str(error), 300),
                        pause,
                    )
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            self._repair = None

    async def _samples(self) -> bool:
        """Whether the engine completes the simplest prompt."""
        if self._loaded is None:
            return False
        ids = prompt_ids("1", self._loaded.chat.tokenizer)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._loaded.engine.sample(None, ids, Sampling(max_tokens=1, temperature=0.0))
        # Whatever an engine raises, it does not work.
        except Exception as error:
            _log.warning("the engine of %s has failed: %s", self.name, shortened(str(error), 300))
            return False
        return True

    async def _quietly_close(self, engine: Engine) -> None:
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await engine.close()
        # A broken engine may fail at closing too; a new one is wanted all the same.
        except Exception as error:
            _log.warning("closing the failed engine: %s", shortened(str(error), 300))


@dataclass(frozen=True, slots=True)
class ServedAgent:
    """An agent of a team, or a bare base where `team` is `None`."""

    name: str
    model: ServedModel
    settings: DebateSettings
    adapter: str | None = None
    team: "ServedTeam | None" = None


@dataclass(frozen=True, slots=True)
class ServedTeam:
    """A team under its name; `adapters` are the engine's names of its agents' adapters."""

    name: str
    spec: TeamSpec
    model: ServedModel
    adapters: Mapping[str, str]

    def settings_for(self, request: SamplingRequest, *, rounds: int | None) -> DebateSettings:
        """Return the team's settings with what a request changes; raise RequestError if they contradict."""
        loaded, own = self.model.loaded, self.spec.settings
        settings = changed(own, request)
        if request.max_tokens is not None:
            # A limit: replies as long as a team gives by itself, or half of the window, are within a larger one.
            most = max(own.sampling(loaded.chat, window=loaded.window).max_tokens, loaded.window // 2)
            settings = replace(settings, max_new_tokens=min(request.max_tokens, most))
        if rounds is not None:
            settings = replace(settings, rounds=rounds)
        critics = self.spec.critics if settings.rounds > 1 else ("",)
        if not critics:
            raise RequestError(400, f"{self.name} has no critics, so it can have 1 round only", param="mada.rounds")
        check_agents(self.spec.generators, critics, rounds=settings.rounds)
        return settings

    @property
    def width(self) -> int:
        """How many rows a debate needs at a time."""
        return max(len(self.spec.generators), len(self.spec.critics))

    def agent(self, name: str, settings: DebateSettings, engine: Engine) -> EngineAgent:
        """Return an agent that answers through an engine."""
        loaded = self.model.loaded
        try:
            return settings.agent(name, self.adapters.get(name), engine=engine, chat=loaded.chat, window=loaded.window)
        except MadaError as error:
            raise RequestError(400, str(error), param="max_tokens") from None


def changed(settings: DebateSettings, request: SamplingRequest) -> DebateSettings:
    """Return settings with what a request changes."""
    top_k = settings.top_k if request.top_k is None else request.top_k
    return replace(
        settings,
        temperature=settings.temperature if request.temperature is None else request.temperature,
        top_p=settings.top_p if request.top_p is None else request.top_p,
        top_k=None if top_k is None or top_k < 1 else top_k,
        max_new_tokens=settings.max_new_tokens if request.max_tokens is None else request.max_tokens,
    )


class Catalogue:
    """Everything that is served: `find` it by name, `load` it, `close` it."""

    def __init__(self, specs: Mapping[str, TeamSpec]) -> None:
        groups: dict[tuple[str, str], list[str]] = {}
        for name, spec in specs.items():
            groups.setdefault((spec.model.model_dump_json(), spec.engine.model_dump_json()), []).append(name)
        self.models: list[ServedModel] = []
        teams: dict[str, ServedTeam] = {}
        for names in groups.values():
            spec = specs[names[0]]
            if len(names) > 1 and spec.engine.url:
                raise EngineError(
                    f"{' and '.join(names)} would ask one server for agents of the same names; serve one run"
                )
            # With one team its agents' own names are the engine's, as a server behind it knows them.
            own = {
                team: {agent: agent if len(names) == 1 else f"{team}/{agent}" for agent in specs[team].adapters}
                for team in names
            }
            folders = {own[team][agent]: folder for team in names for agent, folder in specs[team].adapters.items()}
            model = ServedModel(spec.model, spec.engine, folders, alone=len(groups) == 1)
            self.models.append(model)
            teams |= {team: ServedTeam(team, specs[team], model, own[team]) for team in names}
        self.teams = [teams[name] for name in specs]
        self._by_name = self._named()

    async def load(self, *, queue: int, at_once: int | None) -> None:
        """Load all models, one after another."""
        for model in self.models:
            await model.load()
            teams = [team for team in self.teams if team.model is model]
            for team in teams:
                team.spec.agents(model.loaded)  # refuses settings that leave no room in the window
            model.limit(agents=max(team.width for team in teams), queue=queue, at_once=at_once)

    async def close(self) -> None:
        """End all engines."""
        for model in self.models:
            await model.close()

    @property
    def names(self) -> Sequence[str]:
        """All names, teams first."""
        return list(self._by_name)

    def find(self, name: str) -> ServedTeam | ServedAgent:
        """Return what is served under a name; raise RequestError 404 with the names there are."""
        found = self._by_name.get(name)
        if found is None:
            known = shortened(", ".join(self._by_name), 500)
            raise RequestError(
                404,
                f"there is no model {shortened(name, 100)!r} here; there are {known}",
                param="model",
                code="model_not_found",
            )
        return found

    def _named(self) -> dict[str, ServedTeam | ServedAgent]:
        first = self.teams[0]
        names: dict[str, ServedTeam | ServedAgent] = {ALIAS: first}
        names |= {team.name: team for team in self.teams}
        for team in self.teams:
            for agent in (*team.spec.generators, *team.spec.critics):
                served = ServedAgent(agent, team.model, team.spec.settings, team.adapters.get(agent), team)
                names.setdefault(f"{team.name}/{agent}", served)
                if team is first:
                    names.setdefault(agent, served)
        for model in self.models:
            spec = next(team.spec for team in self.teams if team.model is model)
            names.setdefault(model.name, ServedAgent(model.name, model, spec.settings))
        return names


def names_of(folders: Sequence[Path]) -> list[str]:
    """Return a name for each run: its folder's, with a number where several have the same."""
    names: list[str] = []
    for folder in folders:
        own = folder.resolve().name or "run"
        number = 1
        while (name := own if number == 1 else f"{own}-{number}") in names or name == ALIAS:
            number += 1
        names.append(name)
    return names
