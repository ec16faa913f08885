"""Stage 5, evaluate: every system answers every problem seed by seed, and all is recorded (E1, I1–I4, B1).

Models are loaded when they are needed. Agents on one model share its weights, a stack of adapters, an engine, and the
run's cache of samples, so nothing is sampled twice.
"""

import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from mada.agents import DebateSettings, LoadedModel, Log, load_model, weights_key
from mada.digest import digest_of
from mada.errors import EvaluationError
from mada.evaluation.budgets import measure_prompt_price
from mada.evaluation.costs import USAGE, Usage, UsageMeter
from mada.evaluation.grid import MEASURES, Grid
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.queue import Queue
from mada.evaluation.sample_cache import SAMPLES, CachingEngine, Sample, SampleStore, open_samples
from mada.evaluation.scores import SCORES, Score
from mada.events import Events
from mada.grading import Grader
from mada.models.adapters.peft_files import digest_of_adapter
from mada.models.chat import chat_prompt, prompt_ids
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Engine
from mada.models.engines.openai import OpenAIEngine
from mada.models.loading import digest_of_model
from mada.pipeline.context import Context
from mada.pipeline.evaluations import AgentSpecs, Evaluation, evaluation_of_run, models_of
from mada.pipeline.results import EvaluationResult
from mada.pipeline.split import read_problems
from mada.problems import load_problems, remove_copies
from mada.recipe.schema import EngineSection, ModelSection
from mada.runs import Run, StoredRun

STAGE = "evaluate"
_NAMED_PROBLEMS = 5


async def evaluate(context: Context) -> EvaluationResult:
    """Evaluate the trained team and its rivals on the recipe's benchmarks; count training problems that are copies."""
    recipe = context.recipe
    evaluation = evaluation_of_run(recipe, context.run.folder)
    result = await run_evaluation(context.run, evaluation, events=context.events)
    benchmarks = {name: load_problems(name, folder=recipe.data.folder) for name in recipe.evaluation.benchmarks}
    copies = remove_copies(list(read_problems(context.run).values()), benchmarks).dropped
    return result.model_copy(update={"copies_in_training": sum(copies.values())})


async def run_evaluation(
    run: Run, evaluation: Evaluation, *, events: Events, earlier: Collection[StoredRun] = ()
) -> EvaluationResult:
    """Have every system answer every question that it has not answered yet; record samples and scores in a run.

    Equal samples of `earlier` runs are used again, and so is their price of a prompt token, which is measured if
    nobody knows it.
    """
    check_inputs(run, evaluation)
    problems = evaluation.questions
    plan = evaluation.plan.with_problems(problems)
    if plan.prompt_price is None:
        plans = [_recorded_plan(one) for one in (run, *earlier)]
        prices = [one.prompt_price for one in plans if one is not None and one.prompt_price is not None]
        plan = plan.with_prompt_price(prices[0] if prices else None)
    run.write_text(PLAN_FILE, plan.to_json())
    samples = open_samples(run)
    store = SampleStore(
        samples, earlier=[one.records(SAMPLES, Sample) for one in earlier if SAMPLES in one.record_names()]
    )
    with Grader(workers=evaluation.grading.workers, time_limit=evaluation.grading.time_limit) as grader:
        queue = Queue(
            run,
            evaluation.plan,
            problems,
            seeds=evaluation.seeds,
            grader=grader,
            progressed=events.progress,
            fail_on_error=evaluation.engine.fail_on_error,
        )
        for systems in group_by_model(evaluation, queue):
            specs = {name: evaluation.agents[name] for system in systems for name in system.agents}
            async with load_agents(
                specs, settings=evaluation.settings, engine=evaluation.engine, store=store, log=events.log
            ) as loaded:
                run.check_inputs(STAGE, {**_digests_of_problems(plan), **loaded.inputs})
                by_cost = [system for system in systems if system.match == "cost" and queue.pending(system)]
                if by_cost and plan.prompt_price is None:
                    question = queue.pending(by_cost[0])[0].problem.question
                    price = await loaded.prompt_price(by_cost[0].generators[0], question)
                    events.log(f"reading a prompt token costs {price:g} of generating one here")
                    plan = plan.with_prompt_price(price)
                    run.write_text(PLAN_FILE, plan.to_json())
                meter = UsageMeter(run.records(USAGE, Usage), loaded.read)
                try:
                    await queue.run(
                        systems,
                        agent_named=loaded.agents.__getitem__,
                        # Three systems may wait for the same two samples, and a vote for its slowest: as many questions
                        # as rows would leave half of the rows empty.
                        at_once=4 * loaded.slots,
                        meter=meter,
                        prompt_price=plan.prompt_price,
                    )
                finally:
                    meter.record(now=True)
    grid = Grid.of(run.records(SCORES, Score), evaluation.plan)
    return EvaluationResult(
        systems=len(evaluation.plan.evaluated_systems),
        questions=sum(map(len, problems.values())) * evaluation.seeds,
        completions=sum(score.calls for score in grid.scores.values()),
        sampled=len(samples),
        damaged=store.damaged or None,
        reference_accuracy=grid.average(evaluation.plan.reference_system, MEASURES["verdict"]),
    )


