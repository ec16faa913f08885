"""Running a recipe: stage after stage, finished ones skipped, an unfinished one resumed."""

import gc
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from mada.agents import ADAPTERS, recipe_of
from mada.concurrency import run_sync
from mada.difference import differences, format_differences
from mada.errors import RunError
from mada.events import Events, StageFinished, StageSkipped, StageStarted
from mada.pipeline.context import Context
from mada.pipeline.critic_data import critic_data
from mada.pipeline.evaluate import STAGE, check_inputs, evaluate, run_evaluation
from mada.pipeline.evaluations import Evaluation
from mada.pipeline.live import LiveFiles
from mada.pipeline.results import ReportResult, StageResult
from mada.pipeline.screen import screen
from mada.pipeline.split import split
from mada.pipeline.stages import (
    Stage,
    affected_stages,
    affects,
    generator_stages,
    stage_named,
    stage_names,
    stages_from,
)
from mada.pipeline.training import critics, generators
from mada.recipe import Recipe
from mada.report.publishing import publish_run
from mada.runs import Run, StoredRun
from mada.runs.folder import accessible
from mada.runs.manifest import FILE as MANIFEST
from mada.runs.manifest import recipe_differences


async def report(context: Context) -> ReportResult:
    """Write the report (stage 6) from the stored records alone."""
    return await write_report(context.run)


async def write_report(run: Run) -> ReportResult:
    """Write a run's page, text, tables and figures."""
    written = publish_run(run)
    return ReportResult(file=written.page.name, content=str(written))


FUNCTIONS: Mapping[str, Callable[[Context], Awaitable[StageResult]]] = {
    "split": split,
    "screen": screen,
    "generators": generators,
    "critic-data": critic_data,
    "critics": critics,
    "evaluate": evaluate,
    "report": report,
}


def run_recipe(
    run: Run,
    recipe: Recipe,
    *,
    events: Events,
    first: str | None = None,
    last: str | None = None,
    generators_from: StoredRun | None = None,
) -> None:
    """Do the stages of a recipe up to `last`. `first` removes what it and later stages did, and does them again.

    `generators_from` is a run whose generators and critic data are copied.
    """
    names = stage_names(recipe, last=last)
    if first is not None:
        stage_names(recipe, first=first, last=last)
        refuse_gaps(run, recipe, before=first)
        for stage in reversed(stages_from(first)):
            remove_stage(run, stage)
    run.adopt_recipe(recipe)  # once the results of an earlier recipe are gone, so that no kill leaves both
    if generators_from is not None:
        copy_generators(generators_from, run, recipe)
    with LiveFiles(run.folder) as live:
        context = Context(run, recipe, Events(events, live))
        run_sync(_do_stages(run, {name: partial(FUNCTIONS[name], context) for name in names}, events=context.events))


def evaluate_and_report(
    run: Run, evaluation: Evaluation, *, events: Events, earlier: Collection[StoredRun] = ()
) -> None:
    """Run an evaluation in a folder of its own and write its report; what is done is not done again."""
    check_inputs(run, evaluation)
    with LiveFiles(run.folder) as live:
        events = Events(events, live)
        evaluate_run = partial(run_evaluation, run, evaluation, events=events, earlier=earlier)
        run_sync(_do_stages(run, {STAGE: evaluate_run, "report": partial(write_report, run)}, events=events))


async def _do_stages(run: Run, stages: Mapping[str, Callable[[], Awaitable[StageResult]]], *, events: Events) -> None:
    for number, (name, function) in enumerate(stages.items(), start=1):
        if (mark := run.mark(name)) is not None:
            run.check_results(name)
            events.emit(StageSkipped(mark))
            continue
        events.emit(StageStarted(name, number, len(stages)))
        with run.stage(name) as stage:
            result = await function()
            stage.summarize(result.to_summary())
            files = (path for pattern in stage_named(name).results for path in sorted(run.folder.glob(pattern)))
            stage.add_results(files)
        # A model whose activations are recomputed refers to itself; the next stage needs its memory.
        gc.collect()
        mark = run.mark(name)
        assert mark is not None
        events.emit(StageFinished(mark))


