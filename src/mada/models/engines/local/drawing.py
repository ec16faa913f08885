"""From logits to tokens: temperature, top-k, top-p and the draw itself, for all rows at once. Axes: N row, V token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mada.models.engines.local.randomness import keys, waiting_times


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """Each row's sampling settings as tensors, and the seed and count that its next random numbers come from."""

    temperature_N: Tensor
    top_p_N: Tensor
    top_k_N: Tensor
    seed_N: Tensor
    count_N: Tensor


def draw(logits_NV: Tensor, settings: DrawSettings, *, filtered: bool) -> tuple[Tensor, Tensor]:
    """Draw one token per row; return tokens and their log-probabilities at the row's temperature.

    A row's token depends on nothing but its logits, seed and count. Rows of temperature 0 take the likeliest token, and
    its log-probability at temperature 1. `filtered` says whether any row has top-k or top-p; else nothing is sorted.
    """
    greedy_N1 = settings.temperature_N[:, None] == 0
    temperature_N1 = settings.temperature_N[:, None].masked_fill(greedy_N1, 1.0)
    probs_NV = (logits_NV.float() / temperature_N1).softmax(dim=-1)
    times_NV = waiting_times(keys(settings.seed_N, settings.count_N), logits_NV.shape[-1])
    scores_NV = times_NV.masked_fill_(greedy_N1, 1.0).reciprocal_().mul_(probs_NV)
    if filtered:
        kept_NV = likeliest(probs_NV, top_p_N=settings.top_p_N, top_k_N=settings.top_k_N)
        scores_NV = scores_NV.masked_fill(~kept_NV, -1.0)
    token_N1 = scores_NV.argmax(dim=-1, keepdim=True)
    # The logarithm of what was drawn: a token that wins the race is never so unlikely that this loses precision.
    return token_N1[:, 0], probs_NV.gather(1, token_N1)[:, 0].log()


def likeliest(probs_NV: Tensor, *, top_p_N: Tensor, top_k_N: Tensor) -> Tensor:
    """Return which tokens top-k and top-p leave: top-k first, then the fewest tokens that hold top-p of the rest.

    A row keeps everything with a top-k of all tokens and top-p = 1. Tokens exactly as likely as the last one kept are
    kept too.
    """
    sorted_NV = probs_NV.sort(dim=-1, descending=True).values
    within_k_NV = torch.arange(probs_NV.shape[-1], device=probs_NV.device) < top_k_N[:, None]
    sorted_NV = sorted_NV * within_k_NV
    before_NV = sorted_NV.cumsum(dim=-1) - sorted_NV
    # A row with top-p = 1 must not lose its tail to rounding of the sums.
    share_N1 = torch.where(top_p_N < 1, top_p_N, 2.0)[:, None] * sorted_NV.sum(dim=-1, keepdim=True)
    kept_NV = within_k_NV & (before_NV < share_N1)
    smallest_N1 = sorted_NV.masked_fill(~kept_NV, torch.inf).amin(dim=-1, keepdim=True)
    return probs_NV >= smallest_N1
