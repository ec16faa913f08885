"""Using another run's generators: a run that differs only in its critics need not train them again."""

import shutil

from mada.pipeline.screen import SCREENINGS
from mada.pipeline.split import PROBLEMS, SPLIT_FILE
from mada.pipeline.stages import chosen
from mada.recipe import Recipe
from mada.report.reading import CRITIC_EXAMPLES
from mada.run import Run, StoredRun
from mada.team.seats import ADAPTERS

_FILES = (SPLIT_FILE, *(f"records/{name}.jsonl" for name in (PROBLEMS, SCREENINGS, CRITIC_EXAMPLES)))


def shared_stages(recipe: Recipe) -> tuple[str, ...]:
    """Return the stages of a recipe that come before its critics."""
    return tuple(stage.name for stage in chosen(recipe, last="critic-data"))


def borrow_stages(source: StoredRun, target: Run, recipe: Recipe) -> None:
    """Copy what all stages before the critics made, and their marks, unless the run has them already."""
    shared = shared_stages(recipe)
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
