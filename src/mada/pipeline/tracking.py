"""A run in experiment trackers: its trainings step by step, and what came of its evaluation."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mada.evaluation.summary import Summary
from mada.learning.observing import TrainingObserver
from mada.learning.trackers import Tracking, TrackingObserver, open_trackers
from mada.pipeline.observing import RunObserver
from mada.report.reading import read_summary
from mada.run import StageMark, StoredRun

PROJECT = "mada"


class TrackedRun:
    """Passes all that happens in a run on to who watches it, and its numbers to trackers.

    Every training and every evaluation is a run of its own there, named after this one and its stage: `math-critics`.
    """

    def __init__(self, watch: RunObserver, *, trackers: Sequence[str], folder: Path) -> None:
        self._watch, self._trackers, self._folder = watch, trackers, folder

    def stage_started(self, name: str, number: int, of: int) -> None:
        """Pass it on."""
        self._watch.stage_started(name, number, of)

    def stage_skipped(self, mark: StageMark) -> None:
        """Pass it on."""
        self._watch.stage_skipped(mark)

    def stage_done(self, mark: StageMark) -> None:
        """Pass it on; of an evaluation, send how right every system is and what it costs."""
        self._watch.stage_done(mark)
        if mark.name != "evaluate":
            return
        summary = read_summary(StoredRun.read(self._folder))
        if summary is not None:
            with self._tracking(mark.name) as tracking:
                tracking.start({"seeds": len(summary.seeds), "benchmarks": ", ".join(summary.benchmarks)})
                tracking.log(numbers_of(summary), step=0)

    def progressed(self, done: int, of: int, note: str = "") -> None:
        """Pass it on."""
        self._watch.progressed(done, of, note)

    def noted(self, text: str) -> None:
        """Pass it on."""
        self._watch.noted(text)

    @contextmanager
    def training(self, title: str) -> Generator[Sequence[TrainingObserver]]:
        """Let the trackers watch a training beside the others."""
        with self._tracking(title) as tracking, self._watch.training(title) as observers:
            yield [*observers, TrackingObserver(tracking)]

    def _tracking(self, stage: str) -> Tracking:
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
