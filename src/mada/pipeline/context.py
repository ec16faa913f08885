"""What a stage is given: the run it writes, the recipe it follows, and who watches."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mada.debate.transcript import Role
from mada.errors import EngineError
from mada.grading import Grader
from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.chat import ChatModel
from mada.models.engines import PacedEngine
from mada.models.engines.local import LocalEngine
from mada.models.loading import Base, load_base
from mada.models.threads import choose_threads
from mada.pipeline.engines import chosen_engine, start_engine
from mada.pipeline.observing import RunObserver
from mada.recipe import Recipe
from mada.run import Run
from mada.team.agent import EngineAgent
from mada.team.seats import ADAPTERS, team_seats
from mada.team.settings import DebateSettings

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Context:
    """A run in the making."""

    run: Run
    recipe: Recipe
    watch: RunObserver

    @property
    def settings(self) -> DebateSettings:
        """How the team debates."""
        return DebateSettings.of(self.recipe)

    def seats(self, role: Role) -> tuple[str, ...]:
        """Return the names of a role's seats, which are those of its adapters; in one round critics have none."""
        return team_seats(self.recipe)[role == "critic"]

    def adapter(self, seat: str) -> "Path":
        """Return where a seat's trained adapter lies."""
        return self.run.path(ADAPTERS, seat)

    def agent(self, shop: "Workshop", name: str) -> EngineAgent:
        """Fill a seat with its adapter of a workshop, to speak as in a debate."""
        return EngineAgent(
            name,
            name,
            engine=shop.engine,
            tokenizer=shop.base.tokenizer,
            prompts=self.settings.prompts,
            sampling=self.settings.sampling_of(ChatModel.of(shop.base)),
            window=shop.window,
        )

    def grader(self) -> Grader:
        """Make a grader as the recipe wants it."""
        return Grader(workers=self.recipe.grading.workers, time_limit=self.recipe.grading.time_limit)


@dataclass(frozen=True, slots=True)
class Workshop:
    """A base with adapters, and the engine that samples them: what the stages with a model in them need.

    Every stage loads its own, so a stage does the same whether it follows another or begins a session.
    """

    base: Base
    stack: AdapterStack
    engine: PacedEngine
    window: int


@asynccontextmanager
async def workshop(context: Context, seats: Iterable[str], *, trained: bool) -> AsyncGenerator[Workshop]:
    """Load the base and give it blank or trained adapters for these seats."""
    recipe = context.recipe
    base = load_base(recipe.model.name, revision=recipe.model.revision, dtype=recipe.model.dtype)
    choose_threads(base.model, recipe.engine.threads)
    shape = recipe.lora
    lora = Lora(shape.rank, shape.alpha, dropout=shape.dropout, targets=shape.targets)
    stack = AdapterStack.attach(base.model, tuple(seats), lora, seed=context.run.seed("adapters"))
    if trained:
        for seat in stack.agents:
            load_adapter(stack, seat, context.adapter(seat))
    chat = ChatModel.of(base)
    window = context.settings.window_of(chat)
    choice = chosen_engine(recipe.engine, recipe.model, window=window, noted=context.watch.noted)
    if choice.kind == "openai":
        raise EngineError(
            "training samples from adapters that change with every step, which a server cannot; use engine.kind=auto "
            "for the training, and a server for `mada evaluate` and `mada debate`"
        )
    engine: PacedEngine
    if choice.kind == "local":
        engine = LocalEngine(base.model, stack, context=window, rows=recipe.engine.rows)
    else:
        engine = await start_engine(choice, recipe.engine, recipe.model, chat=chat, window=window, stack=stack)
    try:
        yield Workshop(base, stack, engine, window)
    finally:
        await engine.close()
