"""Rewards of a group of responses to one prompt (R1–R3). Axes: P prompt, G response within a prompt's group."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


Reward = Callable[[ArrayLike, ArrayLike], Floats]
"""A reward sees which responses are right and how many tokens each took, and scores every response."""


def accuracy(correct_PG: ArrayLike, lengths_PG: ArrayLike) -> Floats:
    """R_acc: 1 for a right answer, 0 for a wrong or missing one."""
    correct_PG, _ = _same_shape(correct_PG, lengths_PG)
    return correct_PG.astype(np.float64)


def length(correct_PG: ArrayLike, lengths_PG: ArrayLike) -> Floats:
    """R_len: λ = 0.5 − (len − min)/(max − min) within the group; right answers earn λ, wrong ones min(0, λ).

    Lengths are generated tokens. When all lengths of a group are equal, λ is 0 (the Kimi k1.5 convention).
    """
    correct_PG, lengths_PG = _same_shape(correct_PG, lengths_PG)
    shortest_P1 = lengths_PG.min(axis=-1, keepdims=True)
    spread_P1 = lengths_PG.max(axis=-1, keepdims=True) - shortest_P1
    relative_PG = (lengths_PG - shortest_P1) / np.where(spread_P1 > 0, spread_P1, 1.0)
    lambda_PG = np.where(spread_P1 > 0, 0.5 - relative_PG, 0.0)
    return np.where(correct_PG, lambda_PG, np.minimum(0.0, lambda_PG))


REWARDS: dict[str, Reward] = {"accuracy": accuracy, "length": length}


def total_reward(correct_PG: ArrayLike, lengths_PG: ArrayLike, *, weights: Mapping[str, float]) -> Floats:
    """R = Σ weight · reward, with the paper's weights 2 for accuracy and 1 for length (R3)."""
    correct_PG, lengths_PG = _same_shape(correct_PG, lengths_PG)
    parts = [weight * REWARDS[name](correct_PG, lengths_PG) for name, weight in weights.items()]
    return np.sum([np.zeros(correct_PG.shape), *parts], axis=0)


def _same_shape(correct_PG: ArrayLike, lengths_PG: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    correct, lengths = np.asarray(correct_PG, dtype=bool), np.asarray(lengths_PG, dtype=np.float64)
    if correct.shape != lengths.shape or correct.ndim == 0 or correct.shape[-1] == 0:
        raise ValueError(
            f"correctness has shape {correct.shape} and lengths {lengths.shape}; "
            "both must be the same, and no group may be empty"
        )
    return correct, lengths
