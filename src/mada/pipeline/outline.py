"""The stages by name, and what each does: what commands need to know before anything heavy is loaded."""

from collections.abc import Mapping
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
