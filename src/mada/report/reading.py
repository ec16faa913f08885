"""Reading a run for its report: scores, samples and times as they lie in its records; no model is needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from mada.evaluation.costs import Bill, bill_of
from mada.evaluation.effort import EFFORT, Effort
from mada.evaluation.grid import Grid, LeftOut
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.samples import SAMPLES, Sample, Sampled
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript
from mada.evaluation.summary import Summary, summary_of
from mada.run import StoredRecords, StoredRun

CRITIC_EXAMPLES = "critic-examples"
ABLATIONS = "ablations"
"""The folder within a run that holds the evaluation of its ablations, itself a run."""
ROLES = ("generators", "critics")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """A run that a report is about; `title` tells it from the others. What it has not come to yet is None or empty."""

    title: str
    run: StoredRun
    grid: Grid | None
    left_out: LeftOut
    """With what the evaluation is not finished: it is not in the grid."""
    ablations: Grid | None
    efforts: tuple[Effort, ...]

    @classmethod
    def of(cls, run: StoredRun, *, title: str | None = None) -> Self:
        """Read what the run has."""
        folder = run.path(ABLATIONS)
        ablations, missing = _finished(StoredRun.read(folder)) if (folder / PLAN_FILE).is_file() else (None, LeftOut())
        if missing.systems:  # a table of ablations without some of them would not say so
            ablations = None
        run.check_results("evaluate")
        grid, left_out = _finished(run)
        return cls(title or run.manifest.name, run, grid, left_out, ablations, tuple(_efforts(run)))

    @property
    def sampled(self) -> Sampled | None:
        """What was sampled, counted in the samples; None where they were not kept."""
        return Sampled.of(stored(self.run, SAMPLES, Sample)) if has_records(self.run, SAMPLES) else None

    @property
    def price_per_hour(self) -> float | None:
        """The price that the recipe gives."""
        price = self.run.manifest.recipe.get("price_per_hour")
        return float(price) if isinstance(price, int | float) else None

    @property
    def bill(self) -> Bill | None:
        """What the evaluation took; None where there is no record of it, or it goes on.

        Of an unfinished one, samples and times are on record that are not in the grid.
        """
        if self.grid is None or self.left_out or not self.efforts:
            return None
        return bill_of(self.grid, self.efforts, sampled=self.sampled, price_per_hour=self.price_per_hour)

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the debates that were kept."""
        if has_records(self.run, TRANSCRIPTS):
            yield from stored(self.run, TRANSCRIPTS, Transcript)


def read_grid(run: StoredRun) -> Grid | None:
    """Return the scores of a finished evaluation in their places; None before there are any."""
    plan = _plan(run)
    return None if plan is None else Grid.of(stored(run, SCORES, Score), plan)


def read_summary(run: StoredRun) -> Summary | None:
    """Return what the run's scores say; None before the evaluation has any."""
    grid = read_grid(run)
    return None if grid is None else summary_of(grid)


def read_bill(run: StoredRun) -> Bill | None:
    """Return what the run's evaluation took; None where there is no record of it."""
    return Source.of(run).bill


def has_records(run: StoredRun, name: str) -> bool:
    """Say whether a run has records of this name."""
    return name in run.record_names()


def stored(run: StoredRun, name: str, kind: type[T]) -> StoredRecords[T]:
    """Return records of a run; unlike `run.records` also while the run is open for writing, as another type."""
    return StoredRecords(run.path("records", f"{name}.jsonl"), kind)


def training_records(run: StoredRun, role: str, file: str) -> Path | None:
    """Return the path of a training's record file, None where that training has not begun."""
    path = run.path(role, file)
    return path if path.is_file() else None


def _finished(run: StoredRun) -> tuple[Grid | None, LeftOut]:
    plan = _plan(run)
    return (None, LeftOut()) if plan is None else Grid.of_finished(stored(run, SCORES, Score), plan)


def _plan(run: StoredRun) -> EvaluationPlan | None:
    path = run.path(PLAN_FILE)
    if not path.is_file() or not has_records(run, SCORES) or not len(stored(run, SCORES, Score)):
        return None
    return EvaluationPlan.from_json(path.read_text(encoding="utf-8"))


def _efforts(run: StoredRun) -> list[Effort]:
    return list(stored(run, EFFORT, Effort)) if has_records(run, EFFORT) else []
