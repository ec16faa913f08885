"""Who wants to watch a run: the terminal's view is an observer, and the stages know no more of it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from mada.learning.observing import TrainingObserver
from mada.run import StageMark


class RunObserver(Protocol):
    """Is told what happens in a run, from the run's own thread."""

    def stage_started(self, name: str, number: int, of: int) -> None:
        """Hear that a stage begins, or goes on."""
        ...

    def stage_skipped(self, mark: StageMark) -> None:
        """Hear that a stage was finished before."""
        ...

    def stage_done(self, mark: StageMark) -> None:
        """Hear that a stage is finished, and what it has to say."""
        ...

    def progressed(self, done: int, of: int, note: str = "") -> None:
        """Hear how far the stage is; what was finished in an earlier session counts as done."""
        ...

    def noted(self, text: str) -> None:
        """Hear something worth knowing about how the stage is done."""
        ...

    def training(self, title: str) -> AbstractContextManager[Sequence[TrainingObserver]]:
        """Give observers to a training, for as long as the block lasts."""
        ...


class SilentRunObserver:
    """Watches and says nothing."""

    def stage_started(self, name: str, number: int, of: int) -> None:
        """Say nothing."""

    def stage_skipped(self, mark: StageMark) -> None:
        """Say nothing."""

    def stage_done(self, mark: StageMark) -> None:
        """Say nothing."""

    def progressed(self, done: int, of: int, note: str = "") -> None:
        """Say nothing."""

    def noted(self, text: str) -> None:
        """Say nothing."""

    def training(self, title: str) -> AbstractContextManager[Sequence[TrainingObserver]]:
        """Give no observers."""
        return nullcontext(())