def group_by_model(evaluation: Evaluation, queue: Queue) -> Iterator[Sequence[PlannedSystem]]:
    """Yield systems that need the same models, so that each model is loaded once, and only while it is needed.

    A matched system waits for its target and for all systems that tell how long its samples are; if one of them needs
    other models, it comes at the end.
    """
    plan, by_models = evaluation.plan, dict[tuple[ModelSection, ...], list[PlannedSystem]]()
    later: list[PlannedSystem] = []
    for system in plan.evaluated_systems:
        by_models.setdefault(models_of(evaluation.agents, system.agents), []).append(system)
    for systems in by_models.values():
        here = {system.name for system in systems}
        ready = [system for system in systems if system.matched_to is None or _sized_by(system, plan) <= here]
        later += [system for system in systems if system not in ready]
        if any(queue.pending(system) for system in ready):
            yield ready
    for system in later:
        if queue.pending(system):
            yield [system]


def _sized_by(system: PlannedSystem, plan: EvaluationPlan) -> set[str]:
    """Return the systems whose scores decide the number of a matched system's samples."""
    unmatched = {
        one.name
        for one in plan.evaluated_systems
        if not one.matched_to and set(one.generators) & set(system.generators)
    }
    return unmatched | {system.matched_to or system.name}


# --- inputs, which must not change between sessions


def check_inputs(run: Run, evaluation: Evaluation) -> None:
    """Refuse questions, answers, adapters and weights other than those that the evaluation began with.

    While nothing is answered, all of them may change.
    """
    plan = evaluation.plan.with_problems(evaluation.questions)
    if not len(run.records(SCORES, Score)):
        run.clear_stage(STAGE)
        return
    recorded = _recorded_plan(run)  # a lost one is written again; the manifest has its benchmarks
    changed = plan.changed_problems(recorded) if recorded else []
    if changed:
        more = f" and {len(changed) - _NAMED_PROBLEMS:,} more" if len(changed) > _NAMED_PROBLEMS else ""
        raise EvaluationError(
            f"{run.folder} was begun with other questions or answers: {', '.join(changed[:_NAMED_PROBLEMS])}{more}; "
            "scores of both must not be mixed. Restore the old ones, or evaluate into a new folder"
        )
    specs = {name: evaluation.agents[name] for system in plan.evaluated_systems for name in system.agents}
    known = run.manifest.inputs.get(STAGE, {})  # models and adapters that are not in it have answered nothing
    models = [model for model in models_of(specs, specs) if weights_key(model) in known]
    weights = {weights_key(model): digest_of_model(model.name, revision=model.revision) for model in models}
    adapters = {key: digest for key, digest in _digests_of_adapters(specs).items() if key in known}
    run.check_inputs(STAGE, _digests_of_problems(plan) | weights | adapters)


def _digests_of_problems(plan: EvaluationPlan) -> dict[str, str]:
    return {f"benchmark {name}": digest_of(digests) for name, digests in plan.digests.items()}


def _digests_of_adapters(specs: AgentSpecs) -> dict[str, str]:
    return {f"adapter of {name}": digest_of_adapter(spec.adapter) for name, spec in specs.items() if spec.adapter}


