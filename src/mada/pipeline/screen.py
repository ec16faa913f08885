"""The optional stage screen: which problems can a generator learn from at all?

GRPO compares a group's completions, so a problem that the model always or never gets right teaches nothing. Here the
bare base answers every problem of the subsets `data.screen` times, as it would in training; generators then learn from
those it gets right sometimes. The validation set, critic data and benchmarks stay complete. Each problem is recorded
when it is done, so an interruption loses only those in progress.
"""

from collections import Counter
from dataclasses import dataclass

from mada.errors import DataError
from mada.learning.rollouts import TrainingPrompt
from mada.models.engines import Sampling
from mada.pipeline.context import Context
from mada.pipeline.results import ScreenResult
from mada.pipeline.split import read_problems, read_split
from mada.pipeline.training_prompts import TrainingPrompts, make_scorer
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


async def screen(context: Context) -> ScreenResult:
    """Let the bare base answer the problems of all subsets, and record how often it is right."""
    recipe, problems = context.recipe, read_problems(context.run)
    records = context.run.records(SCREENINGS, Screening)
    known = {screening.problem for screening in records}
    training = context.training("generator")
    model = context.load_model("generator", trained=False)
    prompts = TrainingPrompts(context, model)
    subsets = [part for part in read_split(context.run).parts if part.name != VALIDATION]
    wanted = prompts.fitting(prompts.generator(problems[name]) for part in subsets for name in part.ids)
    stops = model.chat.stop_tokens
    async with model.engine(longest=prompts.longest, alone=True, log=context.events.log) as engine:
        with context.grader() as grader:
            score = make_scorer(context, model, grader, role="generator")

            async def answer(prompt: TrainingPrompt) -> None:
                seed = context.run.seed("screen", prompt.id)
                sampling = Sampling(
                    training.max_new_tokens, training.temperature, top_p=training.top_p, stop_tokens=stops, seed=seed
                )
                completions = await engine.sample(None, prompt.prompt_ids, sampling, n=recipe.data.screen)
                rewards = await score(prompt, completions)
                right = sum(bool(reward.correct) for reward in rewards)
                cut_off = sum(one.stop == "length" for one in completions)
                records.append(Screening(prompt.id, right, len(completions), cut_off))

            missing = [prompt for prompt in wanted if prompt.id not in known]
            await context.process(missing, answer, done=len(known), at_once=2 * engine.slots)
    found = list(records)
    counts = Counter(screening.right for screening in found)
    return ScreenResult(
        problems=len(found),
        learnable=sum(screening.is_learnable for screening in found),
        by_right={right: counts[right] for right in range(recipe.data.screen + 1)},
        too_long=prompts.too_long,
        truncated=sum(screening.cut_off for screening in found),
    )


def learnable(context: Context, subset: str) -> tuple[str, ...]:
    """Return the problems of a subset that its generator learns from: all, if none were screened."""
    names = read_split(context.run).ids(subset)
    if not context.recipe.data.screen:
        return names
    useful = {one.problem for one in context.run.records(SCREENINGS, Screening) if one.is_learnable}
    kept = tuple(name for name in names if name in useful)
    if not kept:
        raise DataError(
            f"of the {len(names):,} problems of {subset} the bare model gets each always or never right in "
            f"{context.recipe.data.screen} answers; use easier or harder problems, more answers (data.screen), or "
            "larger subsets"
        )
    return kept
