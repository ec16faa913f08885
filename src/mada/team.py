"""A team: generators and critics that debate a question and vote on its answer."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from mada.agents import DebateSettings, LoadedModel, adapter_folders, agent_names, load_model, recipe_of
from mada.concurrency import run_sync
from mada.debate.prompts import Prompts, Share
from mada.debate.protocol import Agent, check_agents, check_question, run_debate
from mada.debate.transcript import Debate
from mada.debate.verdict import vote
from mada.events import Events
from mada.grading import Grader
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Engine
from mada.models.engines.starting import Hardware
from mada.models.loading import Base
from mada.recipe.schema import EngineSection, ModelSection
from mada.runs import StoredRun
from mada.seeds import seed_for

_log = logging.getLogger(__name__)
_SERVER_RETRY = 60.0
"""Seconds after which an unreachable server is an error: a user is waiting for this one debate."""


@dataclass(frozen=True, slots=True)
class TeamSpec:
    """What a team is made of, before anything is loaded. An agent without an adapter is the bare base."""

    model: ModelSection
    engine: EngineSection
    settings: DebateSettings
    generators: tuple[str, ...]
    critics: tuple[str, ...]
    adapters: Mapping[str, Path]

    @classmethod
    def of_run(
        cls,
        folder: str | Path,
        *,
        rounds: int | None = None,
        temperature: float | None = None,
        share: Share | None = None,
        max_new_tokens: int | None = None,
        window: int | None = None,
        device: str = "auto",
        server: str | None = None,
        engine: EngineSection | None = None,
    ) -> Self:
        """Return the team that a run has trained; what is given here overrides the run's recipe."""
        run = StoredRun.read(folder)
        recipe = recipe_of(run)
        settings = DebateSettings.of(recipe)
        given = {"rounds": rounds, "temperature": temperature, "max_new_tokens": max_new_tokens}
        settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
        if share is not None:
            settings = replace(settings, prompts=replace(settings.prompts, share=share))
        generators = agent_names("generator", recipe.team.generators)
        critics = agent_names("critic", recipe.team.critics)
        check_agents(generators, critics, rounds=settings.rounds)
        if settings.rounds == 1:
            critics = ()  # never asked, so they need not have been trained
        return cls(
            recipe.model if window is None else recipe.model.model_copy(update={"window": window}),
            engine_section(engine or _available(recipe.engine), server=server, device=device),
            settings,
            generators,
            critics,
            adapter_folders(run, (*generators, *critics)),
        )

    @classmethod
    def untrained(
        cls, model: ModelSection, *, generators: int, critics: int, settings: DebateSettings, engine: EngineSection
    ) -> Self:
        """Return a team of which every agent is the bare base."""
        names = agent_names("generator", generators), agent_names("critic", critics)
        check_agents(*names, rounds=settings.rounds)
        return cls(model, engine, settings, *names, adapters={})

    def with_engine(self, **settings: int | None) -> Self:
        """Return the team with other values of `[engine]`; None leaves one as it is."""
        changes = {name: value for name, value in settings.items() if value is not None}
        return replace(self, engine=self.engine.model_copy(update=changes))

    def agents(self, loaded: LoadedModel) -> tuple[list[EngineAgent], list[EngineAgent]]:
        """Return generators and critics on a loaded model."""

        def made(names: Sequence[str]) -> list[EngineAgent]:
            return [
                self.settings.agent(
                    name,
                    name if name in self.adapters else None,
                    engine=loaded.engine,
                    chat=loaded.chat,
                    window=loaded.window,
                )
                for name in names
            ]

        return made(self.generators), made(self.critics)


