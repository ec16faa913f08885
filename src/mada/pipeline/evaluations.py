"""Evaluations before they run: which agents, which systems, which benchmarks; of a run's recipe or of a file."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mada.agents import (
    ADAPTERS,
    AgentSpec,
    DebateSettings,
    find_adapters,
    team_names,
)
from mada.debate.prompts import Prompts
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.systems import best_of_n, debate_system, llm_judge, majority_vote, single_agents
from mada.models.loading import load_config
from mada.problems import Problem, load_problems
from mada.recipe import Recipe
from mada.recipe.evaluation_file import EvaluationRecipe, SystemSection
from mada.recipe.schema import EngineSection, GradingSection, ModelSection

TEAM, BASE, JUDGE = "mada", "base", "judge"

AgentSpecs = Mapping[str, AgentSpec]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is ready to run: which systems, of which agents, on which problems."""

    plan: EvaluationPlan
    agents: AgentSpecs
    seeds: int
    problems: int | None
    folder: Path | None
    settings: DebateSettings
    engine: EngineSection
    grading: GradingSection

    @cached_property
    def questions(self) -> dict[str, list[Problem]]:
        """The problems of every benchmark, read once."""
        return {name: load_problems(name, folder=self.folder, limit=self.problems) for name in self.plan.benchmarks}

    def check(self) -> None:
        """Refuse benchmarks and models that cannot be had, before a folder is made for their results."""
        _ = self.questions  # reading them raises for what is not there
        for model in models_of(self.agents, tuple(self.agents)):
            load_config(model.name, revision=model.revision)


def models_of(specs: AgentSpecs, agents: Collection[str]) -> tuple[ModelSection, ...]:
    """Return the models that some agents need, each once, in the order of the specs."""
    return tuple(dict.fromkeys(spec.model for name, spec in specs.items() if name in agents))


def with_parameters(systems: Sequence[PlannedSystem], specs: AgentSpecs) -> list[PlannedSystem]:
    """Return systems with the number of parameters that the training of their agents changed (E3).

    A model with its adapter counts once, however many agents of a system it is and under however many names.
    """
    trained = {spec.identity: spec.trained_parameters for spec in specs.values()}
    by_name = {system.name: system for system in systems}

    def parameters(system: PlannedSystem) -> int:
        if system.members:
            return max(parameters(by_name[member]) for member in system.members)
        return sum(trained[one] for one in {specs[agent].identity for agent in system.agents})

    return [system.model_copy(update={"parameters": parameters(system)}) for system in systems]


# --- of a run


def evaluation_of_run(recipe: Recipe, folder: Path) -> Evaluation:
    """Return the evaluation that a recipe asks for, of the team in a run's folder."""
    evaluation, specs = recipe.evaluation, agents_of_run(recipe, folder)
    chosen = [system for system in systems_of_run(recipe, specs) if system.name in evaluation.systems]
    return Evaluation(
        plan=EvaluationPlan.of(
            with_parameters(chosen, specs),
            reference=TEAM,
            benchmarks=evaluation.benchmarks,
            prompt_price=evaluation.prompt_price,
        ),
        agents=specs,
        seeds=evaluation.seeds,
        problems=evaluation.problems,
        folder=recipe.data.folder,
        settings=DebateSettings.of(recipe),
        engine=recipe.engine,
        grading=recipe.grading,
    )


def agents_of_run(recipe: Recipe, folder: Path) -> AgentSpecs:
    """Return a run's trained agents, and its bare base as a rival and as a judge."""
    generators, critics = team_names(recipe)
    trained = {name: AgentSpec(recipe.model, folder / ADAPTERS / name) for name in (*generators, *critics)}
    return {BASE: AgentSpec(recipe.model), JUDGE: AgentSpec(recipe.model, is_judge=True), **trained}


