"""Stages 2 and 4, generators and critics: the same trainer with other prompts and another advantage (T1–T4)."""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle

from mada.agents import AdaptedModel
from mada.atomic import writing_folder
from mada.debate.transcript import Role
from mada.errors import DataError, LearningError
from mada.learning.advantages import Credit
from mada.learning.rollouts import TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer, TrainingResult
from mada.models.adapters import load_adapter
from mada.models.chat import text_of
from mada.pipeline.context import Context
from mada.pipeline.critic_data import CriticExample, read_critic_examples
from mada.pipeline.results import BestStep, TrainingStageResult
from mada.pipeline.screen import learnable
from mada.pipeline.split import read_problems, read_split
from mada.pipeline.training_prompts import TrainingPrompts, make_scorer
from mada.problems.split import VALIDATION
from mada.report.training import training_warnings

FOLDERS: Mapping[Role, str] = {"generator": "generators", "critic": "critics"}


async def generators(context: Context) -> TrainingStageResult:
    """Train every generator on its own subset, or on what it can learn from of it, from the bare question."""
    split, problems = read_split(context.run), read_problems(context.run)
    agents = context.agents("generator")
    subsets = {agent: learnable(context, f"subset-{number}") for number, agent in enumerate(agents, start=1)}
    model = context.load_model("generator", trained=False)
    prompts = TrainingPrompts(context, model)

    def of_problems(names: Sequence[str]) -> list[TrainingPrompt]:
        return prompts.fitting(prompts.generator(problems[name]) for name in names)

    own = {agent: of_problems(names) for agent, names in subsets.items()}
    validation = of_problems(split.ids(VALIDATION))
    return await _train(context, model, "generator", own=own, validation=validation, prompts=prompts)


async def critics(context: Context) -> TrainingStageResult:
    """Train every critic on its own part of the critic data, from the question and all generators' responses."""
    examples, section = read_critic_examples(context.run), context.recipe.critics
    agents = context.agents("critic")
    model = context.load_model("critic", trained=False)
    if section.start == "generators":
        for agent, generator in zip(agents, cycle(context.agents("generator")), strict=False):
            load_adapter(model.stack, agent, context.adapter(generator))
    prompts = TrainingPrompts(context, model)
    validation = [example for example in examples if example.part == VALIDATION]
    every = [example for example in examples if example.part != VALIDATION]
    learnt_from = [example for example in every if _is_learnt_from(context, example)]
    order = context.run.rng("critic-subsets").permutation(len(learnt_from))
    size = len(learnt_from) // len(agents)
    if not size:
        kind = "" if section.examples == "all" else f" of {len(every):,} that are {section.examples}"
        raise DataError(
            f"{len(learnt_from)} critic examples{kind} cannot be cut into {len(agents)} subsets; use more problems"
        )
    own = {
        agent: prompts.fitting(
            prompts.critic(learnt_from[index], agent) for index in order[number * size : (number + 1) * size]
        )
        for number, agent in enumerate(agents)
    }

    def held_out(agent: str) -> list[TrainingPrompt]:
        return prompts.fitting(prompts.critic(example, agent) for example in validation)

    # Unless responses are shuffled for each critic, all critics have the same prompts.
    shuffled = context.recipe.prompts.order == "shuffled"
    result = await _train(
        context,
        model,
        "critic",
        own=own,
        validation={agent: held_out(agent) for agent in agents} if shuffled else held_out(agents[0]),
        prompts=prompts,
    )
    if section.examples == "all":
        return result
    return result.model_copy(update={"examples": len(every), "learnt_from": len(learnt_from)})


def _is_learnt_from(context: Context, example: CriticExample) -> bool:
    """Whether the recipe's critics learn from an example, by the generators' accuracy."""
    accuracy = example.accuracy(context.training("critic").truncated)
    return {"all": True, "answered": accuracy > 0, "disputed": 0 < accuracy < 1}[context.recipe.critics.examples]


async def _train(
    context: Context,
    model: AdaptedModel,
    role: Role,
    *,
    own: Mapping[str, Sequence[TrainingPrompt]],
    validation: Sequence[TrainingPrompt] | Mapping[str, Sequence[TrainingPrompt]],
    prompts: TrainingPrompts,
) -> TrainingStageResult:
    recipe, folder = context.recipe, FOLDERS[role]
    section = recipe.generators if role == "generator" else recipe.critics
    async with model.engine(longest=prompts.longest, alone=False, log=context.events.log) as engine:
        with context.grader() as grader:
            task = TrainingTask(
                prompts=own,
                scorer=make_scorer(context, model, grader, role=role),
                validation=validation,
                credit=Credit(section.advantage, section.std, recipe.reward.accuracy),
                stop_tokens=model.chat.stop_tokens,
                decode=partial(text_of, tokenizer=model.chat.tokenizer),
            )
            trainer = Trainer(
                model.stack,
                engine,
                task,
                settings=context.training(role),
                folder=context.run.path(folder),
                base_name=model.base.name,
                seed=context.run.seed(folder),
                events=context.events,
            )
            result = await trainer.train()
    _keep_adapters(context, result)
    return TrainingStageResult(
        steps=result.steps,
        best={agent: BestStep(step=best.step, accuracy=best.accuracy) for agent, best in result.best.items()},
        too_long=prompts.too_long,
        shortened=prompts.shortened,
        warnings=list(training_warnings(context.run, folder)) or None,
    )


def _keep_adapters(context: Context, result: TrainingResult) -> None:
    """Copy each agent's best adapter to the run's adapters."""
    for agent, best in result.best.items():
        with writing_folder(context.adapter(agent)) as partial:
            shutil.copytree(result.adapter(agent), partial, dirs_exist_ok=True)
            if not best.is_complete(partial):
                raise LearningError(
                    f"{result.adapter(agent)} is damaged: it is not the adapter that was saved there; "
                    "restore it from a copy, or train again"
                )
