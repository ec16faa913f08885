"""Evaluations by themselves: from an evaluation file, or of a trained team on something else than its recipe says.

Each is a run of its own: a folder with a manifest, records and a report, resumable like any other.
"""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from mada.debate.prompts import Prompts
from mada.evaluation.kinds import agents_alone, best_by_critics, debate_of, judged, vote_of
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.events import Events
from mada.pipeline.cast import Cast, Member, adapter_folder, refuse_untrained
from mada.pipeline.contest import STAGE, Contest, hold_contest, refuse_changed_inputs, with_parameters
from mada.pipeline.report import published
from mada.pipeline.running import do_stages
from mada.recipe.evaluation_file import AgentSection, EvaluationRecipe, SystemSection
from mada.recipe.sections import ModelSection
from mada.run import Run, StoredRun
from mada.team.settings import DebateSettings


def run_contest(run: Run, contest: Contest, *, events: Events, earlier: Collection[StoredRun] = ()) -> None:
    """Hold an evaluation and write its report; what is done is not done again, and not shown for other inputs."""
    refuse_changed_inputs(run, contest, contest.load_problems())
    hold = partial(hold_contest, run, contest, events=events, earlier=earlier)

    async def report() -> dict[str, JsonValue]:
        return published(run)

    asyncio.run(do_stages(run, [(STAGE, hold), ("report", report)], events=events))


def contest_of_file(recipe: EvaluationRecipe) -> Contest:
    """Return the evaluation that a file describes."""
    cast = _cast(recipe)
    systems = with_parameters([_planned(system) for system in recipe.systems], cast)
    return Contest(
        plan=EvaluationPlan.of(
            systems,
            reference=recipe.reference or systems[0].name,
            benchmarks=recipe.benchmarks,
            prompt_price=recipe.prompt_price,
        ),
        cast=cast,
        seeds=recipe.seeds,
        problems=recipe.problems,
        folder=recipe.folder,
        settings=DebateSettings(prompts=Prompts(**recipe.prompts.model_dump()), **recipe.inference.model_dump()),
        engine=recipe.engine,
        grading=recipe.grading,
    )


def _cast(recipe: EvaluationRecipe) -> Cast:
    refuse_untrained(agent.adapter for agent in recipe.agents.values() if agent.adapter)
    members = {
        name: Member(
            _model_of(agent),
            adapter_folder(agent.adapter) if agent.adapter else None,
            parameters=agent.parameters,
        )
        for name, agent in recipe.agents.items()
    }
    judges = sorted({system.judge for system in recipe.systems if system.judge})
    return members | {_as_judge(name): replace(members[name], is_judge=True) for name in judges}


def _model_of(agent: AgentSection) -> ModelSection:
    return ModelSection(name=agent.model, revision=agent.revision, dtype=agent.dtype, window=agent.window)


def _as_judge(agent: str) -> str:
    return f"{agent} as judge"


def _planned(system: SystemSection) -> PlannedSystem:
    name, title = system.name or system.kind, system.title or _title(system)
    samples, matched, match = system.samples, system.matched_to, system.match
    match system.kind:
        case "single":
            return agents_alone(name, title, system.agents)
        case "vote" | "weighted-vote":
            weighted = system.kind == "weighted-vote"
            return vote_of(
                name, title, system.agents, samples=samples, matched_to=matched, match=match, weighted=weighted
            )
        case "judge":
            judge = _as_judge(system.judge or "")
            return judged(name, title, system.agents, judge=judge, samples=samples, matched_to=matched, match=match)
        case "best-of-n":
            return best_by_critics(name, title, system.agents, critics=system.critics, samples=samples)
        case "debate":
            return debate_of(name, title, system.agents, critics=system.critics, rounds=system.rounds)


def _title(system: SystemSection) -> str:
    """Say what a system is: its kind, how many samples it has, and whose they are."""
    others = (*(system.critics if system.rounds > 1 else ()), *filter(None, [system.judge]))
    who = ", ".join(dict.fromkeys((*system.agents, *others)))
    count = len(system.agents)
    match system.kind:
        case "single":
            what = "single" if count == 1 else f"mean of {count}"
        case "debate":
            rounds = "1 round" if system.rounds == 1 else f"{system.rounds} rounds"
            what = f"debate {count}+{len(system.critics)}, {rounds}"
        case "vote" | "weighted-vote" | "judge" | "best-of-n":
            words = {"vote": "vote", "weighted-vote": "weighted vote", "judge": "judge", "best-of-n": "best"}
            amount = (
                f"at {system.matched_to}'s {system.match}" if system.matched_to else f"of {system.samples or count}"
            )
            what = f"{words[system.kind]} {amount}"
    return f"{what}: {who}"
