"""Running a recipe: stage after stage, finished ones skipped, an unfinished one resumed."""

import asyncio
import gc
import shutil
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from mada.difference import format_differences
from mada.errors import RunError
from mada.events import Events, StageFinished, StageSkipped, StageStarted
from mada.pipeline.borrowing import borrow_stages
from mada.pipeline.context import Context
from mada.pipeline.outline import RESULTS, stage_names, touched_stages
from mada.pipeline.stages import StageOfMethod, chosen, from_stage, has_begun
from mada.recipe import Recipe
from mada.run import Run, StoredRun
from mada.run.folder import accessible
from mada.run.manifest import FILE as MANIFEST
from mada.run.manifest import recipe_differences

Work = Callable[[], Awaitable[dict[str, JsonValue]]]
"""Does a part of a run, and returns what there is to say of it."""


def run_recipe(
    run: Run,
    recipe: Recipe,
    *,
    events: Events,
    first: str | None = None,
    last: str | None = None,
    lender: StoredRun | None = None,
) -> None:
    """Do the stages of a recipe up to `last`. `first` forgets what it and later stages did, and does them again.

    A `lender` is a run whose generators and critic data are taken.
    """
    wanted = chosen(recipe, last=last)
    if first is not None:
        chosen(recipe, first=first, last=last)
        refuse_gaps(run, recipe, before=first)
        for stage in reversed(from_stage(first)):
            forget(run, stage)
    run.adopt_recipe(recipe)  # when what an earlier recipe made is gone, so that no kill leaves both
    if lender is not None:
        borrow_stages(lender, run, recipe)
    context = Context(run, recipe, events)
    stages = [(stage.name, partial(stage.function, context)) for stage in wanted]
    asyncio.run(do_stages(run, stages, events=events))


def changed_keys(folder: Path, recipe: Recipe, *, first: str | None, command: str) -> tuple[str, ...]:
    """Return the keys of a recipe that are new to a run, if nothing that the run keeps depends on them.

    `first` is the stage from which on everything is done again. Otherwise the error names what is different and the
    command, which begins as `command`, that does again what depends on it.
    """
    if not (folder / MANIFEST).exists():
        return ()
    stored = StoredRun.read(folder)
    found = recipe_differences(stored.manifest.recipe, recipe)
    touched = touched_stages(one.key for one in found)
    keys = tuple(one.key for one in found if touched_stages([one.key]))
    if not keys or not stored.finished_stages():
        return keys
    begun = [stage.name for stage in from_stage(touched[0]) if has_begun(stored.folder, stage)]
    redone = [] if first is None else [stage.name for stage in from_stage(first)]
    if set(begun).issubset(redone):
        return keys
    again = next(name for name in stage_names(recipe) if name in touched)
    different = [one for one in found if one.key in keys]
    raise RunError(
        f"{folder} was started with another recipe (stored → given):\n{format_differences(different)}\n"
        f"This changes {', '.join(begun)}. To do that again and keep what comes before: {command} --from {again}"
    )


def refuse_gaps(run: Run, recipe: Recipe, *, before: str) -> None:
    """Raise unless all stages before a stage are finished."""
    *earlier, _ = chosen(recipe, last=before)
    for stage in earlier:
        if not run.stage(stage.name).is_done:
            raise RunError(
                f"{before} needs the stage {stage.name}, which is not finished in {run.folder}; "
                f"`mada run --run {run.folder} --until {earlier[-1].name}` does it"
            )


def forget(run: Run, stage: StageOfMethod) -> None:
    """Remove a stage's mark, then what it made."""
    run.clear_stage(stage.name)
    for pattern in stage.leaves:
        for path in sorted(run.folder.glob(pattern)):
            with accessible(path):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


async def do_stages(run: Run, stages: Sequence[tuple[str, Work]], *, events: Events) -> None:
    """Do named parts of a run one after another; what has a mark is skipped."""
    for number, (name, work) in enumerate(stages, start=1):
        mark = run.stage(name)
        if mark.mark is not None:
            run.check_results(name)
            events.emit(StageSkipped(mark.mark))
            continue
        events.emit(StageStarted(name, number, len(stages)))
        with mark:
            mark.summarize(await work())
            mark.note_results(path for pattern in RESULTS.get(name, ()) for path in sorted(run.folder.glob(pattern)))
        # A model whose activations are recomputed refers to itself; the next stage needs its memory.
        gc.collect()
        assert mark.mark is not None
        events.emit(StageFinished(mark.mark))
