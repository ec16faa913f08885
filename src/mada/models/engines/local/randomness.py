"""Random numbers that depend on a seed, a count and a token alone, the same on every device and in every batch.

Tokens are drawn by a race: each token gets an exponential waiting time divided by its probability, and the shortest
wins (the Gumbel trick). Unlike inverting the distribution function, the winner changes only where two tokens are tied
to the last bits, so the rounding that a batch's size brings into the logits does not change what is drawn.
Axes: N row, V token.
"""

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


def row_seed(seed: int, place: int) -> int:
    """Return the seed of one completion: its request's seed and its place in the group, as a signed 64-bit number."""
    x = (seed + (place + 1) * _STEP) % 2**64
    x = ((x ^ (x >> 30)) * _MIX_1) % 2**64
    x = ((x ^ (x >> 27)) * _MIX_2) % 2**64
    return _signed(x ^ (x >> 31), 64)


def keys(seeds_N: Tensor, counts_N: Tensor) -> Tensor:
    """Return two 32-bit keys for each row's seed and count, [N, 2]."""
    x = seeds_N + (counts_N + 1) * _signed(_STEP, 64)
    x = (x ^ _shifted(x, 30, 64)) * _signed(_MIX_1, 64)
    x = (x ^ _shifted(x, 27, 64)) * _signed(_MIX_2, 64)
    x = x ^ _shifted(x, 31, 64)
    return torch.stack([x, x >> 32], dim=1).to(torch.int32)


def waiting_times(keys_N2: Tensor, vocabulary: int) -> Tensor:
    """Return an exponential waiting time for each row and token."""
    x = _stepped(vocabulary, keys_N2.device) + keys_N2[:, :1]
    x = x.bitwise_xor_(_shifted(x, 16, 32)).mul_(_signed(TOKEN_MIX_1, 32)).bitwise_xor_(keys_N2[:, 1:])
    x = x.bitwise_xor_(_shifted(x, 15, 32)).mul_(_signed(TOKEN_MIX_2, 32))
    x = x.bitwise_xor_(_shifted(x, 16, 32))
    # 31 bits, from ½ to 2³¹ − ½. Short times, which win, come from small shares, whose fractions are the most precise.
    share = x.bitwise_and_(2**31 - 1).to(torch.float32).add_(0.5).mul_(2.0**-31)
    return share.neg_().log1p_().neg_()


@lru_cache(maxsize=8)
def _stepped(vocabulary: int, device: torch.device) -> Tensor:
    return torch.arange(vocabulary, dtype=torch.int32, device=device) * _signed(TOKEN_STEP, 32)


def _shifted(x: Tensor, bits: int, width: int) -> Tensor:
    # torch shifts signed numbers arithmetically; the mask makes it the unsigned shift.
    return (x >> bits) & ((1 << (width - bits)) - 1)


def _signed(x: int, width: int) -> int:
    return x - 2**width if x >= 2 ** (width - 1) else x
