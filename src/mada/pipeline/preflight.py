"""Preflight: finds a recipe's mistakes before the first stage, so that none is found after hours of training.

Every source of problems is read, and the model's configuration, tokenizer and chat template. No weights are loaded.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from mada.agents import window_of
from mada.errors import EngineError, MadaError, RecipeError
from mada.evaluation.plan import EvaluationPlan
from mada.models.chat import check_chat_template
from mada.models.engines.starting import choose_model_engine
from mada.models.loading import load_chat
from mada.pipeline.evaluations import TEAM, systems_of_run
from mada.pipeline.plan import plan_of
from mada.pipeline.split import cut_problems, load_training_problems, rows_to_skip
from mada.problems import load_problems
from mada.problems.sources import go_offline
from mada.recipe import Recipe

T = TypeVar("T")
_TRAINING = {"screen", "generators", "critic-data", "critics"}


def check_recipe(recipe: Recipe, stages: Collection[str]) -> None:
    """Raise one error that lists, one per line, all that would stop these stages of a recipe."""
    mistakes = find_mistakes(recipe, stages)
    if len(mistakes) == 1:
        raise RecipeError(mistakes[0])
    if mistakes:
        raise RecipeError("\n  ".join([f"{len(mistakes)} mistakes, found before any work:", *mistakes]))


def find_mistakes(recipe: Recipe, stages: Collection[str]) -> list[str]:
    """Return what would stop these stages of a recipe, one line each and none twice, under the first key it has."""
    found: dict[str, str] = {}

    def check(key: str, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except MadaError as error:
            if isinstance(error.__cause__, ConnectionError):
                go_offline()
            found.setdefault(" ".join(str(error).split()), key)
            return None

    keys = dict.fromkeys(recipe.decontaminate, "data.decontaminate") if "split" in stages else {}
    if "evaluate" in stages:
        keys |= dict.fromkeys(recipe.evaluation.benchmarks, "evaluation.benchmarks")
    for name, key in keys.items():
        check(key, partial(load_problems, name, folder=recipe.data.folder))
    if "split" in stages:
        problems = check("data.train", lambda: load_training_problems(recipe, skipped=rows_to_skip(recipe)))
        if problems is not None:
            # Copies of benchmarks are looked for by the first stage, which takes longer than all checks together.
            check("data", lambda: cut_problems(recipe, problems))
    if "evaluate" in stages:
        check("evaluation.systems", lambda: _check_systems(recipe))
    if "evaluate" in stages or _TRAINING.intersection(stages):
        check("model", lambda: _check_model(recipe))
        if "model" not in found.values():
            check("engine", lambda: _check_engine(recipe, stages))
            for sentence in check("lora", lambda: plan_of(recipe).blockers) or ():
                found.setdefault(sentence, "memory")
    return [f"{key}: {text}" for text, key in found.items()]


def _check_systems(recipe: Recipe) -> None:
    there = {system.name: system for system in systems_of_run(recipe)}
    missing = [name for name in recipe.evaluation.systems if name not in there]
    if missing:
        raise RecipeError(f"got {missing[0]!r}, which needs critics, and this team has none; leave it out")
    wanted = [there[name] for name in there if name in recipe.evaluation.systems]
    EvaluationPlan.of(wanted, reference=TEAM, benchmarks=recipe.evaluation.benchmarks)


def _check_model(recipe: Recipe) -> None:
    chat = load_chat(recipe.model.name, revision=recipe.model.revision)
    check_chat_template(chat.tokenizer)
    window = window_of(recipe.model, chat)
    for section, limit in (
        ("training", recipe.training.max_new_tokens),
        ("inference", recipe.inference.max_new_tokens),
    ):
        if limit >= window:
            raise RecipeError(
                f"{recipe.model.name} has a window of {window:,} tokens, and {section}.max_new_tokens = {limit} "
                f"leaves no room for a prompt; lower {section}.max_new_tokens"
            )


def _check_engine(recipe: Recipe, stages: Collection[str]) -> None:
    section = recipe.engine
    if (section.kind == "openai" or section.url) and _TRAINING.intersection(stages):
        raise EngineError(
            "a server cannot sample from adapters that change with every step; leave engine.url out and set "
            "engine.kind=auto for the training; `mada evaluate --server URL` and `mada debate` can use a server"
        )
    window = recipe.model.window or recipe.inference.max_new_tokens
    choose_model_engine(section, recipe.model, window=window, alone=False)
