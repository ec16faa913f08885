"""Using another run's generators: a run that differs only in its critics need not train them again."""

import shutil

from mada.errors import RunError
from mada.pipeline.outline import touches
from mada.pipeline.screen import SCREENINGS
from mada.pipeline.split import PROBLEMS, SPLIT_FILE
from mada.pipeline.stages import chosen
from mada.recipe import Recipe, diff_recipes, format_differences
from mada.report.reading import CRITIC_EXAMPLES
from mada.run import Run, StoredRun
from mada.team.seats import ADAPTERS, recipe_of

_FILES = (SPLIT_FILE, *(f"records/{name}.jsonl" for name in (PROBLEMS, SCREENINGS, CRITIC_EXAMPLES)))


def shared_stages(recipe: Recipe) -> tuple[str, ...]:
    """Return the stages of a recipe that come before its critics."""
    return tuple(stage.name for stage in chosen(recipe, last="critic-data"))


def refuse_lender(source: StoredRun, recipe: Recipe) -> None:
    """Raise unless a run's generators and their answers are those that this recipe would have come to."""
    done = {mark.name for mark in source.finished_stages()}
    shared = shared_stages(recipe)
    missing = [name for name in shared if name not in done]
    if missing:
        raise RunError(
            f"{source.folder} has no generators to lend yet ({missing[0]} is missing); "
            f"`mada run --run {source.folder} --until critic-data` goes on with it"
        )
    others = [one for one in diff_recipes(recipe_of(source), recipe) if touches(one.key, shared)]
    if others:
        raise RunError(
            f"the generators of {source.folder} are not those of this recipe:\n{format_differences(others)}\n"
            "Only what comes after them may differ: critics, what they see of responses, rounds and evaluation"
        )


def borrow_stages(source: StoredRun, target: Run, recipe: Recipe) -> None:
    """Copy what all stages before the critics made, and their marks, unless the run has them already."""
    shared = shared_stages(recipe)
    for name in shared:
        source.check_results(name)
    if all(target.stage(name).is_done for name in shared):
        return
    for name in _FILES:
        if source.path(name).is_file():  # not every recipe has every stage
            target.path(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.path(name), target.path(name))
    for adapter in sorted(source.path(ADAPTERS).glob("generator-*")):
        shutil.copytree(adapter, target.path(ADAPTERS, adapter.name), dirs_exist_ok=True)
    for name in shared:  # last, because a mark says that everything is there
        target.write_bytes(f"stages/{name}.json", source.path("stages", f"{name}.json").read_bytes())