class Team:
    """Generators, critics and the number of rounds: ask it a question, and it debates.

        team = Team.load("runs/quickstart")
        debate = await team.debate("Calculate 64 + 57 - 38.")
        print(debate.verdict.answer)

    Any agents can be its members; `load` and `untrained` make them from models. `base` is the model that they share,
    if it is in this process. Ask as many questions at once as you like. `close` it when done, or use it with
    `async with` (or `with`, as in a notebook): that closes `engine`, if it was given one, and the grader, if it made
    its own.
    """

    def __init__(
        self,
        generators: Sequence[Agent],
        critics: Sequence[Agent] = (),
        *,
        rounds: int = 2,
        grader: Grader | None = None,
        base: Base | None = None,
        engine: Engine | None = None,
    ) -> None:
        check_agents(generators, critics, rounds=rounds)
        self.generators = tuple(generators)
        self.critics = tuple(critics)
        self.rounds = rounds
        self.base = base
        self.grader = grader or Grader()
        self._own_grader = grader is None
        self._engine = engine

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        rounds: int | None = None,
        temperature: float | None = None,
        share: Share | None = None,
        max_new_tokens: int | None = None,
        window: int | None = None,
        device: str = "auto",
        server: str | None = None,
        engine: EngineSection | None = None,
    ) -> Self:
        """Load the team that a run has trained, on the run's engine; what is given here overrides its recipe.

        `server` is the address of an OpenAI-compatible server that has the base, and the adapters under the agents'
        names; then no weights are loaded here. A `device` other than auto means the local engine.
        """
        spec = TeamSpec.of_run(
            folder,
            rounds=rounds,
            temperature=temperature,
            share=share,
            max_new_tokens=max_new_tokens,
            window=window,
            device=device,
            server=server,
            engine=engine,
        )
        return cls._load(spec, device=device)

    @classmethod
    def untrained(
        cls,
        model: str = "mada-nano",
        *,
        generators: int = 3,
        critics: int = 3,
        rounds: int = 2,
        prompts: Prompts | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        max_new_tokens: int | None = None,
        window: int | None = None,
        device: str = "auto",
        server: str | None = None,
        engine: EngineSection | None = None,
    ) -> Self:
        """Make a team of which every agent is the bare base: what debate alone does, before any training (B1).

        `server` is the address of an OpenAI-compatible server that has the model; then no weights are loaded here.
        Without it and without an `engine`, the local engine samples.
        """
        settings = DebateSettings(
            rounds=rounds,
            prompts=prompts or Prompts(),
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            max_new_tokens=max_new_tokens,
        )
        spec = TeamSpec.untrained(
            ModelSection(name=model, window=window),
            generators=generators,
            critics=critics,
            settings=settings,
            engine=engine_section(engine or EngineSection(kind="local"), server=server, device=device),
        )
        return cls._load(spec, device=device)

    @classmethod
    def _load(cls, spec: TeamSpec, *, device: str) -> Self:
        loaded = run_sync(
            load_model(
                spec.model,
                spec.adapters,
                engine=spec.engine,
                alone=True,
                log=_log.info,
                device=device,
                any_loop=True,
            )
        )
        try:
            members = spec.agents(loaded)
        except BaseException:
            run_sync(loaded.engine.close())
            raise
        return cls(*members, rounds=spec.settings.rounds, base=loaded.base, engine=loaded.engine)

    async def debate(self, question: str, *, seed: int = 0, events: Events | None = None) -> Debate:
        """Debate a question and vote. The same seed gives the same debate, whatever else is being debated."""
        check_question(question)
        # The question is part of the seed's path, so that the questions of one file share no random numbers.
        own_seed = seed_for(seed, "debate", question)
        debate = await run_debate(
            question,
            generators=self.generators,
            critics=self.critics,
            rounds=self.rounds,
            seed=own_seed,
            events=events,
        )
        return debate.with_verdict(await vote([one.responses for one in debate.rounds], grader=self.grader))

    def debate_sync(self, question: str, *, seed: int = 0, events: Events | None = None) -> Debate:
        """Do what `debate` does in code that knows nothing of asyncio, and in notebooks."""
        return run_sync(self.debate(question, seed=seed, events=events))

    async def debates(self, questions: Iterable[str], *, seed: int = 0, at_once: int = 256) -> AsyncGenerator[Debate]:
        """Debate many questions, up to `at_once` at the same time; each comes as soon as those before it have."""
        if at_once < 1:
            raise ValueError(f"at_once must be at least 1, got {at_once}")
        running: deque[asyncio.Task[Debate]] = deque()
        try:
            for question in questions:
                running.append(asyncio.create_task(self.debate(question, seed=seed)))
                if len(running) == at_once:
                    yield await running[0]
                    running.popleft()
            while running:
                yield await running[0]
                running.popleft()
        finally:
            # After a failure, or if the reader stops early, the other debates are not needed any more.
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def close(self) -> None:
        """End the engine and the grader that belong to this team."""
        if self._engine is not None:
            await self._engine.close()
        if self._own_grader:
            await asyncio.to_thread(self.grader.close, abandon=True)

    def close_sync(self) -> None:
        """Do what `close` does in code that knows nothing of asyncio, and in notebooks."""
        run_sync(self.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()


def _available(section: EngineSection) -> EngineSection:
    """Return a run's `[engine]`, with another kind if it asks for vLLM and this machine cannot run it."""
    here = Hardware.detect()
    if section.kind != "vllm" or (here.gpu_bytes is not None and here.has_vllm):
        return section
    _log.warning("the run's recipe asks for vLLM, which cannot be used here; the local engine is used instead")
    return section.model_copy(update={"kind": "local"})


def engine_section(section: EngineSection, *, server: str | None, device: str = "auto") -> EngineSection:
    """Return a team's engine: a server or a device that the caller names overrides the recipe's `[engine]`."""
    changes: dict[str, object] = {"retry_for": min(section.retry_for, _SERVER_RETRY)}
    if server is not None:
        changes |= {"kind": "openai", "url": server}
    elif device != "auto":
        changes |= {"kind": "local", "url": None}
    return section.model_copy(update=changes)
