"""What a stage is given: the run it writes, the recipe it follows, and the events it emits."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from mada.concurrency import each
from mada.debate.transcript import Role
from mada.errors import EngineError
from mada.events import Events
from mada.grading import Grader
from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.engines import PacedEngine
from mada.models.forward import choose_threads
from mada.models.loading import Base, ChatModel, digest_of_model, load_base
from mada.pipeline.engines import chosen_engine, local_engine, start_engine, weights_of
from mada.recipe import Recipe
from mada.recipe.training import TrainingSettings
from mada.run import Run
from mada.team.agent import EngineAgent
from mada.team.encoding import chat_prompt, prompt_ids
from mada.team.seats import ADAPTERS, team_seats
from mada.team.settings import DebateSettings

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
ROW_STEP = 128
"""Rows have room for a multiple of so many tokens."""


@dataclass(frozen=True, slots=True)
class Context:
    """A run in the making."""

    run: Run
    recipe: Recipe
    events: Events

    @property
    def settings(self) -> DebateSettings:
        """How the team debates."""
        return DebateSettings.of(self.recipe)

    def seats(self, role: Role) -> tuple[str, ...]:
        """Return the names of a role's seats, which are those of its adapters; in one round critics have none."""
        return team_seats(self.recipe)[role == "critic"]

    def training(self, role: Role) -> TrainingSettings:
        """Return how a role learns."""
        return self.recipe.training_for("generators" if role == "generator" else "critics")

    def adapter(self, seat: str) -> "Path":
        """Return where a seat's trained adapter lies."""
        return self.run.path(ADAPTERS, seat)

    def agent(self, shop: "Workshop", name: str, *, engine: PacedEngine) -> EngineAgent:
        """Fill a seat with its adapter of a workshop, to speak as in a debate."""
        return EngineAgent(
            name,
            name,
            engine=engine,
            tokenizer=shop.base.tokenizer,
            prompts=self.settings.prompts,
            sampling=self.settings.sampling_of(ChatModel.of(shop.base)),
            window=shop.window,
        )

    def grader(self) -> Grader:
        """Make a grader as the recipe wants it."""
        return Grader(workers=self.recipe.grading.workers, time_limit=self.recipe.grading.time_limit)

    async def work_off(
        self, missing: Sequence[T], work: Callable[[T], Awaitable[None]], *, done: int, at_once: int
    ) -> None:
        """Do what is missing beside what is done already, many at once, and say how far it is."""
        of = done + len(missing)
        self.events.progress(done, of)

        async def step(item: T) -> None:
            nonlocal done
            await work(item)
            done += 1
            self.events.progress(done, of)

        await each(missing, step, at_once=at_once)


@dataclass(frozen=True, slots=True)
class Workshop:
    """A base with adapters, and the window that prompts and replies fit into: what stages with a model in them need.

    Every stage loads its own, so a stage does the same whether it follows another or begins a session.
    """

    context: Context
    base: Base
    stack: AdapterStack
    window: int

    def ids(self, text: str) -> tuple[int, ...]:
        """Return a user's message as the tokens of a prompt."""
        return prompt_ids(chat_prompt(text, self.base.tokenizer), self.base.tokenizer)

    def question_tokens(self, question: str) -> int:
        """Return how long the prompt of a bare question is."""
        return len(self.ids(self.context.settings.prompts.ask(question)))

    @asynccontextmanager
    async def sampling(self, *, longest: int, alone: bool) -> AsyncGenerator[PacedEngine]:
        """Have an engine for as long as the block lasts, with room for `longest` tokens of prompt and reply in a row.

        A row of the whole window would take many times the memory where it is not needed, and fewer would fit; more
        fit where the engine is `alone`, without a learner.
        """
        recipe, chat, log = self.context.recipe, ChatModel.of(self.base), self.context.events.log
        room = min(self.window, -(-longest // ROW_STEP) * ROW_STEP)
        choice = chosen_engine(recipe.engine, recipe.model, window=room, alone=alone, log=log)
        if choice.kind == "openai":
            raise EngineError(
                "training samples from adapters that change with every step, which a server cannot; use "
                "engine.kind=auto for the training, and a server for `mada evaluate` and `mada debate`"
            )
        engine: PacedEngine
        if choice.kind == "local":
            engine = local_engine(recipe.engine, self.base.model, self.stack, window=room, alone=alone, log=log)
        else:
            engine = await start_engine(choice, recipe.engine, recipe.model, chat=chat, window=room, stack=self.stack)
        try:
            yield engine
        finally:
            await engine.close()


def workshop(context: Context, seats: Iterable[str], *, trained: bool) -> Workshop:
    """Load the base and give it blank or trained adapters for these seats."""
    recipe = context.recipe
    base = load_base(recipe.model.name, revision=recipe.model.revision, dtype=recipe.model.dtype)
    digest = digest_of_model(recipe.model.name, revision=recipe.model.revision)
    # Of the first stage that may train on them: when that is done again, other weights may be used.
    context.run.check_inputs("generators", {weights_of(recipe.model): digest})
    choose_threads(base.model, recipe.engine.threads)
    shape = recipe.lora
    lora = Lora(shape.rank, shape.alpha, dropout=shape.dropout, targets=shape.targets)
    stack = AdapterStack.attach(base.model, tuple(seats), lora, seed=context.run.seed("adapters"))
    if trained:
        for seat in stack.agents:
            load_adapter(stack, seat, context.adapter(seat))
    return Workshop(context, base, stack, context.settings.window_of(ChatModel.of(base)))
