"""The GRPO objective (T1). Axes: B completion, T completion token (a micro-batch's completions end to end).

    ratio     = exp(log π − log π_old)
    policy    = −min(ratio · A, clip(ratio, 1 − ε, 1 + ε) · A)
    k3        = exp(log π_ref − log π) − (log π_ref − log π) − 1            ≥ 0, estimates KL(π ‖ π_ref)
    loss      = Σ_T weight · (policy + β · k3)

Completions stand end to end, without padding, so there is nothing to mask. All that couples completions is the
weight, and `AGGREGATIONS` makes it from all of an agent's completions of a step before any is cut into micro-batches:
sums of micro-batches are the sum of the batch. A completion that is skipped keeps its part in the weights of the
others: skipping saves time and never changes the scale.

| aggregation | weight of a token                           | reads as                                 | source   |
|-------------|---------------------------------------------|------------------------------------------|----------|
| `sequence`  | 1 / (completions · its completion's length) | mean over tokens, then completions       | GRPO     |
| `token`     | 1 / (tokens of all completions)             | mean over all tokens                     | DAPO     |
| `budget`    | 1 / (completions · max_tokens)              | sum over tokens by a constant, then mean | Dr. GRPO |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Aggregation = Callable[[Sequence[int], int], list[float]]
"""From the lengths of all of one agent's completions, and max_tokens, to each completion's weight per token."""


def by_sequence(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every completion counts the same."""
    return [1 / (len(lengths_B) * length) for length in lengths_B]


def by_token(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every token counts the same."""
    return [1 / sum(lengths_B)] * len(lengths_B)


def by_budget(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every token counts the same, whatever the lengths turned out to be."""
    return [1 / (len(lengths_B) * max_tokens)] * len(lengths_B)


AGGREGATIONS: Mapping[str, Aggregation] = {"sequence": by_sequence, "token": by_token, "budget": by_budget}


@dataclass(frozen=True, slots=True)
class GrpoLoss:
    """The loss to go backward from, and each token's part in it (detached)."""

    loss: Tensor
    weighted_T: Tensor
    """What each token adds to the loss; they sum to it."""
    weighted_policy_T: Tensor
    """The same without the KL term."""
    kl_T: Tensor | None
    """k3, unweighted; missing without a reference."""
    clipped_T: Tensor
    """Whether the ratio has left its range in the advantage's direction, so that the token teaches nothing more."""


def grpo(
    log_probs_T: Tensor,
    *,
    old_T: Tensor,
    reference_T: Tensor | None,
    advantages_T: Tensor,
    weights_T: Tensor,
    clip_range: float,
    kl_coefficient: float,
) -> GrpoLoss:
    """Compute the objective; advantages and weights are those of each token's completion."""
    ratio_T = torch.exp(log_probs_T - old_T)
    clamped_T = ratio_T.clamp(1 - clip_range, 1 + clip_range)
    token_T = policy_T = -torch.minimum(ratio_T * advantages_T, clamped_T * advantages_T)
    kl_T = None
    if reference_T is not None:
        kl_T = k3(log_probs_T, reference_T)
        token_T = policy_T + kl_coefficient * kl_T
    weighted_T = weights_T * token_T
    clipped_T = torch.where(advantages_T > 0, ratio_T > 1 + clip_range, ratio_T < 1 - clip_range) & (advantages_T != 0)
    return GrpoLoss(
        loss=weighted_T.sum(),
        weighted_T=weighted_T.detach(),
        weighted_policy_T=(weights_T * policy_T).detach(),
        kl_T=None if kl_T is None else kl_T.detach(),
        clipped_T=clipped_T,
    )


def k3(log_probs_T: Tensor, reference_T: Tensor) -> Tensor:
    """Schulman's low-variance estimate of KL(π ‖ π_ref) from tokens sampled from π."""
    difference_T = reference_T - log_probs_T
    return torch.exp(difference_T) - difference_T - 1
