"""The stages by name, and what each does: what commands need to know before anything heavy is loaded."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from mada.errors import RunError

if TYPE_CHECKING:
    from mada.recipe import Recipe

OUTLINE: Mapping[str, str] = {
    "split": "cut the training problems",
    "screen": "find what can be learnt from",
    "generators": "train the generators",
    "critic-data": "let the generators answer",
    "critics": "train the critics",
    "evaluate": "measure the team and its rivals",
    "report": "write the report",
}

RESULTS: Mapping[str, tuple[str, ...]] = {
    "split": ("split.json", "records/problems.jsonl"),
    "screen": ("records/screenings.jsonl",),
    "generators": ("adapters/generator-*/*",),
    "critic-data": ("records/critic-examples.jsonl",),
    "critics": ("adapters/critic-*/*",),
    "evaluate": ("evaluation.json", "records/scores.jsonl", "records/transcripts.jsonl", "records/effort.jsonl"),
}
"""Files that a stage's mark has digests of. A report may be written again at any time."""


def touched_stages(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the stages that change with these keys of a recipe: the first that one touches, and all after it."""
    from mada.recipe.schema import first_stage

    names = list(OUTLINE)
    return tuple(names[min((names.index(stage) for key in keys if (stage := first_stage(key))), default=len(names)) :])


def touches(key: str, stages: Collection[str]) -> bool:
    """Whether a key of a recipe touches one of these stages."""
    return not set(stages).isdisjoint(touched_stages([key]))


def stage_names(recipe: "Recipe", *, first: str | None = None, last: str | None = None) -> tuple[str, ...]:
    """Return the stages that a recipe has, from one to another, both included, or say why there are none.

    Problems are screened where the recipe says so; a team without critics, or of one round, trains none.
    """
    left_out = () if recipe.data.screen else ("screen",)
    if not recipe.team.critics or recipe.team.rounds == 1:
        left_out += ("critic-data", "critics")
    names = [name for name in OUTLINE if name not in left_out]
    for name in (first, last):
        if name is not None and name not in names:
            raise RunError(f"{name!r} is no stage of this recipe; its stages are {', '.join(names)}")
    start = names.index(first) if first else 0
    end = names.index(last) if last else len(names) - 1
    if end < start:
        raise RunError(f"{last} comes before {first}; the stages are {', '.join(names)}")
    return tuple(names[start : end + 1])
