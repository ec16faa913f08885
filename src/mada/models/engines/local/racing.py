# pyright: basic, reportMissingImports=false, reportIndexIssue=false
"""The draw as Triton kernels: the race of `randomness` in one pass over the logits. Axes: N row, V token."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mada.models.engines.local.randomness import TOKEN_MIX_1, TOKEN_MIX_2, TOKEN_STEP

_TILE = 4096


@triton.jit
def _race_kernel(
    logits, temperatures, keys, statistics, winners, size, tiles,
    TILE: tl.constexpr, STEP: tl.constexpr, MIX_1: tl.constexpr, MIX_2: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    temperature = tl.load(temperatures + row)
    greedy = temperature == 0
    token = tile * TILE + tl.arange(0, TILE)
    inside = token < size
    x = tl.load(logits + row * size + token, mask=inside, other=-float("inf")).to(tl.float32)
    x = x / tl.where(greedy, 1.0, temperature)
    # The same numbers as randomness.waiting_times, in unsigned arithmetic.
    mixed = token.to(tl.uint32) * STEP + tl.load(keys + row * 2).to(tl.uint32, bitcast=True)
    mixed = (mixed ^ (mixed >> 16)) * MIX_1
    mixed = mixed ^ tl.load(keys + row * 2 + 1).to(tl.uint32, bitcast=True)
    mixed = (mixed ^ (mixed >> 15)) * MIX_2
    mixed = mixed ^ (mixed >> 16)
    share = ((mixed & 0x7FFFFFFF).to(tl.float32) + 0.5) * 4.656612873077393e-10
    # log1p by its series where 1 − share would round to 1.
    time = tl.where(share < 1e-3, share + 0.5 * share * share, -tl.log(tl.maximum(1.0 - share, 1e-38)))
    scores = tl.where(greedy, x, x - tl.log(time))
    scores = tl.where(inside, scores, -float("inf"))
    best = tl.argmax(scores, axis=0)
    highest = tl.max(x, axis=0)
    at = (row * tiles + tile) * 4
    tl.store(statistics + at, highest)
    tl.store(statistics + at + 1, tl.sum(tl.exp(x - highest), axis=0))
    tl.store(statistics + at + 2, tl.max(scores, axis=0))
    tl.store(statistics + at + 3, tl.sum(tl.where(token == tile * TILE + best, x, 0.0), axis=0))
    tl.store(winners + row * tiles + tile, tile * TILE + best)


@triton.jit
def _finish_kernel(statistics, winners, tokens, log_probs, tiles, TILES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, TILES)
    known = number < tiles
    at = (row * tiles + number) * 4
    highest = tl.load(statistics + at, mask=known, other=-float("inf"))
    mass = tl.load(statistics + at + 1, mask=known, other=0.0)
    score = tl.load(statistics + at + 2, mask=known, other=-float("inf"))
    top = tl.max(highest, axis=0)
    total = tl.sum(mass * tl.exp(highest - top), axis=0)
    best = tl.argmax(score, axis=0)
    value = tl.load(statistics + (row * tiles + best) * 4 + 3)
    tl.store(tokens + row, tl.load(winners + row * tiles + best).to(tl.int64))
    tl.store(log_probs + row, value - top - tl.log(total))


def draw_all(logits_NV: Tensor, temperature_N: Tensor, keys_N2: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row from all tokens, reading the logits once and writing nothing of their size."""
    rows, size = logits_NV.shape
    tiles = triton.cdiv(size, _TILE)
    device = logits_NV.device
    statistics = torch.empty(rows, tiles, 4, dtype=torch.float32, device=device)
    winners = torch.empty(rows, tiles, dtype=torch.int32, device=device)
    tokens = torch.empty(rows, dtype=torch.long, device=device)
    log_probs = torch.empty(rows, dtype=torch.float32, device=device)
    _race_kernel[(rows, tiles)](
        logits_NV, temperature_N, keys_N2, statistics, winners, size, tiles,
        TILE=_TILE, STEP=TOKEN_STEP, MIX_1=TOKEN_MIX_1, MIX_2=TOKEN_MIX_2, num_warps=8,
    )  # fmt: skip
    _finish_kernel[(rows,)](
        statistics, winners, tokens, log_probs, tiles, TILES=max(2, triton.next_power_of_2(tiles)), num_warps=1
    )
    return tokens, log_probs
