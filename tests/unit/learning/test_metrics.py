import json
from dataclasses import replace
from pathlib import Path

import pytest

from mada.errors import LearningError
from mada.events import Rollout
from mada.learning.advantages import CreditedGroup
from mada.learning.metrics import (
    AgentStep,
    GroupCredit,
    TrainingRecords,
    ValidationStep,
    agent_step,
    group_credits,
    readable_groups,
)
from mada.learning.passes import AgentReport, Canary
from mada.learning.rollouts import Group, Reward, TrainingPrompt
from mada.models.engines import Completion

REPORT = AgentReport(
    tokens_learnt=5,
    learning_rate=1e-6,
    loss=0.5,
    policy_loss=0.25,
    gradient_norm=2.0,
    kl=0.01,
    clip_share=0.125,
    entropy=1.5,
    canary=Canary(mean=0.001, largest=0.002, ratio=1.01),
)


def group(*lengths: int, rewards: tuple[Reward, ...], stops: str) -> Group:
    drawn = tuple(
        Completion((1,) * length, (0.0,) * length, "length" if stop == "l" else "end")
        for length, stop in zip(lengths, stops, strict=True)
    )
    return Group("a", TrainingPrompt("p", (1,)), drawn, rewards)


SPREAD = group(1, 4, rewards=(Reward(2.5, True, {"accuracy": 1.0, "length": 0.5}), Reward(0.0, False)), stops="el")
EVEN = group(2, 3, rewards=(Reward(2.0, True, {"accuracy": 1.0}), Reward(2.0, None)), stops="ee")
CREDITED = [CreditedGroup(SPREAD, (1.0, -1.0), (True, True)), CreditedGroup(EVEN, (0.0, 0.0), (False, False))]
STEP = agent_step(3, "a", CREDITED, REPORT, rollout_seconds=2.0, learn_seconds=0.5)
CREDIT = GroupCredit(3, "a", "p", (2.5, 0.0), (1.0, -1.0), (0.707106, -0.707106), None)
VALIDATION = ValidationStep(0, "a", accuracy=0.5, length=3.0, truncated_share=0.0, is_best=True)


def test_a_step_is_summed_up_over_completions_and_groups():
    assert (
        AgentStep(
            step=3,
            agent="a",
            reward=6.5 / 4,
            reward_parts={"accuracy": 0.5, "length": 0.125},
            accuracy=2 / 3,
            advantage=0.5,
            length=2.5,
            truncated_share=0.25,
            zero_spread_share=0.5,
            skipped_share=0.5,
            loss=0.5,
            policy_loss=0.25,
            kl=0.01,
            clip_share=0.125,
            entropy=1.5,
            gradient_norm=2.0,
            learning_rate=1e-6,
            canary_mean=0.001,
            canary_largest=0.002,
            ratio=1.01,
            tokens=10,
            tokens_learnt=5,
            rollout_tokens_per_second=5.0,
            learn_tokens_per_second=10.0,
        )
        == STEP
    )


def test_a_group_is_written_down_with_what_grpo_would_have_credited():
    about = replace(SPREAD, prompt=replace(SPREAD.prompt, generator_accuracy=2 / 3))
    used = CreditedGroup(about, (2.5 - 4 / 3, -4 / 3), (True, True))
    # By hand: the mean is 1.25 and the deviation of a sample of two 1.25 · √2, that of a population 1.25; A1's ε shows
    # in the sixth digit.
    [credit] = group_credits(3, [used], deviation="sample")
    assert credit == replace(CREDIT, advantages=(1.166667, -1.333333), generator_accuracy=2 / 3)
    [credit] = group_credits(3, [used], deviation="population")
    assert credit.group_relative == (0.999999, -0.999999)
    [even] = group_credits(3, CREDITED[1:], deviation="sample")
    assert (even.rewards, even.group_relative) == ((2.0, 2.0), (0.0, 0.0))


def test_the_group_to_read_is_the_first_whose_rewards_differ():
    groups = readable_groups([CREDITED[1], CREDITED[0]], lambda ids: "x" * (10_000 if len(ids) > 1 else 1))
    assert [(one.agent, one.prompt, one.question) for one in groups] == [("a", "p", "p")]
    first, second = groups[0].rollouts
    assert first == Rollout("x", tokens=1, reward=2.5, advantage=1.0, correct=True, truncated=False)
    assert (second.correct, second.truncated) == (False, True)
    assert len(second.text) < 6_100
    assert readable_groups(CREDITED[1:], lambda ids: "")[0].rollouts[1].correct is None


def test_what_is_no_number_is_none_and_can_be_stored(tmp_path: Path) -> None:
    odd = replace(REPORT, loss=float("nan"), gradient_norm=float("inf"), kl=None, canary=None)
    unknown = group(1, rewards=(Reward(1.0),), stops="e")
    step = agent_step(1, "a", [CreditedGroup(unknown, (0.0,), (False,))], odd, rollout_seconds=0.0, learn_seconds=0.0)
    assert (step.loss, step.gradient_norm, step.kl, step.canary_mean, step.ratio) == (None,) * 5
    assert (step.accuracy, step.rollout_tokens_per_second, step.learn_tokens_per_second) == (None,) * 3
    with TrainingRecords(tmp_path) as records:
        records.add(AgentStep, [step])
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] is None


def steps(folder: Path, name: str) -> list[tuple[int, str]]:
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [(row["step"], row["agent"]) for row in rows]


def test_going_back_to_a_checkpoint_drops_what_came_after_it(tmp_path: Path) -> None:
    with TrainingRecords(tmp_path) as records:
        records.add(ValidationStep, [VALIDATION, replace(VALIDATION, agent="b")])
        for step in (1, 2, 3):
            records.add(AgentStep, [replace(STEP, step=step), replace(STEP, step=step, agent="b")])
            records.add(GroupCredit, [replace(CREDIT, step=step)])
        records.add(ValidationStep, [replace(VALIDATION, step=3)])
        records.sync()
    with TrainingRecords(tmp_path) as records:
        records.drop_after(2)
        records.add(AgentStep, [replace(STEP, step=3, agent="again")])
        records.add(GroupCredit, [replace(CREDIT, step=3, agent="again")])
    assert steps(tmp_path, "metrics.jsonl") == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "again")]
    assert steps(tmp_path, "validation.jsonl") == [(0, "a"), (0, "b")]
    assert steps(tmp_path, "credits.jsonl") == [(1, "a"), (2, "a"), (3, "again")]


def test_without_a_checkpoint_only_the_look_before_the_first_step_is_made_again(tmp_path: Path) -> None:
    with TrainingRecords(tmp_path) as records:
        records.add(ValidationStep, [VALIDATION])
        records.drop_after(None)
        assert steps(tmp_path, "validation.jsonl") == []
        records.add(AgentStep, [STEP])
        with pytest.raises(LearningError, match=r"metrics\.jsonl has records, but there is no checkpoint beside it"):
            records.drop_after(None)
    assert steps(tmp_path, "metrics.jsonl") == [(3, "a")], "nothing is thrown away that cannot be made again"