# --- going on with a run, and doing stages again


def changed_keys(folder: Path, recipe: Recipe, *, first: str | None, command: str) -> tuple[str, ...]:
    """Return the keys of a recipe that are new to a run; raise RunError if something that the run keeps depends on one.

    `first` is the stage from which on everything is done again. The error names the differences, and what to add to
    `command` to do the affected stages again.
    """
    if not (folder / MANIFEST).exists():
        return ()
    stored = StoredRun.read(folder)
    found = recipe_differences(stored.manifest.recipe, recipe)
    affected = affected_stages(one.key for one in found)
    keys = tuple(one.key for one in found if affected_stages([one.key]))
    if not keys or not stored.finished_stages():
        return keys
    begun = [stage.name for stage in stages_from(affected[0]) if stage.has_begun(stored.folder)]
    redone = [] if first is None else [stage.name for stage in stages_from(first)]
    if set(begun).issubset(redone):
        return keys
    again = next(name for name in stage_names(recipe) if name in affected)
    different = [one for one in found if one.key in keys]
    raise RunError(
        f"{folder} was started with another recipe (stored → given):\n{format_differences(different)}\n"
        f"This changes {', '.join(begun)}. To do that again and keep what comes before: {command} --from {again}"
    )


def refuse_gaps(run: Run, recipe: Recipe, *, before: str) -> None:
    """Raise RunError unless all stages before a stage are finished."""
    *earlier, _ = stage_names(recipe, last=before)
    for name in earlier:
        if run.mark(name) is None:
            raise RunError(
                f"{before} needs the stage {name}, which is not finished in {run.folder}; "
                f"`mada run --run {run.folder} --until {earlier[-1]}` does it"
            )


def remove_stage(run: Run, stage: Stage) -> None:
    """Remove a stage's mark, then what it made."""
    run.clear_stage(stage.name)
    for path in stage.paths(run.folder):
        if not path.exists() and not path.is_symlink():
            continue  # went with its folder
        with accessible(path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


# --- generators of another run: a run that differs only in its critics need not train them again


def check_generators_source(source: StoredRun, recipe: Recipe) -> None:
    """Raise RunError unless a run's generators and their answers are those that this recipe would come to."""
    done = {mark.name for mark in source.finished_stages()}
    shared = generator_stages(recipe)
    missing = [name for name in shared if name not in done]
    if missing:
        raise RunError(
            f"{source.folder} has no trained generators yet ({missing[0]} is missing); "
            f"`mada run --run {source.folder} --until critic-data` goes on with it"
        )
    others = [one for one in differences(recipe_of(source), recipe) if affects(one.key, shared)]
    if others:
        raise RunError(
            f"the generators of {source.folder} are not those of this recipe:\n{format_differences(others)}\n"
            "Only what comes after them may differ: critics, what they see of responses, rounds and evaluation"
        )


def copy_generators(source: StoredRun, target: Run, recipe: Recipe) -> None:
    """Copy the results and marks of all stages before the critics, unless the run has them already."""
    shared = generator_stages(recipe)
    for name in shared:
        source.check_results(name)
    if all(target.mark(name) for name in shared):
        return
    for name in ("split", "screen", "critic-data"):
        for file in stage_named(name).results:
            if source.path(file).is_file():  # not every recipe has every stage
                target.path(file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source.path(file), target.path(file))
    for adapter in sorted(source.path(ADAPTERS).glob("generator-*")):
        shutil.copytree(adapter, target.path(ADAPTERS, adapter.name), dirs_exist_ok=True)
    for name in shared:  # last, because a mark says that everything is there
        target.write_bytes(f"stages/{name}.json", source.path("stages", f"{name}.json").read_bytes())
