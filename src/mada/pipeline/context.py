"""What a stage is given: the run it writes, the recipe it follows, and the events it emits."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mada.agents import ADAPTERS, AdaptedModel, DebateSettings, load_adapted_model, team_names, weights_key
from mada.concurrency import each
from mada.debate.transcript import Role
from mada.events import Events
from mada.grading import Grader
from mada.models.loading import digest_of_model
from mada.recipe import Recipe
from mada.recipe.schema import TrainingSettings
from mada.runs import Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """A run and its recipe, for a stage that is being done."""

    run: Run
    recipe: Recipe
    events: Events

    @property
    def settings(self) -> DebateSettings:
        """How the team debates."""
        return DebateSettings.of(self.recipe)

    def agents(self, role: Role) -> tuple[str, ...]:
        """Return the names of a role's agents and adapters; a team of one round has no critics."""
        return team_names(self.recipe)[role == "critic"]

    def training(self, role: Role) -> TrainingSettings:
        """Return how a role learns."""
        return self.recipe.training_for("generators" if role == "generator" else "critics")

    def adapter(self, agent: str) -> Path:
        """Return the folder of an agent's trained adapter."""
        return self.run.path(ADAPTERS, agent)

    def load_model(self, role: Role, *, trained: bool) -> AdaptedModel:
        """Load the base with blank or trained adapters for a role's agents.

        Every stage loads its own, so a stage does the same whether it follows another or begins a session.
        """
        model, agents = self.recipe.model, self.agents(role)
        digest = digest_of_model(model.name, revision=model.revision)
        # Under the first stage that may train on them: if that is done again, other weights may be used.
        self.run.check_inputs("generators", {weights_key(model): digest})
        adapters = {agent: self.adapter(agent) for agent in agents} if trained else None
        return load_adapted_model(self.recipe, agents, seed=self.run.seed("adapters"), adapters=adapters)

    def grader(self) -> Grader:
        """Make a grader as the recipe wants it."""
        return Grader(workers=self.recipe.grading.workers, time_limit=self.recipe.grading.time_limit)

    async def process(
        self, missing: Sequence[T], work: Callable[[T], Awaitable[None]], *, done: int, at_once: int
    ) -> None:
        """Work on what is missing beside what is done already, many items at once, and report progress."""
        of = done + len(missing)
        self.events.progress(done, of)

        async def step(item: T) -> None:
            nonlocal done
            await work(item)
            done += 1
            self.events.progress(done, of)

        await each(missing, step, at_once=at_once)
