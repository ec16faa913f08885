"""The method as a list: what is done, in which order, and what each stage leaves (Algorithm 2)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from mada.evaluation.effort import EFFORT
from mada.evaluation.plan import PLAN_FILE
from mada.evaluation.samples import SAMPLES
from mada.evaluation.scores import SCORES, TRANSCRIPTS
from mada.pipeline.context import Context
from mada.pipeline.critic_data import critic_data
from mada.pipeline.evaluate import evaluate
from mada.pipeline.outline import OUTLINE, stage_names
from mada.pipeline.report import report
from mada.pipeline.screen import SCREENINGS, screen
from mada.pipeline.split import PROBLEMS, SPLIT_FILE, split
from mada.pipeline.training import critics, generators
from mada.recipe import Recipe
from mada.report.reading import CRITIC_EXAMPLES
from mada.run.folder import mark_path


@dataclass(frozen=True, slots=True)
class StageOfMethod:
    """A stage: a function from the recipe and earlier files to new files, and what it leaves.

    `leaves` are the files and folders it makes, as patterns; they go when it is to be done again.
    """

    name: str
    function: Callable[[Context], Awaitable[dict[str, JsonValue]]]
    leaves: tuple[str, ...]

    @property
    def does(self) -> str:
        """What to say of it."""
        return OUTLINE[self.name]


STAGES: tuple[StageOfMethod, ...] = (
    StageOfMethod("split", split, (SPLIT_FILE, f"records/{PROBLEMS}.jsonl")),
    StageOfMethod("screen", screen, (f"records/{SCREENINGS}.jsonl",)),
    StageOfMethod("generators", generators, ("generators", "adapters/generator-*", "tensorboard/*-generators")),
    StageOfMethod("critic-data", critic_data, (f"records/{CRITIC_EXAMPLES}.jsonl",)),
    StageOfMethod("critics", critics, ("critics", "adapters/critic-*", "tensorboard/*-critics")),
    StageOfMethod(
        "evaluate",
        evaluate,
        (
            PLAN_FILE,
            *(f"records/{name}.jsonl" for name in (SCORES, TRANSCRIPTS, SAMPLES, EFFORT)),
            "tensorboard/*-evaluate",
        ),
    ),
    StageOfMethod("report", report, ("report.md", "report.html", "report")),
)
NAMES = tuple(stage.name for stage in STAGES)


def chosen(recipe: Recipe, *, first: str | None = None, last: str | None = None) -> tuple[StageOfMethod, ...]:
    """Return the stages of a recipe from one to another, both included."""
    names = stage_names(recipe, first=first, last=last)
    return tuple(stage for stage in STAGES if stage.name in names)


def from_stage(first: str) -> tuple[StageOfMethod, ...]:
    """Return a stage and all after it, those too that a recipe leaves out: another recipe may have done them."""
    return STAGES[[stage.name for stage in STAGES].index(first) :]


def has_begun(folder: Path, stage: StageOfMethod) -> bool:
    """Whether a stage has finished in a run's folder, or left something there."""
    return mark_path(folder, stage.name).exists() or any(next(folder.glob(one), None) for one in stage.leaves)
