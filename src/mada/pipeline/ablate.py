"""`mada ablate`: the ablations of a finished run, and all of its rivals (E4, B1).

Results are in the run's folder: `ablations/` is an evaluation like any other, and `no-counterfactual/` a run of the
same recipe whose critics learn with GRPO's advantage, on the same generators and the same examples (A3).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from mada.agents import ADAPTERS, AgentSpec, recipe_of, team_names
from mada.errors import RunError
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.systems import ablations_of
from mada.events import Events
from mada.pipeline.evaluations import (
    TEAM,
    AgentSpecs,
    Evaluation,
    agents_of_run,
    evaluation_of_run,
    systems_of_run,
    with_parameters,
)
from mada.pipeline.running import copy_generators, evaluate_and_report, run_recipe
from mada.pipeline.stages import generator_stages
from mada.problems import load_problems
from mada.recipe import Recipe
from mada.recipe.errors import did_you_mean
from mada.recipe.schema import Count, Names, OrNone, Positive, SampleCount, Section, Seed, Text
from mada.runs import Run, StoredRun

FOLDER = "ablations"
NO_COUNTERFACTUAL = "no-counterfactual"


class AblationRecipe(Section):
    """What decides the numbers of a run's ablations: the run, and what it is measured on."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = ("price_per_hour",)

    name: Text
    """What tables call it."""
    seed: Seed
    """The run's own, so that the samples of its evaluation are used again."""
    recipe: Text
    """Digest of the run's recipe."""
    benchmarks: Names
    """Benchmarks by known name or path."""
    seeds: SampleCount
    """Times every system answers every benchmark."""
    problems: OrNone[Count] = None
    """Problems of each benchmark, the first ones; none means all."""
    systems: OrNone[Names] = None
    """Ablations and rivals beside the team itself, families by their name; none means all of them."""
    price_per_hour: OrNone[Positive] = None
    """Price of an hour of the device, for costs in money."""


def ablate(
    folder: Path,
    *,
    events: Events,
    seeds: int | None = None,
    problems: int | None = None,
    benchmarks: tuple[str, ...] | None = None,
    systems: tuple[str, ...] | None = None,
    price_per_hour: float | None = None,
    reuse: Sequence[StoredRun] = (),
    out: Path | None = None,
) -> Path:
    """Evaluate all ablations and rivals of a run, train critics for one of them, and return the results' folder.

    `systems` selects some of them; the team itself is always evaluated. What is not given is as in the run's recipe.
    Equal samples of the run, and of evaluations to `reuse`, are used again.
    """
    stored = StoredRun.read(folder)
    recipe = recipe_of(stored)
    _refuse_unfinished(stored, recipe)
    own = recipe.evaluation
    wanted = AblationRecipe(
        name=f"{recipe.name}: ablations",
        seed=recipe.seed,
        recipe=stored.manifest.recipe_digest,
        benchmarks=benchmarks or own.benchmarks,
        seeds=seeds or own.seeds,
        problems=problems or own.problems,
        systems=systems,
        price_per_hour=price_per_hour,
    )
    _refuse_unknown(wanted, recipe)
    target = out or stored.folder / FOLDER
    for name in wanted.benchmarks:  # a mistake in a name should not leave a folder behind
        load_problems(name, folder=recipe.data.folder, limit=wanted.problems)
    with Run.open(target, wanted) as run:
        other = None
        if wanted.systems is None or NO_COUNTERFACTUAL in wanted.systems:
            other = _train_without(stored, recipe, stored.folder / NO_COUNTERFACTUAL, events=events)
        evaluation = _evaluation(recipe, stored.folder, wanted, other)
        evaluate_and_report(run, evaluation, events=events, earlier=[stored, *reuse])
    return target


def _refuse_unfinished(run: StoredRun, recipe: Recipe) -> None:
    done = {mark.name for mark in run.finished_stages()}
    if not team_names(recipe)[1]:
        raise RunError(f"{run.folder} has a team without critics or of one round; there is nothing to ablate")
    missing = [name for name in (*generator_stages(recipe), "critics") if name not in done]
    if missing:
        raise RunError(
            f"{run.folder} has not finished its training ({missing[0]} is missing); "
            f"`mada run --run {run.folder}` goes on with it"
        )


def _systems(recipe: Recipe, no_counterfactual: Sequence[str], specs: AgentSpecs | None = None) -> list[PlannedSystem]:
    """Return all that can be measured: a run's own systems, and the ablations of its team."""
    generators, critics = team_names(recipe)
    ablations = ablations_of(generators, critics, rounds=recipe.team.rounds, no_counterfactual=tuple(no_counterfactual))
    return [*systems_of_run(recipe, specs), *ablations]


def _refuse_unknown(wanted: AblationRecipe, recipe: Recipe) -> None:
    others = team_names(recipe)[1] if recipe.critics.advantage == "counterfactual" else ()
    # A member is measured with its family.
    known = [system.name for system in _systems(recipe, others) if "/" not in system.name]
    for name in wanted.systems or ():
        if name not in known:
            raise RunError(f"unknown system {name!r}{did_you_mean(name, known)} (systems: {', '.join(known)})")


def _train_without(stored: StoredRun, recipe: Recipe, folder: Path, *, events: Events) -> Path | None:
    """Train critics with GRPO's advantage on the run's examples; None if the run's own critics are such."""
    if recipe.critics.advantage != "counterfactual":
        return None
    values = recipe.model_dump()
    values["critics"]["advantage"] = "grpo"
    other = Recipe.model_validate(values)
    with Run.open(folder, other) as run:
        copy_generators(stored, run, other)
        run_recipe(run, other, events=events, last="critics")
    return folder


def _evaluation(recipe: Recipe, folder: Path, wanted: AblationRecipe, other: Path | None) -> Evaluation:
    others: dict[str, AgentSpec] = {}
    if other is not None:
        for name in team_names(recipe)[1]:
            others[f"{name}, {NO_COUNTERFACTUAL}"] = AgentSpec(recipe.model, other / ADAPTERS / name)
    specs = {**agents_of_run(recipe, folder), **others}
    names = {TEAM, *(wanted.systems or ())}
    systems = [
        system
        for system in with_parameters(_systems(recipe, tuple(others), specs), specs)
        if wanted.systems is None or system.name.split("/")[0] in names
    ]
    plan = EvaluationPlan.of(
        systems, reference=TEAM, benchmarks=wanted.benchmarks, prompt_price=recipe.evaluation.prompt_price
    )
    return replace(
        evaluation_of_run(recipe, folder), plan=plan, agents=specs, seeds=wanted.seeds, problems=wanted.problems
    )
