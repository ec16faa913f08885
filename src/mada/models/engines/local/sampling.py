"""From logits to tokens: temperature, top-k, top-p and the draw, for all rows at once. Axes: N row, V token.

Random numbers depend on a row's seed, its token count and the token id alone, and are the same on every device and in
every batch. A token is drawn by the Gumbel-max trick, as an exponential race: each token gets an exponential time
divided by its probability, and the shortest wins. Unlike inverse transform sampling, the winner changes only where two
tokens are tied to the last bits, so the rounding that a batch's size brings into the logits does not change it.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea, Flood 2014) turns seed and count into two 32-bit keys.
_STEP = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
# The multipliers of Wellons' low-bias 32-bit hash, which spreads the keys over tokens.
TOKEN_STEP = 0x9E3779B1
TOKEN_MIX_1 = 0x7FEB352D
TOKEN_MIX_2 = 0x846CA68B


@dataclass(frozen=True, slots=True)
class SamplingTensors:
    """Each row's sampling settings, and the seed and token count of its next random numbers."""

    temperature_N: Tensor
    top_p_N: Tensor
    top_k_N: Tensor
    seed_N: Tensor
    count_N: Tensor


def sample_tokens(logits_NV: Tensor, settings: SamplingTensors, *, filtered: bool) -> tuple[Tensor, Tensor]:
    """Draw one token per row; return tokens and their log-probabilities at the row's temperature.

    Rows of temperature 0 take the likeliest token, with its log-probability at temperature 1. `filtered` says whether
    any row has top-k or top-p; without them nothing is sorted.
    """
    greedy_N1 = settings.temperature_N[:, None] == 0
    temperature_N1 = settings.temperature_N[:, None].masked_fill(greedy_N1, 1.0)
    probs_NV = (logits_NV.float() / temperature_N1).softmax(dim=-1)
    times_NV = exponential_times(random_keys(settings.seed_N, settings.count_N), logits_NV.shape[-1])
    scores_NV = times_NV.masked_fill_(greedy_N1, 1.0).reciprocal_().mul_(probs_NV)
    if filtered:
        kept_NV = top_k_top_p_mask(probs_NV, top_p_N=settings.top_p_N, top_k_N=settings.top_k_N)
        scores_NV = scores_NV.masked_fill(~kept_NV, -1.0)
    token_N1 = scores_NV.argmax(dim=-1, keepdim=True)
    # A token that is drawn is never so unlikely that the logarithm of its probability loses precision.
    return token_N1[:, 0], probs_NV.gather(1, token_N1)[:, 0].log()


def top_k_top_p_mask(probs_NV: Tensor, *, top_p_N: Tensor, top_k_N: Tensor) -> Tensor:
    """Return which tokens top-k and top-p keep: top-k first, then the fewest tokens that hold top-p of the rest.

    A top-k of the whole vocabulary and a top-p of 1 keep everything. Tokens as likely as the last one kept are kept.
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


def row_seed(seed: int, index: int) -> int:
    """Return the seed of one completion: its request's seed and its index in the group, as a signed 64-bit number."""
    x = (seed + (index + 1) * _STEP) % 2**64
    x = ((x ^ (x >> 30)) * _MIX_1) % 2**64
    x = ((x ^ (x >> 27)) * _MIX_2) % 2**64
    return _signed(x ^ (x >> 31), 64)


def random_keys(seeds_N: Tensor, counts_N: Tensor) -> Tensor:
    """Return two 32-bit keys for each row's seed and count, [N, 2]."""
    x = seeds_N + (counts_N + 1) * _signed(_STEP, 64)
    x = (x ^ _shift_right(x, 30, 64)) * _signed(_MIX_1, 64)
    x = (x ^ _shift_right(x, 27, 64)) * _signed(_MIX_2, 64)
    x = x ^ _shift_right(x, 31, 64)
    return torch.stack([x, x >> 32], dim=1).to(torch.int32)


def exponential_times(keys_N2: Tensor, vocabulary: int) -> Tensor:
    """Return an exponential random number for each row and token."""
    x = _token_offsets(vocabulary, keys_N2.device) + keys_N2[:, :1]
    x = x.bitwise_xor_(_shift_right(x, 16, 32)).mul_(_signed(TOKEN_MIX_1, 32)).bitwise_xor_(keys_N2[:, 1:])
    x = x.bitwise_xor_(_shift_right(x, 15, 32)).mul_(_signed(TOKEN_MIX_2, 32))
    x = x.bitwise_xor_(_shift_right(x, 16, 32))
    # 31 bits, from ½ to 2³¹ − ½. Short times, which win, come from small fractions, which are the most precise.
    fraction = x.bitwise_and_(2**31 - 1).to(torch.float32).add_(0.5).mul_(2.0**-31)
    return fraction.neg_().log1p_().neg_()


@lru_cache(maxsize=8)
def _token_offsets(vocabulary: int, device: torch.device) -> Tensor:
    return torch.arange(vocabulary, dtype=torch.int32, device=device) * _signed(TOKEN_STEP, 32)


def _shift_right(x: Tensor, bits: int, width: int) -> Tensor:
    # torch shifts signed numbers arithmetically; the mask makes it the unsigned shift.
    return (x >> bits) & ((1 << (width - bits)) - 1)


def _signed(x: int, width: int) -> int:
    return x - 2**width if x >= 2 ** (width - 1) else x
