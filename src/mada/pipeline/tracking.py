"""A run in experiment trackers: its trainings step by step, and what came of its evaluation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from mada.evaluation.summary import Summary
from mada.events import Event, StageFinished, TrainingFinished, TrainingStarted
from mada.learning.trackers import Tracking, log_training, open_trackers
from mada.report.reading import read_summary
from mada.runs import StoredRun

PROJECT = "mada"


class RunTracker:
    """A subscriber that sends a run's numbers to trackers.

    Every training and every evaluation is a run of its own there, named after this one and its stage: `math-critics`.
    """

    def __init__(self, trackers: Sequence[str], *, folder: Path) -> None:
        self._trackers, self._folder = trackers, folder
        self._training: Tracking | None = None

    def __call__(self, event: Event) -> None:
        """Send a training's numbers, and how right every system of a finished evaluation is and what it costs."""
        match event:
            case TrainingStarted(name=name):
                self._training = self._open(name)
            case TrainingFinished():
                self.close()
            case StageFinished(mark) if mark.name == "evaluate":
                summary = read_summary(StoredRun.read(self._folder))
                if summary is not None:
                    with self._open(mark.name) as tracking:
                        tracking.start({"seeds": len(summary.seeds), "benchmarks": ", ".join(summary.benchmarks)})
                        tracking.log(numbers_of(summary), step=0)
            case _:
                pass
        if self._training is not None:
            log_training(self._training, event)

    def close(self) -> None:
        """Finish the training's experiments."""
        if self._training is not None:
            self._training.close()
            self._training = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, stage: str) -> Tracking:
        run = f"{self._folder.resolve().name}-{stage}"
        return Tracking(open_trackers(self._trackers, project=PROJECT, run=run, folder=self._folder))


def numbers_of(summary: Summary) -> dict[str, float]:
    """Return the numbers of an evaluation's table, by system."""
    numbers: dict[str, float] = {}
    for one in summary.systems:
        values = {
            "verdict": one.verdict.average.mean,
            "mean": one.mean.average.mean,
            "improves": one.improves,
            "damages": one.damages,
            "calls": one.calls,
            "tokens": one.tokens,
            "prompt tokens": one.prompt_tokens,
            **{benchmark: estimate.mean for benchmark, estimate in one.verdict.benchmarks.items()},
        }
        numbers |= {f"{one.system.name}/{name}": value for name, value in values.items() if value is not None}
    return numbers
