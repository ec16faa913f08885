"""Who wants to watch a training: the terminal's view and the trackers are observers, and the trainer knows no more."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mada.learning.best import BestAdapter
from mada.learning.metrics import AgentStep, ValidationStep

Activity = Literal["rollouts", "learning", "validation"]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is about to happen: `first_step` is 1, or the step after the checkpoint that training goes on from.

    `best` are the best adapters found before that checkpoint.
    """

    agents: tuple[str, ...]
    first_step: int
    total_steps: int
    settings: Mapping[str, object]
    best: Mapping[str, BestAdapter]


@dataclass(frozen=True, slots=True)
class StepReport:
    """A finished step. `seconds` is all of it, sampling and grading and learning; agents share them."""

    step: int
    total_steps: int
    agents: Mapping[str, AgentStep]
    rollout_seconds: float
    learn_seconds: float

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return self.rollout_seconds + self.learn_seconds


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """A look at the validation set after a step; step 0 is before any learning."""

    step: int
    total_steps: int
    agents: Mapping[str, ValidationStep]
    seconds: float


class TrainingObserver(Protocol):
    """Is told what happened, between steps and from the trainer's own thread: it must not take long."""

    def started(self, plan: TrainingPlan) -> None:
        """Training begins, or goes on."""
        ...

    def resumed(self, step: int, checkpoint: Path) -> None:
        """Training goes on after a step, from its checkpoint."""
        ...

    def progressed(self, activity: Activity, done: int, of: int) -> None:
        """Some of the groups of this step are sampled and scored."""
        ...

    def step_done(self, report: StepReport) -> None:
        """An update was made."""
        ...

    def validation_done(self, report: ValidationReport) -> None:
        """All agents answered the validation set."""
        ...

    def checkpoint_written(self, step: int, path: Path) -> None:
        """From now on an interruption loses nothing up to this step."""
        ...


class SilentObserver:
    """Watches and says nothing; observers that want only some of the news derive from it."""

    def started(self, plan: TrainingPlan) -> None:
        """Say nothing."""

    def resumed(self, step: int, checkpoint: Path) -> None:
        """Say nothing."""

    def progressed(self, activity: Activity, done: int, of: int) -> None:
        """Say nothing."""

    def step_done(self, report: StepReport) -> None:
        """Say nothing."""

    def validation_done(self, report: ValidationReport) -> None:
        """Say nothing."""

    def checkpoint_written(self, step: int, path: Path) -> None:
        """Say nothing."""
