"""Stages 2 and 4, generators and critics: the same trainer with other prompts and another advantage (T1–T4)."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

from pydantic import JsonValue

from mada.debate.transcript import Role
from mada.errors import DataError, LearningError
from mada.learning.crediting import Credit
from mada.learning.prompts import TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer, TrainingResult
from mada.learning.whole_folders import writing_folder
from mada.models.adapters import load_adapter
from mada.models.loading import ChatModel
from mada.pipeline.context import Context, Workshop, workshop
from mada.pipeline.critic_data import read_critic_examples
from mada.pipeline.screen import learnable
from mada.pipeline.split import read_problems, read_split
from mada.pipeline.teaching import TrainingPrompts, make_scorer
from mada.problems.split import VALIDATION
from mada.report.training import training_warnings

FOLDERS: Mapping[Role, str] = {"generator": "generators", "critic": "critics"}
_TEACHES: Mapping[str, Callable[[float], bool]] = {
    "all": lambda _: True,
    "answered": lambda accuracy: accuracy > 0,
    "disputed": lambda accuracy: 0 < accuracy < 1,
}
"""Which examples critics learn from, by the generators' accuracy."""


async def generators(context: Context) -> dict[str, JsonValue]:
    """Train every generator on its own subset, or what can be learnt from of it, from the bare question."""
    split, problems = read_split(context.run), read_problems(context.run)
    useful = learnable(context)
    seats = context.seats("generator")
    shop = workshop(context, seats, trained=False)
    prompts = TrainingPrompts(context, shop)

    def of_problems(names: Iterable[str]) -> list[TrainingPrompt]:
        return prompts.fitting(prompts.generator(problems[name]) for name in names)

    own = {seat: of_problems(useful(f"subset-{number}")) for number, seat in enumerate(seats, start=1)}
    validation = of_problems(split.ids(VALIDATION))
    return await _train(context, shop, "generator", own=own, validation=validation, prompts=prompts)


async def critics(context: Context) -> dict[str, JsonValue]:
    """Train every critic on its own part of the critic data, from the question and all generators' responses."""
    examples, section = read_critic_examples(context.run), context.recipe.critics
    seats = context.seats("critic")
    shop = workshop(context, seats, trained=False)
    if section.start == "generators":
        for seat, generator in zip(seats, cycle(context.seats("generator")), strict=False):
            load_adapter(shop.stack, seat, context.adapter(generator))
    prompts = TrainingPrompts(context, shop)
    every = [example for example in examples if example.part != VALIDATION]
    truncated = context.training("critic").truncated
    learning = [example for example in every if _TEACHES[section.examples](example.accuracy(truncated))]
    order = context.run.rng("critic-subsets").permutation(len(learning))
    size = len(learning) // len(seats)
    if not size:
        kind = "" if len(every) == len(learning) else f" of {len(every):,} that are {section.examples}"
        raise DataError(
            f"{len(learning)} critic examples{kind} cannot be cut into {len(seats)} subsets; use more problems"
        )
    own = {
        seat: prompts.fitting(
            prompts.critic(learning[place], seat) for place in order[number * size : (number + 1) * size]
        )
        for number, seat in enumerate(seats)
    }

    def validation(seat: str) -> list[TrainingPrompt]:
        return prompts.fitting(prompts.critic(example, seat) for example in examples if example.part == VALIDATION)

    # In the order of the seats all critics have the same prompts.
    shuffled = context.recipe.prompts.order == "shuffled"
    held_out = {seat: validation(seat) for seat in seats} if shuffled else validation(seats[0])
    summary = await _train(context, shop, "critic", own=own, validation=held_out, prompts=prompts)
    chosen = {} if section.examples == "all" else {"examples": len(every), "learnt from": len(learning)}
    return {**summary, **chosen}


async def _train(
    context: Context,
    shop: Workshop,
    role: Role,
    *,
    own: Mapping[str, Sequence[TrainingPrompt]],
    validation: Sequence[TrainingPrompt] | Mapping[str, Sequence[TrainingPrompt]],
    prompts: TrainingPrompts,
) -> dict[str, JsonValue]:
    recipe, folder = context.recipe, FOLDERS[role]
    section = recipe.generators if role == "generator" else recipe.critics
    settings = context.training(role)
    async with shop.sampling(longest=prompts.longest, alone=False) as engine:
        with context.grader() as grader:
            task = TrainingTask(
                prompts=own,
                scorer=make_scorer(context, shop, grader, role=role),
                validation=validation,
                credit=Credit(section.advantage, section.std, recipe.reward.accuracy),
                stop_tokens=ChatModel.of(shop.base).stop_tokens,
            )
            trainer = Trainer(
                shop.stack,
                engine,
                task,
                settings=settings,
                folder=context.run.path(folder),
                base_name=shop.base.name,
                seed=context.run.seed(folder),
                events=context.events,
            )
            result = await trainer.train()
    _keep_adapters(context, result)
    warnings = training_warnings(context.run, folder)
    return {
        "steps": result.steps,
        "best": {seat: {"step": best.step, "accuracy": best.accuracy} for seat, best in result.best.items()},
        "problems left out, too long for the window": prompts.too_long,
        "prompts with shortened responses": prompts.shortened,
        **({"warnings": [*warnings]} if warnings else {}),
    }


def _keep_adapters(context: Context, result: TrainingResult) -> None:
    """Put each seat's best adapter where everybody looks for it."""
    for seat, best in result.best.items():
        with writing_folder(context.adapter(seat)) as partial:
            shutil.copytree(result.adapter(seat), partial, dirs_exist_ok=True)
            if not best.is_whole(partial):
                raise LearningError(
                    f"{result.adapter(seat)} is damaged: it is not the adapter that was saved there. Restore it from a "
                    "copy, or train again"
                )
