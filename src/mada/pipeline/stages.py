"""The method as a list (Algorithm 2): the stages in order, and what each does, leaves and depends on.

Light to import, for the command line; `running` has their functions.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mada.errors import RunError

if TYPE_CHECKING:
    from mada.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: its name, what it does, and patterns of the files it makes.

    Files that match `results` have digests in the stage's mark. All that match `files` or `results` are removed before
    the stage is done again.
    """

    name: str
    does: str
    results: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def has_begun(self, folder: Path) -> bool:
        """Whether the stage has finished in a run's folder, or left something there."""
        from mada.runs.folder import mark_path

        return mark_path(folder, self.name).exists() or any(True for _ in self.paths(folder))

    def paths(self, folder: Path) -> Iterable[Path]:
        """Return the files and folders in a run's folder that the stage made."""
        return sorted({path for pattern in (*self.results, *self.files) for path in folder.glob(pattern)})


STAGES = (
    Stage("split", "cut the training problems", results=("split.json", "records/problems.jsonl")),
    Stage("screen", "find what can be learnt from", results=("records/screenings.jsonl",)),
    Stage(
        "generators",
        "train the generators",
        results=("adapters/generator-*/*",),
        files=("generators", "adapters/generator-*", "tensorboard/*-generators"),
    ),
    Stage("critic-data", "let the generators answer", results=("records/critic-examples.jsonl",)),
    Stage(
        "critics",
        "train the critics",
        results=("adapters/critic-*/*",),
        files=("critics", "adapters/critic-*", "tensorboard/*-critics"),
    ),
    Stage(
        "evaluate",
        "measure the team and its rivals",
        results=("evaluation.json", "records/scores.jsonl", "records/transcripts.jsonl", "records/effort.jsonl"),
        files=("records/samples.jsonl", "tensorboard/*-evaluate"),
    ),
    # Without digests: a report may be written again at any time.
    Stage("report", "write the report", files=("report.md", "report.html", "report")),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)


def stage_named(name: str) -> Stage:
    """Return a stage by its name."""
    return STAGES[STAGE_NAMES.index(name)]


def stage_names(recipe: "Recipe", *, first: str | None = None, last: str | None = None) -> tuple[str, ...]:
    """Return the stages of a recipe from one to another, both included; raise RunError if there are none.

    `screen` is left out unless the recipe asks for it; a team of one round has no critics to train.
    """
    left_out = () if recipe.data.screen else ("screen",)
    if not recipe.team.critics or recipe.team.rounds == 1:
        left_out += ("critic-data", "critics")
    names = [name for name in STAGE_NAMES if name not in left_out]
    for name in (first, last):
        if name is not None and name not in names:
            raise RunError(f"this recipe has no stage {name!r}; choose from {', '.join(names)}")
    start = names.index(first) if first else 0
    end = names.index(last) if last else len(names) - 1
    if end < start:
        raise RunError(f"{last} comes before {first}; the stages are {', '.join(names)}")
    return tuple(names[start : end + 1])


def stages_from(first: str) -> tuple[Stage, ...]:
    """Return a stage and all after it, also those that a recipe leaves out: another recipe may have done them."""
    return STAGES[STAGE_NAMES.index(first) :]


def generator_stages(recipe: "Recipe") -> tuple[str, ...]:
    """Return the stages of a recipe that come before its critics: what `--generators` takes from another run."""
    return stage_names(recipe, last="critic-data")


def affected_stages(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the stages that change with these keys of a recipe: the first that depends on one, and all after it."""
    from mada.recipe.schema import first_stage

    firsts = [STAGE_NAMES.index(stage) for key in keys if (stage := first_stage(key))]
    return STAGE_NAMES[min(firsts, default=len(STAGE_NAMES)) :]


def affects(key: str, stages: Collection[str]) -> bool:
    """Whether one of these stages changes with a key of a recipe."""
    return not set(stages).isdisjoint(affected_stages([key]))