def systems_of_run(recipe: Recipe, specs: AgentSpecs | None = None) -> Iterator[PlannedSystem]:
    """Yield all systems that can be measured beside a team, from the bare model to the team and its rivals.

    Votes have as many generated tokens as the debate that they are compared with, or cost as much; the judge chooses
    among all but one of as many answers. Untrained rivals are the same base without adapters. With `specs`, titles
    call only those generators trained that are.
    """
    generators, critics = team_names(recipe)
    state = "trained" if specs is None else _state([specs[name] for name in generators])
    rounds = recipe.team.rounds
    base = [BASE] * len(generators)
    yield single_agents("single", "single agent, untrained", [BASE])
    yield debate_system("debate", "debate, untrained", base, critics=[BASE] * len(critics), rounds=rounds)
    yield majority_vote("vote", "untrained vote at its tokens", [BASE], matched_to="debate")
    yield majority_vote("weighted-vote", "untrained weighted vote", [BASE], matched_to=TEAM, weighted=True)
    yield llm_judge("judge", "untrained judge", [BASE], judge=JUDGE, matched_to=TEAM)
    yield majority_vote("untrained-vote", "untrained vote at MADA's tokens", [BASE], matched_to=TEAM)
    yield single_agents("generators", f"generators, {state}", generators)
    yield majority_vote("trained-vote", f"{state} vote at MADA's tokens", generators, matched_to=TEAM)
    yield majority_vote("trained-weighted-vote", f"{state} weighted vote", generators, matched_to=TEAM, weighted=True)
    yield majority_vote(
        "trained-vote-at-cost", f"{state} vote at MADA's cost", generators, matched_to=TEAM, match="cost"
    )
    if critics:
        yield best_of_n("best-of-n", "best of n by critics", generators, critics=critics)
    yield debate_system(TEAM, "MADA debate", generators, critics=critics, rounds=rounds)


def _state(specs: Sequence[AgentSpec]) -> str:
    """Return what titles call agents, by how many of them have an adapter that does anything."""
    trained = sum(spec.trained_parameters > 0 for spec in specs)
    return "trained" if trained == len(specs) else "partly trained" if trained else "step-0"


# --- of an evaluation file


def evaluation_of_file(recipe: EvaluationRecipe) -> Evaluation:
    """Return the evaluation that a file describes."""
    specs = _agents_of_file(recipe)
    systems = with_parameters([_planned(system) for system in recipe.systems], specs)
    return Evaluation(
        plan=EvaluationPlan.of(
            systems,
            reference=recipe.reference or systems[0].name,
            benchmarks=recipe.benchmarks,
            prompt_price=recipe.prompt_price,
        ),
        agents=specs,
        seeds=recipe.seeds,
        problems=recipe.problems,
        folder=recipe.folder,
        settings=DebateSettings(prompts=Prompts(**recipe.prompts.model_dump()), **recipe.inference.model_dump()),
        engine=recipe.engine,
        grading=recipe.grading,
    )


def _agents_of_file(recipe: EvaluationRecipe) -> AgentSpecs:
    folders = find_adapters([agent.adapter for agent in recipe.agents.values() if agent.adapter])
    specs = {
        name: AgentSpec(
            ModelSection(name=agent.model, revision=agent.revision, dtype=agent.dtype, window=agent.window),
            folders[agent.adapter] if agent.adapter else None,
            parameters=agent.parameters,
        )
        for name, agent in recipe.agents.items()
    }
    judges = sorted({system.judge for system in recipe.systems if system.judge})
    return specs | {_as_judge(name): replace(specs[name], is_judge=True) for name in judges}


def _as_judge(agent: str) -> str:
    return f"{agent} as judge"


def _planned(system: SystemSection) -> PlannedSystem:
    name, title = system.name or system.kind, system.title or _title(system)
    samples, matched, match = system.samples, system.matched_to, system.match
    match system.kind:
        case "single":
            return single_agents(name, title, system.agents)
        case "vote" | "weighted-vote":
            weighted = system.kind == "weighted-vote"
            return majority_vote(
                name, title, system.agents, samples=samples, matched_to=matched, match=match, weighted=weighted
            )
        case "judge":
            judge = _as_judge(system.judge or "")
            return llm_judge(name, title, system.agents, judge=judge, samples=samples, matched_to=matched, match=match)
        case "best-of-n":
            return best_of_n(name, title, system.agents, critics=system.critics, samples=samples)
        case "debate":
            return debate_system(name, title, system.agents, critics=system.critics, rounds=system.rounds)


def _title(system: SystemSection) -> str:
    """Return a title of a system's kind, number of samples, and agents."""
    others = (*(system.critics if system.rounds > 1 else ()), *filter(None, [system.judge]))
    agents = ", ".join(dict.fromkeys((*system.agents, *others)))
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
    return f"{what}: {agents}"
