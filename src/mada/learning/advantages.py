"""Advantages: what each completion of a group is credited with. Axes: P prompt, G completion within a prompt's group.

| name             | estimator                                   | for                     | source         |
|------------------|---------------------------------------------|-------------------------|----------------|
| `grpo`           | (R − mean_G R) / (std_G R + ε)              | generators; ablation A3 | A1, DeepSeekMath |
| `counterfactual` | R − w · acc_G, no group statistics          | critics                 | A2, the paper  |

To add one, write a function with the signature of `Advantage` and give it a row in `ADVANTAGES`.

Two rules decide which completions are learnt from:

- a group whose advantages are all exactly 0 is skipped. For `grpo` that is every group without spread in its
  rewards; for `counterfactual` only one in which every completion earned just what the generators had;
- a completion cut off at the token limit is learnt from like any other, with the reward that its scorer gave it
  (`learn`, `wrong`), or counted in its group's statistics and then skipped (`skip`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mada.errors import LearningError
from mada.learning.batches import CreditedCompletion
from mada.learning.rollouts import Group, TrainingPrompt
from mada.recipe.schema import Deviation, Truncated

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an advantage may compare rewards with, beside the group itself.

    `accuracy_weight` is the weight of the accuracy reward (R3); the counterfactual baseline is scaled by the same
    number, so it follows when the recipe changes it. `generator_accuracy_P` was stored when the critic data was built.
    `epsilon` keeps the denominator of A1 from zero (TRL has 1e-4, which shows in the fourth digit).
    """

    generator_accuracy_P: ArrayLike | None = None
    accuracy_weight: float = 2.0
    deviation: Deviation = "population"
    epsilon: float = 1e-6


Advantage = Callable[[ArrayLike, Baseline], Floats]
"""From rewards of groups, `rewards_PG`, and what they may be compared with, to credits of the same shape."""


def group_relative(rewards_PG: ArrayLike, baseline: Baseline) -> Floats:
    """A = (R − mean) / (std + ε) over each group; a group without spread gets exactly zero (A1)."""
    rewards_PG = _groups(rewards_PG)
    if rewards_PG.shape[1] == 1:
        return np.zeros_like(rewards_PG)
    centred_PG = rewards_PG - rewards_PG.mean(axis=1, keepdims=True)
    std_P1 = rewards_PG.std(axis=1, keepdims=True, ddof=1 if baseline.deviation == "sample" else 0)
    # Compared directly: the mean of equal floats may differ from them in the last bit.
    has_spread_P1 = rewards_PG.max(axis=1, keepdims=True) > rewards_PG.min(axis=1, keepdims=True)
    return np.where(has_spread_P1, centred_PG / (std_P1 + baseline.epsilon), 0.0)


def counterfactual(rewards_PG: ArrayLike, baseline: Baseline) -> Floats:
    """A = R − w·acc_G: what the critic adds to what the generators already had on that very problem (A2)."""
    rewards_PG = _groups(rewards_PG)
    if baseline.generator_accuracy_P is None:
        raise ValueError("the counterfactual advantage needs the generators' accuracy on every prompt, got none")
    accuracy_P = np.asarray(baseline.generator_accuracy_P, dtype=np.float64)
    if accuracy_P.shape != rewards_PG.shape[:1] or not np.all((accuracy_P >= 0) & (accuracy_P <= 1)):
        raise ValueError(
            f"the generators' accuracy must be one number in [0, 1] for each of {rewards_PG.shape[0]} prompts, "
            f"got {accuracy_P.tolist()}"
        )
    return rewards_PG - baseline.accuracy_weight * accuracy_P[:, None]


ADVANTAGES: dict[str, Advantage] = {"grpo": group_relative, "counterfactual": counterfactual}


def _groups(rewards_PG: ArrayLike) -> Floats:
    rewards = np.asarray(rewards_PG, dtype=np.float64)
    if rewards.ndim != 2 or rewards.shape[1] == 0:
        raise ValueError(f"rewards must have the axes prompt and group, got shape {rewards.shape}")
    return rewards


@dataclass(frozen=True, slots=True)
class Credit:
    """How rewards become advantages: an advantage by name, with what it needs beside the rewards."""

    advantage: str = "grpo"
    deviation: Deviation = "sample"
    accuracy_weight: float = 2.0


@dataclass(frozen=True, slots=True)
class CreditedGroup:
    """A group with what each of its completions is credited with, and which of them are learnt from."""

    group: Group
    advantages: tuple[float, ...]
    learn: tuple[bool, ...]

    def for_learner(self) -> list[CreditedCompletion]:
        """Return the completions as the learner wants them."""
        return [
            CreditedCompletion(
                agent=self.group.agent,
                prompt_ids=self.group.prompt.prompt_ids,
                completion_ids=completion.token_ids,
                engine_log_probs=completion.log_probs or None,
                advantage=advantage,
                learn=learn,
            )
            for completion, advantage, learn in zip(self.group.completions, self.advantages, self.learn, strict=True)
        ]


def credit_groups(groups: Sequence[Group], credit: Credit, *, truncated: Truncated) -> list[CreditedGroup]:
    """Credit every completion of the groups, which must have one size."""
    rewards_PG = [[reward.total for reward in group.rewards] for group in groups]
    advantages_PG = _advantages(rewards_PG, [group.prompt for group in groups], credit=credit)
    credited: list[CreditedGroup] = []
    for group, advantages_G in zip(groups, advantages_PG, strict=True):
        teaches = bool(np.any(advantages_G != 0))
        learn = tuple(teaches and not (truncated == "skip" and drawn.stop == "length") for drawn in group.completions)
        credited.append(CreditedGroup(group, tuple(map(float, advantages_G)), learn))
    return credited


def check_credit(prompts: Sequence[TrainingPrompt], credit: Credit) -> None:
    """Raise when these prompts cannot be credited: tried with zero rewards, before anything is sampled."""
    if credit.advantage not in ADVANTAGES:
        raise LearningError(f"unknown advantage {credit.advantage!r}; choose from {', '.join(ADVANTAGES)}")
    try:
        _advantages([[0.0]] * len(prompts), prompts, credit=credit)
    except ValueError as error:
        raise LearningError(f"these prompts do not go with the advantage {credit.advantage!r}: {error}") from error


def _advantages(rewards_PG: list[list[float]], prompts: Sequence[TrainingPrompt], *, credit: Credit) -> Floats:
    accuracy_P = [prompt.generator_accuracy for prompt in prompts]
    known_P = [accuracy for accuracy in accuracy_P if accuracy is not None]
    if 0 < len(known_P) < len(accuracy_P):
        without = prompts[accuracy_P.index(None)].id
        raise LearningError(
            f"{len(accuracy_P) - len(known_P)} of {len(accuracy_P)} prompts have no generator_accuracy, {without!r} "
            "for one; give it to all of them (critics) or to none (generators)"
        )
    baseline = Baseline(known_P or None, accuracy_weight=credit.accuracy_weight, deviation=credit.deviation)
    return ADVANTAGES[credit.advantage](rewards_PG, baseline)
