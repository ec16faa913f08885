"""Advantages: what a response is credited with. Axes: P prompt, G response within a prompt's group.

| name             | estimator                                   | for                     | source         |
|------------------|---------------------------------------------|-------------------------|----------------|
| `grpo`           | (R − mean_G R) / (std_G R + ε)              | generators; ablation A3 | A1, DeepSeekMath |
| `counterfactual` | R − w · acc_G, no group statistics          | critics                 | A2, the paper  |

To add one, write a function with the signature of `Advantage` and give it a row in `ADVANTAGES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mada.recipe.training import Deviation

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


class Advantage(Protocol):
    """From rewards of groups to credits of the same shape."""

    def __call__(self, rewards_PG: ArrayLike, baseline: Baseline) -> Floats:
        """Credit every response."""
        ...


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


ADVANTAGES: Mapping[str, Advantage] = {"grpo": group_relative, "counterfactual": counterfactual}


def _groups(rewards_PG: ArrayLike) -> Floats:
    rewards = np.asarray(rewards_PG, dtype=np.float64)
    if rewards.ndim != 2 or rewards.shape[1] == 0:
        raise ValueError(f"rewards must have the axes prompt and group, got shape {rewards.shape}")
    return rewards
