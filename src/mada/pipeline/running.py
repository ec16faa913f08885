"""Running a recipe: stage after stage, finished ones skipped, an unfinished one resumed."""

import asyncio
import gc
import shutil
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from pydantic import JsonValue

from mada.errors import RunError
from mada.pipeline.context import Context
from mada.pipeline.observing import RunObserver
from mada.pipeline.stages import StageOfMethod, chosen
from mada.recipe import Recipe
from mada.run import Run
from mada.run.stored import accessible

Work = Callable[[], Awaitable[dict[str, JsonValue]]]
"""Does a part of a run, and returns what there is to say of it."""


def run_recipe(
    run: Run, recipe: Recipe, *, watch: RunObserver, first: str | None = None, last: str | None = None
) -> None:
    """Do the stages of a recipe up to `last`. `first` forgets what it and later stages did, and does them again."""
    wanted = chosen(recipe, last=last)
    if first is not None:
        again = chosen(recipe, first=first)
        chosen(recipe, first=first, last=last)
        refuse_gaps(run, recipe, before=first)
        for stage in reversed(again):
            forget(run, stage)
    context = Context(run, recipe, watch)
    stages = [(stage.name, partial(stage.function, context)) for stage in wanted]
    asyncio.run(do_stages(run, stages, watch=watch))


def refuse_gaps(run: Run, recipe: Recipe, *, before: str) -> None:
    """Raise unless all stages before a stage are finished."""
    *earlier, _ = chosen(recipe, last=before)
    for stage in earlier:
        if not run.stage(stage.name).is_done:
            raise RunError(
                f"{before} needs the stage {stage.name}, which is not finished in {run.folder}; "
                f"`mada run --run {run.folder} --until {stage.name}` does it"
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


async def do_stages(run: Run, stages: Sequence[tuple[str, Work]], *, watch: RunObserver) -> None:
    """Do named parts of a run one after another; what has a mark is skipped."""
    for number, (name, work) in enumerate(stages, start=1):
        mark = run.stage(name)
        if mark.mark is not None:
            watch.stage_skipped(mark.mark)
            continue
        watch.stage_started(name, number, len(stages))
        with mark:
            mark.summarize(await work())
        # A model whose activations are recomputed refers to itself; the next stage needs its memory.
        gc.collect()
        assert mark.mark is not None
        watch.stage_done(mark.mark)
