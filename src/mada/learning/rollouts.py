"""Rollouts: all agents' groups of a step, sampled at once, each scored as soon as it is there."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mada.concurrency import all_or_none
from mada.errors import LearningError
from mada.learning.prompts import Reward, Scorer, TrainingPrompt
from mada.models.engines import Completion, Engine, Sampling

Progress = Callable[[int, int], None]
"""Told how many groups are done, of how many."""


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A group to be sampled; with the place in the group, the seed decides every random number of it."""

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
        rewards = await scorer(request.prompt, drawn)
        group = Group(request.agent, request.prompt, tuple(drawn), _checked(rewards, request=request, size=len(drawn)))
        done += 1
        if progress is not None:
            progress(done, len(requests))
        return group

    return await all_or_none([group_of(request) for request in requests])


def _checked(rewards: Sequence[Reward], *, request: GroupRequest, size: int) -> tuple[Reward, ...]:
    where = f"for prompt {request.prompt.id!r} of {request.agent}"
    if len(rewards) != size:
        raise LearningError(
            f"the scorer returned {len(rewards)} rewards for {size} completions {where}; "
            "it must return one for each, in order"
        )
    odd = [reward.total for reward in rewards if not math.isfinite(reward.total)]
    if odd:
        raise LearningError(f"the scorer returned {odd[0]} as a reward {where}; rewards must be finite numbers")
    return tuple(rewards)
