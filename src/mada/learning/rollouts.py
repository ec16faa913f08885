"""Rollouts: all agents' groups of a step, sampled at once, each scored as soon as it is complete.

A stage hands the trainer each agent's prompts and a function that scores what was sampled for one. Generators and
critics differ in nothing else, so one trainer serves both.
"""

import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mada.concurrency import gather_or_cancel
from mada.errors import LearningError
from mada.models.engines import Completion, Engine, Sampling
from mada.recipe.schema import TrainingSettings
from mada.seeds import rng


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """One prompt as tokens. `payload` is whatever the scorer needs, for instance the reference answer.

    `question` is what people are shown instead of the tokens. `generator_accuracy` is acc_G, which the counterfactual
    advantage compares a critic with (A2).
    """

    id: str
    prompt_ids: tuple[int, ...]
    payload: object = None
    generator_accuracy: float | None = None
    question: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Reward:
    """What one completion earned: the total that learning sees, and what people want to see beside it.

    `correct` is None where right and wrong have no meaning; `parts` are the unweighted terms of the total by name.
    """

    total: float
    correct: bool | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


Scorer = Callable[[TrainingPrompt, Sequence[Completion]], Awaitable[Sequence[Reward]]]
"""Scores all completions of one prompt in one call, because the length reward compares them with each other (R2)."""


def steps_to_take(settings: TrainingSettings, prompts: Mapping[str, Sequence[TrainingPrompt]]) -> int:
    """Return `settings.steps`, or else the steps after which the agent with most prompts has seen all its epochs."""
    if settings.steps is not None:
        return settings.steps
    most = max(len(own) for own in prompts.values())
    # Rounded first: 0.07 · 100 is a little more than 7 in floating point, and must not cost a step.
    return math.ceil(round(settings.epochs * most / settings.prompts_per_step, 9))


def prompts_of_step(
    prompts: Sequence[TrainingPrompt], step: int, *, agent: str, count: int, seed: int
) -> list[TrainingPrompt]:
    """Return the `count` prompts an agent sees in a step, counted from 1: a pure function, so a resumed run agrees.

    Every epoch is a fresh permutation by seed path, and a step that needs more than an epoch has left goes on in the
    next one.
    """
    first = (step - 1) * count
    epochs = range(first // len(prompts), (first + count - 1) // len(prompts) + 1)
    order = [int(index) for epoch in epochs for index in rng(seed, "order", agent, epoch).permutation(len(prompts))]
    start = first - epochs.start * len(prompts)
    return [prompts[index] for index in order[start : start + count]]


def digest_of_prompts(prompts: Sequence[TrainingPrompt]) -> str:
    """Name a list of prompts by its content, payloads left out, so that a resumed run can tell its data apart."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps([prompt.id, prompt.prompt_ids, prompt.generator_accuracy]).encode() + b"\n")
    return digest.hexdigest()


Progress = Callable[[int, int], None]
"""Called with the number of groups done and of all."""


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A group to be sampled; with the index in the group, the seed decides every random number of it."""

    agent: str
    prompt: TrainingPrompt
    seed: int


@dataclass(frozen=True, slots=True)
class Group:
    """GRPO's unit: one agent's completions of one prompt, with their rewards."""

    agent: str
    prompt: TrainingPrompt
    completions: tuple[Completion, ...]
    rewards: tuple[Reward, ...]

    @property
    def tokens(self) -> int:
        """Tokens that were sampled."""
        return sum(len(completion.token_ids) for completion in self.completions)

    @property
    def has_spread(self) -> bool:
        """Whether the rewards differ, without which a group teaches nothing about what is better."""
        return len({reward.total for reward in self.rewards}) > 1


async def sample_groups(
    engine: Engine,
    requests: Sequence[GroupRequest],
    scorer: Scorer,
    *,
    sampling: Sampling,
    size: int,
    progress: Progress | None = None,
) -> list[Group]:
    """Sample and score a group of `size` completions for every request, and return them in the requests' order.

    Every group is one task and the engine batches whatever waits, so grading runs beside sampling.
    """
    done = 0

    async def group_of(request: GroupRequest) -> Group:
        nonlocal done
        drawn = await engine.sample(
            request.agent, request.prompt.prompt_ids, replace(sampling, seed=request.seed), n=size
        )
        rewards = tuple(await scorer(request.prompt, drawn))
        if len(rewards) != len(drawn) or not all(math.isfinite(reward.total) for reward in rewards):
            raise LearningError(
                f"for prompt {request.prompt.id!r} of {request.agent} the scorer returned the rewards "
                f"{[reward.total for reward in rewards]}; it must return a finite number for each of {len(drawn)} "
                "completions, in order"
            )
        done += 1
        if progress is not None:
            progress(done, len(requests))
        return Group(request.agent, request.prompt, tuple(drawn), rewards)

    return await gather_or_cancel([group_of(request) for request in requests])