def _recorded_plan(run: StoredRun) -> EvaluationPlan | None:
    try:
        return EvaluationPlan.from_json(run.path(PLAN_FILE).read_text(encoding="utf-8"))
    except (OSError, EvaluationError):
        return None


# --- agents


@dataclass(frozen=True, slots=True)
class LoadedAgents:
    """Agents whose models are loaded; `inputs` are digests of their weights and adapters, by the names of the manifest.

    Each engine is behind the run's cache of samples.
    """

    specs: AgentSpecs
    agents: Mapping[str, EngineAgent]
    models: Mapping[ModelSection, tuple[LoadedModel, CachingEngine]]
    inputs: Mapping[str, str]

    @property
    def slots(self) -> int:
        """How many completions can be sampled at the same time."""
        return sum(loaded.engine.slots for loaded, _ in self.models.values())

    def read(self) -> Usage:
        """Return what the engines have done so far."""
        statistics = [loaded.engine.statistics for loaded, _ in self.models.values()]
        # All models are on one device, or on a server.
        where = max((loaded for loaded, _ in self.models.values()), key=lambda loaded: loaded.accelerators)
        return Usage(
            seconds=time.monotonic(),
            device=where.device,
            accelerators=where.accelerators,
            busy=sum(one.seconds for one in statistics),
            completions=sum(sharing.sampled for _, sharing in self.models.values()),
            generated_tokens=sum(one.generated_tokens for one in statistics),
            prompt_tokens=sum(one.prompt_tokens for one in statistics),
        )

    async def prompt_price(self, name: str, question: str) -> float:
        """Measure what reading a prompt token costs an agent's engine, in generated tokens."""
        agent, (loaded, _) = self.agents[name], self.models[self.specs[name].model]
        tokenizer = loaded.chat.tokenizer
        ids = prompt_ids(chat_prompt(agent.prompts.ask(question), tokenizer), tokenizer)
        # On a CPU, this process's own time: whatever else uses the cores does not count.
        clock = time.process_time if loaded.device == "cpu" else time.perf_counter
        return await measure_prompt_price(loaded.engine, agent.adapter, prompt_ids=ids, clock=clock)


@asynccontextmanager
async def load_agents(
    specs: AgentSpecs, *, settings: DebateSettings, engine: EngineSection, store: SampleStore, log: Log
) -> AsyncGenerator[LoadedAgents]:
    """Load the models of some agents; close their engines after the block."""
    inputs = _digests_of_adapters(specs)
    models: dict[ModelSection, tuple[LoadedModel, CachingEngine]] = {}
    sections = models_of(specs, specs)
    async with AsyncExitStack() as closing:
        for model in sections:
            folders = [spec.adapter for spec in specs.values() if spec.model == model and spec.adapter is not None]
            adapters = {str(folder): folder for folder in folders}
            loaded = await load_model(model, adapters, engine=engine, alone=len(sections) == 1, log=log)
            closing.push_async_callback(loaded.engine.close)
            digest, known = _digest_of_weights(model, loaded.engine)
            inputs |= known
            # Samples are kept under digests of what they were sampled from.
            speakers: dict[str | None, str] = {None: f"{digest} {loaded.precision}"}
            speakers |= {name: f"{speakers[None]} {digest_of_adapter(folder)}" for name, folder in adapters.items()}
            caching = CachingEngine(loaded.engine, store, speakers)
            closing.push_async_callback(caching.close)
            models[model] = loaded, caching
        agents = {
            name: settings.agent(
                name,
                None if spec.adapter is None else str(spec.adapter),
                engine=models[spec.model][1],
                chat=models[spec.model][0].chat,
                window=models[spec.model][0].window,
                is_judge=spec.is_judge,
            )
            for name, spec in specs.items()
        }
        yield LoadedAgents(specs, agents, models, inputs)


def _digest_of_weights(model: ModelSection, engine: Engine) -> tuple[str, dict[str, str]]:
    """Return the digest of a model's weights, and what the manifest keeps of them."""
    if isinstance(engine, OpenAIEngine):
        served = engine.identity()
        return digest_of(served), {f"served model {name}": digest_of(said) for name, said in served["models"].items()}
    digest = digest_of_model(model.name, revision=model.revision)
    return digest, {weights_key(model): digest}
