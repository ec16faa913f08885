"""The ablations of a finished run, and all of its rivals, in one go (E4, B1).

Everything lies in the run's folder: `ablations/` is an evaluation like any other, and `no-counterfactual/` a run of the
same recipe whose critics learn with GRPO's advantage, on the same generators and the same examples (A3).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from mada.errors import RunError
from mada.evaluation.ablations import ablations_of
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.events import Events
from mada.pipeline.borrowing import borrow_stages, shared_stages
from mada.pipeline.cast import Cast, Member
from mada.pipeline.contest import Contest, with_parameters
from mada.pipeline.evaluate import TEAM, cast_of, contest_of, systems_of
from mada.pipeline.evaluations import run_contest
from mada.pipeline.running import run_recipe
from mada.problems import load_problems
from mada.recipe import Recipe
from mada.recipe.values import Count, OrNone, Positive, Section, Seed, SomeNames, Text
from mada.recipe.wording import did_you_mean
from mada.run import Run, StoredRun
from mada.team.seats import ADAPTERS, recipe_of, team_seats

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
    benchmarks: SomeNames
    """Benchmarks by known name or path."""
    seeds: Count
    """Times every system answers every benchmark."""
    problems: OrNone[Count] = None
    """Problems of each benchmark, the first ones; none means all."""
    systems: OrNone[SomeNames] = None
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
    """Train what must be trained, evaluate every ablation and every rival, and return where the results lie.

    `systems` names some of them instead; the team itself is always there. What is not given is as in the run's recipe;
    the results lie in its folder, unless `out` is given. Samples are taken from the run, and from evaluations to
    `reuse`, where they are the very ones that are wanted.
    """
    stored = StoredRun.read(folder)
    recipe = recipe_of(stored)
    _refuse_unfinished(stored, recipe)
    evaluation = recipe.evaluation
    wanted = AblationRecipe(
        name=f"{recipe.name}: ablations",
        seed=recipe.seed,
        recipe=stored.manifest.recipe_digest,
        benchmarks=benchmarks or evaluation.benchmarks,
        seeds=seeds or evaluation.seeds,
        problems=problems or evaluation.problems,
        systems=systems,
        price_per_hour=price_per_hour,
    )
    _refuse_unknown(wanted, recipe)
    place = out or stored.folder / FOLDER
    for name in wanted.benchmarks:  # a mistake in a name should not leave a folder behind
        load_problems(name, folder=recipe.data.folder, limit=wanted.problems)
    with Run.open(place, wanted) as run:
        other = None
        if wanted.systems is None or NO_COUNTERFACTUAL in wanted.systems:
            other = _train_without(stored, recipe, stored.folder / NO_COUNTERFACTUAL, events=events)
        run_contest(run, _contest(recipe, stored.folder, wanted, other), events=events, earlier=[stored, *reuse])
    return place


def _refuse_unfinished(run: StoredRun, recipe: Recipe) -> None:
    done = {mark.name for mark in run.finished_stages()}
    if not team_seats(recipe)[1]:
        raise RunError(f"{run.folder} has a team without critics or of one round; there is nothing to ablate")
    missing = [name for name in (*shared_stages(recipe), "critics") if name not in done]
    if missing:
        raise RunError(
            f"{run.folder} has not finished its training ({missing[0]} is missing); "
            f"`mada run --run {run.folder}` goes on with it"
        )


def _refuse_unknown(wanted: AblationRecipe, recipe: Recipe) -> None:
    generators, critics = team_seats(recipe)
    others = critics if recipe.critics.advantage == "counterfactual" else ()
    ablations = ablations_of(generators, critics, rounds=recipe.team.rounds, no_counterfactual=others)
    # A member is measured with its family.
    known = [system.name for system in (*systems_of(recipe), *ablations) if "/" not in system.name]
    for name in wanted.systems or ():
        if name not in known:
            raise RunError(f"{name!r} is no system here{did_you_mean(name, known)} (systems: {', '.join(known)})")


def _train_without(stored: StoredRun, recipe: Recipe, folder: Path, *, events: Events) -> Path | None:
    """Train critics with GRPO's advantage on the run's examples; None if the run's own critics are such."""
    if recipe.critics.advantage != "counterfactual":
        return None
    values = recipe.model_dump()
    values["critics"]["advantage"] = "grpo"
    other = Recipe.model_validate(values)
    with Run.open(folder, other) as run:
        borrow_stages(stored, run, other)
        run_recipe(run, other, events=events, last="critics")
    return folder


def _contest(recipe: Recipe, folder: Path, wanted: AblationRecipe, other: Path | None) -> Contest:
    generators, critics = team_seats(recipe)
    cast: Cast = cast_of(recipe, folder)
    others = {f"{seat}, {NO_COUNTERFACTUAL}": seat for seat in critics} if other else {}
    if other:
        cast = {**cast, **{name: Member(recipe.model, other / ADAPTERS / seat) for name, seat in others.items()}}
    ablations = ablations_of(generators, critics, rounds=recipe.team.rounds, no_counterfactual=tuple(others))
    systems = with_parameters(_chosen([*systems_of(recipe, cast), *ablations], wanted), cast)
    return replace(
        contest_of(recipe, folder),
        plan=EvaluationPlan.of(
            systems,
            reference=TEAM,
            benchmarks=wanted.benchmarks,
            prompt_price=recipe.evaluation.prompt_price,
        ),
        cast=cast,
        seeds=wanted.seeds,
        problems=wanted.problems,
    )


def _chosen(systems: Sequence[PlannedSystem], wanted: AblationRecipe) -> list[PlannedSystem]:
    """Return the wanted systems with their families' members, and the team."""
    names = {TEAM, *(wanted.systems or ())}
    return [system for system in systems if wanted.systems is None or system.name.split("/")[0] in names]
