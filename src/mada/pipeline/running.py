"""Running a recipe: stage after stage, finished ones skipped, an unfinished one resumed."""

import asyncio
import shutil

from mada.errors import RunError
from mada.pipeline.context import Context
from mada.pipeline.observing import RunObserver
from mada.pipeline.stages import StageOfMethod, chosen
from mada.recipe import Recipe
from mada.run import Run
from mada.run.stored import accessible


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
    asyncio.run(_run(Context(run, recipe, watch), wanted))


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


async def _run(context: Context, stages: tuple[StageOfMethod, ...]) -> None:
    for number, stage in enumerate(stages, start=1):
        mark = context.run.stage(stage.name)
        if mark.mark is not None:
            context.watch.stage_skipped(mark.mark)
            continue
        context.watch.stage_started(stage.name, number, len(stages))
        with mark:
            mark.summarize(await stage.function(context))
        assert mark.mark is not None
        context.watch.stage_done(mark.mark)
