"""What is written down about every step: one record per agent in `metrics.jsonl` and `validation.jsonl`, and one per
group in `credits.jsonl`.

Means are over the agent's completions of the step. A number that could not be computed is None: JSON has no NaN.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from mada.errors import LearningError
from mada.events import Rollout, RolloutGroup
from mada.learning.advantages import Baseline, CreditedGroup, group_relative
from mada.learning.passes import AgentReport
from mada.learning.rollouts import Group
from mada.recipe.schema import Deviation
from mada.runs import Records
from mada.runs.records import CREDITS, METRICS, VALIDATION, AgentStep, GroupCredit, ValidationStep
from mada.text import middle_out

READABLE_ROLLOUTS, READABLE_CHARACTERS = 8, 6_000
"""How much of a group whoever follows a training is shown: completions, and characters of each."""

_OF_REPORT = ("loss", "policy_loss", "kl", "clip_share", "entropy", "gradient_norm")
Record = TypeVar("Record", AgentStep, ValidationStep, GroupCredit)


def agent_step(
    step: int,
    agent: str,
    credited: Sequence[CreditedGroup],
    report: AgentReport,
    *,
    rollout_seconds: float,
    learn_seconds: float,
) -> AgentStep:
    """Sum up what an agent did in a step; `credited` are its own groups."""
    groups, canary = [own.group for own in credited], report.canary
    rewards = [reward for group in groups for reward in group.rewards]
    tokens = sum(group.tokens for group in groups)
    parts = dict.fromkeys(name for reward in rewards for name in reward.parts)
    return AgentStep(
        step=step,
        agent=agent,
        reward=_mean(reward.total for reward in rewards),
        reward_parts={name: _mean(reward.parts.get(name, 0.0) for reward in rewards) for name in parts},
        accuracy=accuracy_of(groups),
        advantage=_mean(abs(advantage) for own in credited for advantage in own.advantages),
        length=tokens / len(rewards),
        truncated_share=truncated_share(groups),
        zero_spread_share=_mean(not group.has_spread for group in groups),
        skipped_share=_mean(not learn for own in credited for learn in own.learn),
        learning_rate=report.learning_rate,
        canary_mean=_finite(canary and canary.mean),
        canary_largest=_finite(canary and canary.largest),
        ratio=_finite(canary and canary.ratio),
        **{name: _finite(getattr(report, name)) for name in _OF_REPORT},
        tokens=tokens,
        tokens_learnt=report.tokens_learnt,
        rollout_tokens_per_second=tokens / rollout_seconds if rollout_seconds > 0 else None,
        learn_tokens_per_second=report.tokens_learnt / learn_seconds if learn_seconds > 0 else None,
    )


def group_credits(step: int, credited: Sequence[CreditedGroup], *, deviation: Deviation) -> list[GroupCredit]:
    """Write down every group's rewards and credits."""
    rewards_PG = [[reward.total for reward in own.group.rewards] for own in credited]
    relative_PG = group_relative(rewards_PG, Baseline(deviation=deviation)).tolist()
    return [
        GroupCredit(
            step=step,
            agent=own.group.agent,
            prompt=own.group.prompt.id,
            rewards=_rounded(rewards_G),
            advantages=_rounded(own.advantages),
            group_relative=_rounded(relative_G),
            generator_accuracy=own.group.prompt.generator_accuracy,
        )
        for own, rewards_G, relative_G in zip(credited, rewards_PG, relative_PG, strict=True)
    ]


def readable_groups(
    credited: Iterable[CreditedGroup], decode: Callable[[Sequence[int]], str]
) -> tuple[RolloutGroup, ...]:
    """Return a group of every agent to read: its first whose rewards differ, else its first."""
    chosen: dict[str, CreditedGroup] = {}
    for own in credited:
        agent = own.group.agent
        if agent not in chosen or (own.group.has_spread and not chosen[agent].group.has_spread):
            chosen[agent] = own
    return tuple(_readable(own, decode) for own in chosen.values())


def _readable(own: CreditedGroup, decode: Callable[[Sequence[int]], str]) -> RolloutGroup:
    group = own.group
    rollouts = [
        Rollout(
            text=middle_out(decode(drawn.token_ids), READABLE_CHARACTERS),
            tokens=len(drawn.token_ids),
            reward=reward.total,
            advantage=advantage,
            correct=reward.correct,
            truncated=drawn.stop == "length",
        )
        for drawn, reward, advantage in zip(group.completions, group.rewards, own.advantages, strict=True)
    ]
    question = middle_out(group.prompt.question or group.prompt.id, READABLE_CHARACTERS)
    return RolloutGroup(group.agent, group.prompt.id, question, tuple(rollouts[:READABLE_ROLLOUTS]))


def accuracy_of(groups: Sequence[Group]) -> float | None:
    """Return the share of right completions among those that can be right or wrong; None when none can."""
    verdicts = [reward.correct for group in groups for reward in group.rewards if reward.correct is not None]
    return _mean(verdicts) if verdicts else None


def truncated_share(groups: Sequence[Group]) -> float:
    """Return the share of completions that were cut off at the token limit."""
    return _mean(drawn.stop == "length" for group in groups for drawn in group.completions)


class TrainingRecords(ExitStack):
    """The record files of a training's folder, open for appending within a `with` block."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        kinds = ((METRICS, AgentStep), (VALIDATION, ValidationStep), (CREDITS, GroupCredit))
        self._files: dict[type[Any], Records[Any]] = {}
        with ExitStack() as opened:
            for name, kind in kinds:
                self._files[kind] = opened.enter_context(Records(folder / name, kind))
            self.push(opened.pop_all())

    def drop_after(self, step: int | None) -> None:
        """Drop what was recorded after a checkpoint's step, or all of it without one: it is about to be made again."""
        steps = self._files[AgentStep]
        if step is None and len(steps):
            raise LearningError(
                f"{steps.path} has records, but there is no checkpoint beside it; restore the checkpoints, "
                "or train in another folder"
            )
        last = -1 if step is None else step
        for records in self._files.values():
            records.keep_while(lambda record: record.step <= last)

    def add(self, kind: type[Record], records: Iterable[Record]) -> None:
        """Append records of one kind, all of them or none."""
        self._files[kind].extend(records)

    def sync(self) -> None:
        """Wait until the records would outlive a power cut, as the checkpoint written next will."""
        for records in self._files.values():
            records.sync()


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in values)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
