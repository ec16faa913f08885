"""`mada run` and `mada evaluate` as functions, for scripts and notebooks (a running event loop does not matter)."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mada.events import Events
from mada.pipeline.evaluations import evaluation_of_file
from mada.pipeline.preflight import check_recipe
from mada.pipeline.running import changed_keys, evaluate_and_report, run_recipe
from mada.pipeline.stages import stage_names
from mada.recipe import Recipe, load_recipe
from mada.recipe.evaluation_file import EvaluationRecipe, evaluation_of, load_evaluation
from mada.recipe.loading import overridden
from mada.runs import Run, StoredRun
from mada.runs.folder import mark_path


def run(
    recipe: Recipe | str | Path,
    folder: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    first: str | None = None,
    last: str | None = None,
    events: Events | None = None,
) -> StoredRun:
    """Run a recipe, as `mada run` does, and return the run to read: `run("recipes/quickstart.toml")`.

    `recipe` is a recipe or its file, with `overrides` such as `"training.steps=20"`; `folder` is `runs/NAME` by
    default. Stages that are finished are skipped and an unfinished one resumes, so the same call continues a run that
    was stopped. `first` does a stage and all after it again; `last` stops after a stage. `events` get what happens.
    """
    chosen = (
        overridden(recipe, overrides) if isinstance(recipe, Recipe) else load_recipe(Path(recipe), overrides=overrides)
    )
    place = Path(folder) if folder else Path("runs") / chosen.name
    changed = changed_keys(place, chosen, first=first, command=f"mada run --run {shlex.quote(str(place))}")
    again = stage_names(chosen, first=first) if first else ()
    names = stage_names(chosen, last=last)
    check_recipe(chosen, [name for name in names if name in again or not mark_path(place, name).exists()])
    with Run.open(place, chosen, changed=changed) as opened:
        run_recipe(opened, chosen, events=events or Events(), first=first, last=last)
    return StoredRun.read(place)


def evaluate(
    evaluation: EvaluationRecipe | Mapping[str, Any] | str | Path,
    folder: str | Path | None = None,
    *,
    reuse: Sequence[str | Path] = (),
    events: Events | None = None,
) -> StoredRun:
    """Evaluate systems on benchmarks, as `mada evaluate FILE` does, and return the results to read.

    `evaluation` is an evaluation file, or its content as a mapping; `folder` is `runs/NAME` by default. Samples that
    an evaluation in `reuse` has are not drawn again. The same call continues an evaluation that was stopped.
    """
    if isinstance(evaluation, Mapping):
        recipe = evaluation_of(evaluation, where="the evaluation")
    else:
        recipe = evaluation if isinstance(evaluation, EvaluationRecipe) else load_evaluation(Path(evaluation))
    place = Path(folder) if folder else Path("runs") / recipe.name
    earlier = [StoredRun.read(one) for one in reuse]
    planned = evaluation_of_file(recipe)
    planned.check()
    with Run.open(place, recipe) as opened:
        evaluate_and_report(opened, planned, events=events or Events(), earlier=earlier)
    return StoredRun.read(place)
