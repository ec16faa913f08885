"""The stage screen, in recipes that want it: which problems can a generator learn from at all?

GRPO compares a group's completions, so a problem that the model always or never gets right teaches nothing, and its
completions are sampled for nothing. Here the bare base answers every problem of the subsets `data.screen` times, as it
would in training; generators then learn from those it gets right sometimes. The validation set, critic data and
benchmarks stay whole. One record per problem, so an interruption costs the problems under way.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from mada.errors import DataError
from mada.learning.prompts import TrainingPrompt
from mada.models.engines import Sampling
from mada.models.loading import ChatModel
from mada.pipeline.context import Context, workshop
from mada.pipeline.split import read_problems, read_split
from mada.pipeline.teaching import TrainingPrompts, make_scorer
from mada.problems.split import VALIDATION

SCREENINGS = "screenings"


@dataclass(frozen=True, slots=True)
class Screening:
    """How often the bare base was right on a problem, of how many times, and how often it was cut off."""

    problem: str
    right: int
    of: int
    cut_off: int

    @property
    def is_learnable(self) -> bool:
        """Whether there is a difference to learn from."""
        return 0 < self.right < self.of


async def screen(context: Context) -> dict[str, JsonValue]:
    """Let the bare base answer the problems of all subsets, and record how often it was right."""
    recipe, problems = context.recipe, read_problems(context.run)
    records = context.run.records(SCREENINGS, Screening)
    known = {screening.problem for screening in records}
    training = context.training("generator")
    shop = workshop(context, context.seats("generator"), trained=False)
    prompts = TrainingPrompts(context, shop)
    wanted = prompts.fitting(prompts.generator(problems[name]) for name in _names(context))
    stops = ChatModel.of(shop.base).stop_tokens
    async with shop.sampling(longest=prompts.longest, alone=True) as engine:
        with context.grader() as grader:
            score = make_scorer(context, shop, grader, role="generator")

            async def answer(prompt: TrainingPrompt) -> None:
                seed = context.run.seed("screen", prompt.id)
                sampling = Sampling(
                    training.max_new_tokens, training.temperature, top_p=training.top_p, stop_tokens=stops, seed=seed
                )
                drawn = await engine.sample(None, prompt.prompt_ids, sampling, n=recipe.data.screen)
                rewards = await score(prompt, drawn)
                right, cut_off = sum(bool(one.correct) for one in rewards), sum(one.stop == "length" for one in drawn)
                records.append(Screening(prompt.id, right, len(drawn), cut_off))

            missing = [prompt for prompt in wanted if prompt.id not in known]
            await context.work_off(missing, answer, done=len(known), at_once=2 * engine.slots)
    found = list(records)
    counts = Counter(screening.right for screening in found)
    return {
        "problems": len(found),
        "learnable": sum(screening.is_learnable for screening in found),
        "by right answers": {str(right): counts[right] for right in range(recipe.data.screen + 1)},
        "problems left out, too long for the window": prompts.too_long,
        "cut off": sum(screening.cut_off for screening in found),
    }


def learnable(context: Context) -> Callable[[str], tuple[str, ...]]:
    """Return what gives the problems that a generator learns from, by the subset's name: all, if none were screened."""
    split = read_split(context.run)
    if not context.recipe.data.screen:
        return split.ids
    useful = {one.problem for one in context.run.records(SCREENINGS, Screening) if one.is_learnable}

    def of_subset(name: str) -> tuple[str, ...]:
        kept = tuple(one for one in split.ids(name) if one in useful)
        if not kept:
            raise DataError(
                f"of the {len(split.ids(name)):,} problems of {name} the bare model gets each always or never right in "
                f"{context.recipe.data.screen} answers; use easier or harder problems, more answers (data.screen), or "
                "larger subsets"
            )
        return kept

    return of_subset


def _names(context: Context) -> Iterator[str]:
    for part in read_split(context.run).parts:
        if part.name != VALIDATION:
            yield from part.ids
