"""Stages 2 and 4, generators and critics: the same trainer with other prompts and another advantage (T1–T4)."""

import shutil
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from mada.debate.response import Response
from mada.debate.transcript import Role
from mada.debate.window import WindowError, fit_debate_prompt
from mada.errors import DataError
from mada.grading import Grader
from mada.grading.rewards import REWARDS, total_reward
from mada.learning.prompts import Reward, Scorer, TrainingPrompt
from mada.learning.settings import Credit, TrainingSettings
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer, TrainingResult
from mada.learning.whole_folders import writing_folder
from mada.models.chat import ChatModel
from mada.models.engines import Completion
from mada.pipeline.context import Context, Workshop, workshop
from mada.pipeline.critic_data import CriticExample, read_critic_examples
from mada.pipeline.split import read_problems, read_split
from mada.problems import Problem
from mada.problems.split import VALIDATION
from mada.team.agent import chat_prompt, check_chat_template, opens_thinking, prompt_ids

FOLDERS: Mapping[Role, str] = {"generator": "generators", "critic": "critics"}


async def generators(context: Context) -> dict[str, JsonValue]:
    """Train every generator on its own subset, from the bare question."""
    split, problems = read_split(context.run), read_problems(context.run)
    seats = context.seats("generator")
    async with workshop(context, seats, trained=False) as shop:
        prompts = _Prompts(context, shop)

        def of_part(name: str) -> list[TrainingPrompt]:
            return prompts.fitting(prompts.generator(problems[one]) for one in split.ids(name))

        own = {seat: of_part(f"subset-{number}") for number, seat in enumerate(seats, start=1)}
        return await _train(context, shop, "generator", own=own, validation=of_part(VALIDATION), prompts=prompts)


async def critics(context: Context) -> dict[str, JsonValue]:
    """Train every critic on its own part of the critic data, from the question and all generators' responses."""
    examples = read_critic_examples(context.run)
    seats = context.seats("critic")
    async with workshop(context, seats, trained=False) as shop:
        prompts = _Prompts(context, shop)
        learning = [example for example in examples if example.part != VALIDATION]
        order = context.run.rng("critic-subsets").permutation(len(learning))
        size = len(learning) // len(seats)
        if not size:
            raise DataError(
                f"{len(learning)} critic examples cannot be cut into {len(seats)} subsets; use more problems"
            )
        own = {
            seat: prompts.fitting(
                prompts.critic(learning[place]) for place in order[number * size : (number + 1) * size]
            )
            for number, seat in enumerate(seats)
        }
        held_out = prompts.fitting(prompts.critic(example) for example in examples if example.part == VALIDATION)
        return await _train(context, shop, "critic", own=own, validation=held_out, prompts=prompts)


async def _train(
    context: Context,
    shop: Workshop,
    role: Role,
    *,
    own: Mapping[str, Sequence[TrainingPrompt]],
    validation: Sequence[TrainingPrompt],
    prompts: "_Prompts",
) -> dict[str, JsonValue]:
    recipe, folder = context.recipe, FOLDERS[role]
    section = recipe.generators if role == "generator" else recipe.critics
    settings = TrainingSettings(**recipe.training_for("generators" if role == "generator" else "critics").model_dump())
    with context.grader() as grader, context.watch.training(folder) as observers:
        task = TrainingTask(
            prompts=own,
            scorer=make_scorer(context, shop, grader),
            validation=validation,
            credit=Credit(section.advantage, section.std, recipe.reward.accuracy),
            stop_tokens=ChatModel.of(shop.base).stop_tokens,
        )
        trainer = Trainer(
            shop.stack,
            shop.engine,
            task,
            settings=settings,
            folder=context.run.path(folder),
            base_name=shop.base.name,
            seed=context.run.seed(folder),
            observers=observers,
        )
        result = await trainer.train()
    _keep_adapters(context, result)
    return {
        "steps": result.steps,
        "best": {seat: {"step": best.step, "accuracy": best.accuracy} for seat, best in result.best.items()},
        "problems left out, too long for the window": prompts.too_long,
        "prompts with shortened responses": prompts.shortened,
    }


def _keep_adapters(context: Context, result: TrainingResult) -> None:
    """Put each seat's best adapter where everybody looks for it."""
    for seat in result.best:
        with writing_folder(context.adapter(seat)) as partial:
            shutil.copytree(result.adapter(seat), partial, dirs_exist_ok=True)


def make_scorer(context: Context, shop: Workshop, grader: Grader) -> Scorer:
    """Return the function that grades a group of completions and rewards them (R1–R3)."""
    weights = context.recipe.reward.model_dump()
    tokenizer = shop.base.tokenizer
    thinking_opened = opens_thinking(chat_prompt("", tokenizer))

    async def score(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        texts = [str(tokenizer.decode(list(one.token_ids), skip_special_tokens=True)) for one in completions]
        pairs = [(text, str(prompt.payload)) for text in texts]
        grades = await grader.grade_async(pairs, thinking_opened=thinking_opened)
        correct, lengths = [grade.correct for grade in grades], [len(one.token_ids) for one in completions]
        totals = total_reward([correct], [lengths], weights=weights)[0]
        parts = {name: REWARDS[name]([correct], [lengths])[0] for name in weights}
        return [
            Reward(float(total), right, {name: float(part[place]) for name, part in parts.items()})
            for place, (total, right) in enumerate(zip(totals, correct, strict=True))
        ]

    return score


class _Prompts:
    """Makes training prompts that fit the window, and counts what did not fit as it was."""

    def __init__(self, context: Context, shop: Workshop) -> None:
        check_chat_template(shop.base.tokenizer)
        self._tokenizer = shop.base.tokenizer
        self._prompts = context.settings.prompts
        self._budget = shop.window - context.recipe.training.max_new_tokens
        if self._budget < 1:
            raise WindowError(
                f"replies of up to {context.recipe.training.max_new_tokens:,} tokens leave no room for a prompt in a "
                f"window of {shop.window:,}; lower training.max_new_tokens"
            )
        self.too_long = 0
        self.shortened = 0

    def generator(self, problem: Problem) -> TrainingPrompt:
        ids = self._ids(self._prompts.ask(problem.question))
        return TrainingPrompt(problem.id, ids, payload=problem.answer)

    def critic(self, example: CriticExample) -> TrainingPrompt:
        fitted = self._fitted(example.question, example.responses)
        return TrainingPrompt(
            example.problem, fitted, payload=example.reference, generator_accuracy=example.generator_accuracy
        )

    def fitting(self, prompts: Iterable[TrainingPrompt]) -> list[TrainingPrompt]:
        """Leave out and count the prompts beside which there is no room for a reply."""
        listed = list(prompts)
        fit = [prompt for prompt in listed if 0 < len(prompt.prompt_ids) <= self._budget]
        self.too_long += len(listed) - len(fit)
        if listed and not fit:
            raise WindowError(
                f"none of {len(listed):,} prompts fits beside replies of the longest length; "
                "lower training.max_new_tokens, or use a model with a longer window"
            )
        return fit

    def _fitted(self, question: str, responses: Sequence[Response]) -> tuple[int, ...]:
        try:
            fitted = fit_debate_prompt(
                question,
                responses,
                prompts=self._prompts,
                count_tokens=lambda text: len(self._ids(text)),
                budget=self._budget,
            )
        except WindowError:
            return ()  # counted by `fitting`, with the questions that are too long by themselves
        self.shortened += fitted.shortened_responses > 0
        return self._ids(fitted.text)

    def _ids(self, text: str) -> tuple[int, ...]:
        return prompt_ids(chat_prompt(text, self._tokenizer), self._tokenizer)
