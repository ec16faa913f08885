"""Reading a run for its report: scores, samples, times and debates from its records; no model is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from mada.evaluation.costs import USAGE, EvaluationCost, Usage, evaluation_cost
from mada.evaluation.grid import Grid, Omitted
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.sample_cache import SAMPLES, Sample, SampleCounts
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript
from mada.evaluation.summary import Summary, summarize
from mada.evaluation.transitions import DebateTransitions, debate_transitions
from mada.runs import StoredRecords, StoredRun

CRITIC_EXAMPLES = "critic-examples"
ABLATIONS = "ablations"
"""The folder within a run that holds the evaluation of its ablations, itself a run."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """A run that a report is about; `title` tells it from others. What is not there yet is None or empty."""

    title: str
    run: StoredRun
    grid: Grid | None
    left_out: Omitted
    """Seeds and systems whose evaluation is not finished; they are not in the grid."""
    ablations: Grid | None
    efforts: tuple[Usage, ...]

    @classmethod
    def of(cls, run: StoredRun, *, title: str | None = None) -> Self:
        """Read what the run has."""
        folder = run.path(ABLATIONS)
        ablations, missing = _finished(StoredRun.read(folder)) if (folder / PLAN_FILE).is_file() else (None, Omitted())
        run.check_results("evaluate")
        grid, left_out = _finished(run)
        # A table of some of the ablations would not say that others are missing.
        complete = None if missing.systems else ablations
        return cls(title or run.manifest.name, run, grid, left_out, complete, tuple(stored(run, USAGE, Usage)))

    @property
    def price_per_hour(self) -> float | None:
        """The price that the recipe gives."""
        price = self.run.manifest.recipe.get("price_per_hour")
        return float(price) if isinstance(price, int | float) else None

    @property
    def cost(self) -> EvaluationCost | None:
        """The cost of the evaluation; None where it is not on record, or not finished.

        Of an unfinished one, samples and times are on record that are not in the grid.
        """
        if self.grid is None or self.left_out or not self.efforts:
            return None
        samples = stored(self.run, SAMPLES, Sample)
        sampled = None if isinstance(samples, tuple) else SampleCounts.of(samples)  # None where samples were not kept
        return evaluation_cost(self.grid, self.efforts, sampled=sampled, price_per_hour=self.price_per_hour)

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the debates that were kept."""
        yield from stored(self.run, TRANSCRIPTS, Transcript)


def run_title(source: Source, sources: Sequence[Source]) -> str:
    """Return the title of one of several runs, and nothing where it is the only one."""
    return source.title if len(sources) > 1 else ""


def evaluated(sources: Sequence[Source]) -> list[tuple[str, Grid]]:
    """Return title and scores of the runs that have any; the title of a single run is empty."""
    return [(run_title(source, sources), source.grid) for source in sources if source.grid]


def shown_debates(grid: Grid) -> Iterator[tuple[PlannedSystem, DebateTransitions]]:
    """Yield the transitions of all shown debates; families are left out, each an average of unlike teams."""
    for system in grid.plan.shown_systems:
        # Judges and best-of-n have votes in their rounds too, but no vote is their answer.
        if system.is_debate and not system.members and (transitions := debate_transitions(grid, system)):
            yield system, transitions


def read_grid(run: StoredRun) -> Grid | None:
    """Return the scores of a finished evaluation; None before there are any."""
    plan = _plan(run)
    return None if plan is None else Grid.of(stored(run, SCORES, Score), plan)


def read_summary(run: StoredRun) -> Summary | None:
    """Return the summary of a run's scores; None before there are any."""
    grid = read_grid(run)
    return None if grid is None else summarize(grid)


def stored(run: StoredRun, name: str, kind: type[T]) -> StoredRecords[T] | tuple[T, ...]:
    """Return records of a run, none where it has none; unlike `run.records` while the run is open for writing too."""
    return StoredRecords(run.path("records", f"{name}.jsonl"), kind) if name in run.record_names() else ()


def _finished(run: StoredRun) -> tuple[Grid | None, Omitted]:
    plan = _plan(run)
    return (None, Omitted()) if plan is None else Grid.of_finished(stored(run, SCORES, Score), plan)


def _plan(run: StoredRun) -> EvaluationPlan | None:
    path = run.path(PLAN_FILE)
    if not path.is_file() or not len(stored(run, SCORES, Score)):
        return None
    return EvaluationPlan.from_json(path.read_text(encoding="utf-8"))
