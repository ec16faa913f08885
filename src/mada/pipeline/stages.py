"""The method as a list: what is done, in which order, and what each stage leaves (Algorithm 2)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import JsonValue

from mada.errors import RunError
from mada.evaluation.effort import EFFORT
from mada.evaluation.plan import PLAN_FILE
from mada.evaluation.samples import SAMPLES
from mada.evaluation.scores import SCORES, TRANSCRIPTS
from mada.pipeline.context import Context
from mada.pipeline.critic_data import critic_data
from mada.pipeline.evaluate import evaluate
from mada.pipeline.outline import OUTLINE
from mada.pipeline.report import report
from mada.pipeline.screen import SCREENINGS, screen
from mada.pipeline.split import PROBLEMS, SPLIT_FILE, split
from mada.pipeline.training import critics, generators
from mada.recipe import Recipe
from mada.report.reading import CRITIC_EXAMPLES


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
    StageOfMethod("generators", generators, ("generators", "adapters/generator-*")),
    StageOfMethod("critic-data", critic_data, (f"records/{CRITIC_EXAMPLES}.jsonl",)),
    StageOfMethod("critics", critics, ("critics", "adapters/critic-*")),
    StageOfMethod(
        "evaluate",
        evaluate,
        (PLAN_FILE, *(f"records/{name}.jsonl" for name in (SCORES, TRANSCRIPTS, SAMPLES, EFFORT))),
    ),
    StageOfMethod("report", report, ("report.md", "report.html", "report")),
)
NAMES = tuple(stage.name for stage in STAGES)


def stages_of(recipe: Recipe) -> tuple[StageOfMethod, ...]:
    """Return the stages that a recipe has.

    Problems are screened where the recipe says so; a team without critics, or of one round, trains none.
    """
    left_out = () if recipe.data.screen else ("screen",)
    if not recipe.team.critics or recipe.team.rounds == 1:
        left_out += ("critic-data", "critics")
    return tuple(stage for stage in STAGES if stage.name not in left_out)


def chosen(recipe: Recipe, *, first: str | None = None, last: str | None = None) -> tuple[StageOfMethod, ...]:
    """Return the stages from one to another, both included."""
    stages = stages_of(recipe)
    names = [stage.name for stage in stages]
    for name in (first, last):
        if name is not None and name not in names:
            raise RunError(f"{name!r} is no stage of this recipe; its stages are {', '.join(names)}")
    start = names.index(first) if first else 0
    end = names.index(last) if last else len(names) - 1
    if end < start:
        raise RunError(f"{last} comes before {first}; the stages are {', '.join(names)}")
    return stages[start : end + 1]
