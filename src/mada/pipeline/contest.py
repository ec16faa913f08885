"""Holding an evaluation: models loaded as they are needed, questions answered, everything recorded in a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from mada.digest import digest_of
from mada.errors import EvaluationError
from mada.evaluation.effort import EFFORT, Effort, Meter
from mada.evaluation.grid import MEASURES, Grid
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.queue import Queue
from mada.evaluation.samples import SAMPLES, Sample, SampleStore, open_samples
from mada.evaluation.scores import SCORES, Score
from mada.events import Events
from mada.grading import Grader
from mada.models.loading import digest_of_model, load_config
from mada.pipeline.cast import Cast, digests_of_adapters, models_of, seated
from mada.pipeline.engines import weights_of
from mada.problems import Problem, load_problems
from mada.recipe.sections import EngineSection, GradingSection
from mada.run import Run, StoredRun
from mada.team.settings import DebateSettings

STAGE = "evaluate"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Contest:
    """An evaluation that is ready to be held: who, on what, how."""

    plan: EvaluationPlan
    cast: Cast
    seeds: int
    problems: int | None
    folder: Path | None
    settings: DebateSettings
    engine: EngineSection
    grading: GradingSection

    def load_problems(self) -> dict[str, list[Problem]]:
        """Return the questions of every benchmark."""
        return {name: load_problems(name, folder=self.folder, limit=self.problems) for name in self.plan.benchmarks}

    def check(self) -> None:
        """Refuse benchmarks and models that are not to be had, before a folder is made for their results."""
        self.load_problems()
        for model in models_of(self.cast, tuple(self.cast)):
            load_config(model.name, revision=model.revision)


async def hold_contest(
    run: Run,
    contest: Contest,
    *,
    events: Events,
    earlier: Collection[StoredRun] = (),
) -> dict[str, JsonValue]:
    """Have every system answer every question that it has not answered yet, and say what came of it.

    Samples of `earlier` runs are used where they are the very ones that are wanted, and so is their price of a prompt
    token, which is measured where nobody knows it.
    """
    problems = contest.load_problems()
    plan = contest.plan.with_problems(problems)
    refuse_changed_inputs(run, contest, problems)
    if plan.prompt_price is None:
        known = (_recorded_price(one) for one in (run, *earlier))
        plan = plan.with_prompt_price(next((price for price in known if price is not None), None))
    run.write_text(PLAN_FILE, plan.to_json())
    samples = open_samples(run)
    store = SampleStore(samples, earlier=[one.records(SAMPLES, Sample) for one in earlier if _has_samples(one)])
    with Grader(workers=contest.grading.workers, time_limit=contest.grading.time_limit) as grader:
        queue = Queue(
            run,
            contest.plan,
            problems,
            seeds=contest.seeds,
            grader=grader,
            progressed=events.progress,
            fail_on_error=contest.engine.fail_on_error,
        )
        for systems in _sittings(contest, queue):
            agents = {agent for system in systems for agent in system.agents}
            async with seated(
                contest.cast,
                agents,
                settings=contest.settings,
                engine=contest.engine,
                store=store,
                log=events.log,
            ) as seats:
                run.check_inputs(STAGE, _digests_of_problems(plan) | seats.inputs)
                by_cost = [system for system in systems if system.match == "cost" and queue.missing(system)]
                if by_cost and plan.prompt_price is None:
                    question = queue.missing(by_cost[0])[0].problem.question
                    price = await seats.prompt_price(by_cost[0].generators[0], question)
                    events.log(f"reading a prompt token costs {price:g} of generating one here")
                    plan = plan.with_prompt_price(price)
                    run.write_text(PLAN_FILE, plan.to_json())
                meter = Meter(run.records(EFFORT, Effort), seats.read)
                # Three systems may wait for the same two samples, and a vote for its slowest: as many questions as
                # rows would leave half of the rows empty.
                at_once = 4 * seats.slots
                try:
                    await queue.hold(
                        systems, seat=seats.seat, at_once=at_once, meter=meter, prompt_price=plan.prompt_price
                    )
                finally:
                    meter.tick(at_once=True)
    grid = Grid.of(run.records(SCORES, Score), contest.plan)
    return {
        "systems": len(contest.plan.held),
        "questions": sum(map(len, problems.values())) * contest.seeds,
        "completions wanted": sum(score.calls for score in grid.scores.values()),
        "of these sampled": len(samples),
        **({"damaged samples dropped": store.damaged} if store.damaged else {}),
        "accuracy of the reference": grid.average(contest.plan.chosen, MEASURES["verdict"]),
    }


def refuse_changed_inputs(run: Run, contest: Contest, problems: Mapping[str, Sequence[Problem]]) -> None:
    """Refuse questions, answers, adapters and weights other than those that the evaluation was begun with.

    While nothing is answered, all of them may change.
    """
    plan = contest.plan.with_problems(problems)
    if not len(run.records(SCORES, Score)):
        run.clear_stage(STAGE)
        return
    earlier = _recorded_plan(run)  # one that is lost is written anew; the manifest knows its benchmarks
    changed = plan.changed_problems(earlier) if earlier else []
    if changed:
        more = f" and {len(changed) - _MOST_NAMED:,} more" if len(changed) > _MOST_NAMED else ""
        raise EvaluationError(
            f"{run.folder} was begun with other questions or answers: {', '.join(changed[:_MOST_NAMED])}{more}; "
            "scores of both must not be mixed. Restore the old ones, or evaluate into a new folder"
        )
    cast = {agent: contest.cast[agent] for system in plan.held for agent in system.agents}
    known = run.manifest.inputs.get(STAGE, {})  # what it does not know yet has answered nothing
    weights = {weights_of(model): model for model in models_of(cast, tuple(cast)) if weights_of(model) in known}
    now = {
        **{name: digest_of_model(model.name, revision=model.revision) for name, model in weights.items()},
        **{name: digest for name, digest in digests_of_adapters(cast).items() if name in known},
    }
    run.check_inputs(STAGE, _digests_of_problems(plan) | now)


def _digests_of_problems(plan: EvaluationPlan) -> dict[str, str]:
    return {f"benchmark {name}": digest_of(known) for name, known in plan.digests.items()}


def _recorded_plan(run: StoredRun) -> EvaluationPlan | None:
    try:
        return EvaluationPlan.from_json(run.path(PLAN_FILE).read_text(encoding="utf-8"))
    except (OSError, EvaluationError):
        return None


def _recorded_price(run: StoredRun) -> float | None:
    plan = _recorded_plan(run)
    return plan.prompt_price if plan else None


def _sittings(contest: Contest, queue: Queue) -> Iterator[Sequence[PlannedSystem]]:
    """Yield systems that need the same models, so that each model is loaded once, and only while it is needed.

    A matched system waits for its target and for all systems that tell how long its samples are; if one of them is in
    another sitting, it comes at the end.
    """
    by_models: dict[tuple[object, ...], list[PlannedSystem]] = {}
    later: list[PlannedSystem] = []
    for system in contest.plan.held:
        by_models.setdefault(models_of(contest.cast, system.agents), []).append(system)
    for systems in by_models.values():
        here = {system.name for system in systems}
        ready = [system for system in systems if system.matched_to is None or _needed(system, contest.plan) <= here]
        later += [system for system in systems if system not in ready]
        if any(queue.missing(system) for system in ready):
            yield ready
    for system in later:
        if queue.missing(system):
            yield [system]


def _needed(system: PlannedSystem, plan: EvaluationPlan) -> set[str]:
    """Return the systems whose scores decide the size of a matched one."""
    telling = {one.name for one in plan.held if not one.matched_to and set(one.generators) & set(system.generators)}
    return telling | {system.matched_to or system.name}


def with_parameters(systems: Sequence[PlannedSystem], cast: Cast) -> list[PlannedSystem]:
    """Say of every system how many parameters the training of its agents changed (E3).

    A model with its adapter counts once, however many seats it has and under however many names.
    """
    trained = {member.identity: member.trained for member in cast.values()}
    by_name = {system.name: system for system in systems}

    def parameters(system: PlannedSystem) -> int:
        if system.members:
            return max(parameters(by_name[member]) for member in system.members)
        return sum(trained[one] for one in {cast[agent].identity for agent in system.agents})

    return [system.model_copy(update={"parameters": parameters(system)}) for system in systems]


def _has_samples(run: StoredRun) -> bool:
    return SAMPLES in run.record_names()
