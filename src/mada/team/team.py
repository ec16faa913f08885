"""A team: seats that debate together, and one answer in the end."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from mada.concurrency import run_sync
from mada.debate.prompts import Prompts, Share
from mada.debate.protocol import Agent, check_question, check_seats, hold_debate
from mada.debate.transcript import Debate
from mada.debate.verdict import vote
from mada.events import Events
from mada.grading import Grader
from mada.models.engines import Engine
from mada.models.loading import Base
from mada.run import StoredRun
from mada.seeds import seed_for
from mada.team.seats import Seats, recipe_of, seats_of_base, seats_of_run
from mada.team.settings import DebateSettings


class Team:
    """Generators, critics and the number of rounds: ask it a question, and it debates.

        team = Team.load("runs/quickstart")
        debate = await team.debate("Calculate 64 + 57 - 38.")
        print(debate.verdict.answer)

    Any agents can be its members; `load` and `untrained` fill the seats with models. `base` is the model they share,
    where they share one. Ask as many questions at once as you like. `close` it when done, or use it with `async with`
    (or `with`, as in a notebook): that ends `engine`, if it was given one, and the grader, if it made its own.
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
        check_seats(generators, critics, rounds=rounds)
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
    ) -> Self:
        """Load the team that a run has trained; it debates as its recipe says, but for what is given here.

        `server` is the address of an OpenAI-compatible server that has the base, and the adapters under their seats'
        names; then no weights are loaded here.
        """
        run = StoredRun.read(folder)
        recipe = recipe_of(run)
        settings = DebateSettings.of(recipe)
        given = {"rounds": rounds, "temperature": temperature, "max_new_tokens": max_new_tokens, "window": window}
        settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
        if share is not None:
            settings = replace(settings, prompts=replace(settings.prompts, share=share))
        seats = seats_of_run(run, recipe, settings=settings, device=device, server=server)
        return cls._seated(seats, rounds=settings.rounds)

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
    ) -> Self:
        """Make a team with the bare base in every seat: what debate alone does, before any training (B1).

        `server` is the address of an OpenAI-compatible server that has the model; then no weights are loaded here.
        """
        settings = DebateSettings(
            rounds=rounds,
            prompts=prompts or Prompts(),
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            max_new_tokens=max_new_tokens,
            window=window,
        )
        seats = seats_of_base(
            model, generators=generators, critics=critics, settings=settings, device=device, server=server
        )
        return cls._seated(seats, rounds=rounds)

    @classmethod
    def _seated(cls, seats: Seats, *, rounds: int) -> Self:
        return cls(seats.generators, seats.critics, rounds=rounds, base=seats.base, engine=seats.engine)

    async def debate(self, question: str, *, seed: int = 0, events: Events | None = None) -> Debate:
        """Debate a question and vote. The same seed gives the same debate, whatever else is being debated."""
        check_question(question)
        # The question is part of the seed's path, so that the questions of one file share no random numbers.
        own_seed = seed_for(seed, "debate", question)
        debate = await hold_debate(
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
            # A failure, or a reader that has had enough, leaves debates that nobody waits for.
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
