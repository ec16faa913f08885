"""Stage 5, evaluate: the trained team and its rivals on every benchmark, seed by seed (E1, I1–I4, B1)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue

from mada.evaluation.kinds import agents_alone, best_by_critics, debate_of, judged, vote_of
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.pipeline.cast import Cast, Member
from mada.pipeline.contest import Contest, hold_contest, with_parameters
from mada.pipeline.context import Context
from mada.pipeline.split import read_problems
from mada.problems import load_problems, remove_copies
from mada.recipe import Recipe
from mada.team.seats import ADAPTERS, team_seats
from mada.team.settings import DebateSettings

TEAM, BASE, JUDGE = "mada", "base", "judge"


async def evaluate(context: Context) -> dict[str, JsonValue]:
    """Have every system answer every problem with every seed, and record how right it was."""
    recipe = context.recipe
    summary = await hold_contest(context.run, contest_of(recipe, context.run.folder), events=context.events)
    benchmarks = {name: load_problems(name, folder=recipe.data.folder) for name in recipe.evaluation.benchmarks}
    copies = sum(remove_copies([*read_problems(context.run).values()], benchmarks).dropped.values())
    return {**summary, "benchmark copies in training": copies}


def contest_of(recipe: Recipe, folder: Path) -> Contest:
    """Return the evaluation that a recipe asks for, of the team in a run's folder."""
    evaluation = recipe.evaluation
    cast = cast_of(recipe, folder)
    chosen = [system for system in systems_of(recipe, cast) if system.name in evaluation.systems]
    return Contest(
        plan=EvaluationPlan.of(
            with_parameters(chosen, cast),
            reference=TEAM,
            benchmarks=evaluation.benchmarks,
            prompt_price=evaluation.prompt_price,
        ),
        cast=cast,
        seeds=evaluation.seeds,
        problems=evaluation.problems,
        folder=recipe.data.folder,
        settings=DebateSettings.of(recipe),
        engine=recipe.engine,
        grading=recipe.grading,
    )


def cast_of(recipe: Recipe, folder: Path) -> Cast:
    """Return the trained seats of a run, and its bare base as a rival and as a judge."""
    generators, critics = team_seats(recipe)
    trained = {seat: Member(recipe.model, folder / ADAPTERS / seat) for seat in (*generators, *critics)}
    return {BASE: Member(recipe.model), JUDGE: Member(recipe.model, is_judge=True), **trained}


def systems_of(recipe: Recipe, cast: Cast | None = None) -> Iterator[PlannedSystem]:
    """Yield all systems that can be measured beside a team, from the bare model to the team and its rivals.

    Votes have as many generated tokens as the debate that they stand beside, or cost as much; the untrained rivals are
    the same base without adapters. The judge chooses among all but one of as many answers. Where the team is there
    (`cast`), titles call only those generators trained that are.
    """
    generators, critics = team_seats(recipe)
    state = "trained" if cast is None else _state([cast[seat] for seat in generators])
    rounds = recipe.team.rounds
    base = [BASE] * len(generators)
    yield agents_alone("single", "single agent, untrained", [BASE])
    yield debate_of("debate", "debate, untrained", base, critics=[BASE] * len(critics), rounds=rounds)
    yield vote_of("vote", "untrained vote at its tokens", [BASE], matched_to="debate")
    yield vote_of("weighted-vote", "untrained weighted vote", [BASE], matched_to=TEAM, weighted=True)
    yield judged("judge", "untrained judge", [BASE], judge=JUDGE, matched_to=TEAM)
    yield vote_of("untrained-vote", "untrained vote at MADA's tokens", [BASE], matched_to=TEAM)
    yield agents_alone("generators", f"generators, {state}", generators)
    yield vote_of("trained-vote", f"{state} vote at MADA's tokens", generators, matched_to=TEAM)
    yield vote_of("trained-weighted-vote", f"{state} weighted vote", generators, matched_to=TEAM, weighted=True)
    yield vote_of("trained-vote-at-cost", f"{state} vote at MADA's cost", generators, matched_to=TEAM, match="cost")
    if critics:
        yield best_by_critics("best-of-n", "best of n by critics", generators, critics=critics)
    yield debate_of(TEAM, "MADA debate", generators, critics=critics, rounds=rounds)


def _state(members: Sequence[Member]) -> str:
    """Return what to call agents in a title, by how many of them have an adapter that does anything."""
    trained = sum(member.trained > 0 for member in members)
    return "trained" if trained == len(members) else "partly trained" if trained else "step-0"
