# pyright: basic, reportMissingImports=false, reportIndexIssue=false
"""Triton kernels for a decoding step, in which launches cost as much as arithmetic.

Each does in one launch what would be several: residual and norm; rotary positions and cache; attention over rows of
different lengths; the second half of the adapters (`expand`); the draw of `sampling.sample_tokens`. Axes: N row,
H key-value head, Q query heads of one, D head size, V token.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mada.models.engines.local.sampling import TOKEN_MIX_1, TOKEN_MIX_2, TOKEN_STEP

_ROWS = 16  # the least that a tensor core's product takes
_PROGRAMS = 264  # twice the multiprocessors of a large GPU: enough to keep its memory busy
_SAMPLE_TILE = 4096  # tokens of the vocabulary per program


@triton.jit
def _add_norm_kernel(x, delta, weight, out, size, epsilon, HAS_DELTA: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < size
    value = tl.load(x + row * size + column, mask=inside, other=0.0)
    if HAS_DELTA:
        change = tl.load(delta + row * size + column, mask=inside, other=0.0)
        value = (value.to(tl.float32) + change.to(tl.float32)).to(value.dtype)
        tl.store(x + row * size + column, value, mask=inside)
    wide = value.to(tl.float32)
    wide = wide * tl.rsqrt(tl.sum(wide * wide, axis=0) / size + epsilon)
    scale = tl.load(weight + column, mask=inside, other=0.0)
    normed = wide.to(value.dtype).to(tl.float32) * scale.to(tl.float32)
    tl.store(out + row * size + column, normed.to(value.dtype), mask=inside)


def add_norm(x: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float) -> Tensor:
    """Add `delta` to the residual stream `x` in position, and return the stream's RMS norm."""
    out = torch.empty_like(x)
    size = x.shape[-1]
    _add_norm_kernel[(len(x),)](
        x, x if delta is None else delta, weight, out, size, epsilon,
        HAS_DELTA=delta is not None, BLOCK=triton.next_power_of_2(size), num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _rotate_store_kernel(
    qkv, queries, keys, values, lengths, cos, sin, query_norm, key_norm, epsilon, query_heads, heads, slot_stride,
    head_stride, SIZE: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr, NORM: tl.constexpr, ROTARY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    position = tl.load(lengths + row)
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    source = qkv + (row * (query_heads + 2 * heads) + head) * SIZE
    left_raw = tl.load(source + at, mask=inside, other=0.0)
    left = left_raw.to(tl.float32)
    right = tl.load(source + HALF + at, mask=inside, other=0.0).to(tl.float32)
    if head < query_heads + heads:
        if NORM:
            scale = tl.rsqrt((tl.sum(left * left, axis=0) + tl.sum(right * right, axis=0)) / SIZE + epsilon)
            if head < query_heads:
                left *= scale * tl.load(query_norm + at, mask=inside, other=0.0).to(tl.float32)
                right *= scale * tl.load(query_norm + HALF + at, mask=inside, other=0.0).to(tl.float32)
            else:
                left *= scale * tl.load(key_norm + at, mask=inside, other=0.0).to(tl.float32)
                right *= scale * tl.load(key_norm + HALF + at, mask=inside, other=0.0).to(tl.float32)
        if ROTARY:
            table = position * SIZE
            cos_left = tl.load(cos + table + at, mask=inside, other=0.0).to(tl.float32)
            cos_right = tl.load(cos + table + HALF + at, mask=inside, other=0.0).to(tl.float32)
            sin_left = tl.load(sin + table + at, mask=inside, other=0.0).to(tl.float32)
            sin_right = tl.load(sin + table + HALF + at, mask=inside, other=0.0).to(tl.float32)
            turned = left * cos_left - right * sin_left
            right = right * cos_right + left * sin_right
            left = turned
    stored = row * slot_stride + position * SIZE
    if head < query_heads:
        target = queries + (row * query_heads + head) * SIZE
    elif head < query_heads + heads:
        target = keys + stored + (head - query_heads) * head_stride
    else:
        target = values + stored + (head - query_heads - heads) * head_stride
    tl.store(target + at, left.to(left_raw.dtype), mask=inside)
    tl.store(target + HALF + at, right.to(left_raw.dtype), mask=inside)


def rotate_and_store(
    qkv: Tensor, keys_SHCD: Tensor, values_SHCD: Tensor, lengths_N: Tensor, *, cos_CD: Tensor, sin_CD: Tensor,
    query_heads: int, query_norm: Tensor | None, key_norm: Tensor | None, epsilon: float, rotary: bool,
) -> Tensor:  # fmt: skip
    """Turn positions into queries and keys, put keys and values at each row's end in the cache, return the queries."""
    rows, heads, size = len(qkv), keys_SHCD.shape[1], keys_SHCD.shape[3]
    queries = torch.empty(rows, query_heads, size, dtype=qkv.dtype, device=qkv.device)
    _rotate_store_kernel[(rows, query_heads + 2 * heads)](
        qkv, queries, keys_SHCD, values_SHCD, lengths_N, cos_CD, sin_CD,
        qkv if query_norm is None else query_norm, qkv if key_norm is None else key_norm, epsilon,
        query_heads, heads, keys_SHCD.stride(0), keys_SHCD.stride(1),
        SIZE=size, HALF=size // 2, BLOCK=triton.next_power_of_2(size // 2),
        NORM=query_norm is not None, ROTARY=rotary, num_warps=1,
    )  # fmt: skip
    return queries


@triton.jit
def _attend_kernel(
    queries, keys, values, lengths, out, partial, statistics, scale, per_head, heads, window, slot_stride, head_stride,
    SIZE: tl.constexpr, SIZE_BLOCK: tl.constexpr, QUERIES: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.program_id(2)
    end = (tl.load(lengths + row) + 1).to(tl.int32)
    start = 0
    if WINDOW:
        start = tl.maximum(0, end - window)
    chunk = tl.cdiv(tl.cdiv(end - start, SPLITS), TILE) * TILE
    low = start + split * chunk
    high = tl.minimum(low + chunk, end)
    query = tl.arange(0, QUERIES)
    at = tl.arange(0, SIZE_BLOCK)
    known = (query < per_head)[:, None] & (at < SIZE)[None, :]
    first = (row * heads + head) * per_head
    q = tl.load(queries + (first + query[:, None]) * SIZE + at[None, :], mask=known, other=0.0)
    highest = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, SIZE_BLOCK), tl.float32)
    origin = row * slot_stride + head * head_stride
    for begin in range(low, high, TILE):
        position = begin + tl.arange(0, TILE)
        inside = (position < high)[:, None] & (at < SIZE)[None, :]
        offset = origin + position[:, None] * SIZE + at[None, :]
        k = tl.load(keys + offset, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where((position < high)[None, :], scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        share = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(share, axis=1)
        v = tl.load(values + offset, mask=inside, other=0.0)
        mixed = mixed * shrink[:, None] + tl.dot(share.to(v.dtype), v, input_precision="ieee")
        highest = higher
    if SPLITS == 1:
        mixed = mixed / total[:, None]
        tl.store(out + (first + query[:, None]) * SIZE + at[None, :], mixed.to(q.dtype), mask=known)
    else:
        slot = ((row * heads + head) * SPLITS + split) * QUERIES
        tl.store(partial + (slot + query[:, None]) * SIZE + at[None, :], mixed, mask=known)
        tl.store(statistics + (slot + query) * 2, highest)
        tl.store(statistics + (slot + query) * 2 + 1, total)


@triton.jit
def _combine_kernel(
    partial, statistics, out, per_head, heads,
    SIZE: tl.constexpr, SIZE_BLOCK: tl.constexpr, QUERIES: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    query = tl.program_id(1)
    head = query // per_head
    slot = (row * heads + head) * SPLITS * QUERIES + query % per_head
    split = tl.arange(0, SPLITS)
    at = tl.arange(0, SIZE_BLOCK)
    inside = at < SIZE
    highest = tl.load(statistics + (slot + split * QUERIES) * 2)
    total = tl.load(statistics + (slot + split * QUERIES) * 2 + 1)
    weight = tl.exp(highest - tl.max(highest, axis=0))
    pieces = tl.load(
        partial + (slot + split[:, None] * QUERIES) * SIZE + at[None, :],
        mask=inside[None, :] & (total > 0)[:, None],
        other=0.0,
    )
    mixed = tl.sum(pieces * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    tl.store(out + (row * heads * per_head + query) * SIZE + at, mixed.to(out.dtype.element_ty), mask=inside)


def attend(
    queries: Tensor, keys_SHCD: Tensor, values_SHCD: Tensor, lengths_N: Tensor, *, scale: float, window: int | None
) -> Tensor:
    """Attend from each row's new token to the row's own positions, however many; [N, heads · size].

    With few rows a row's positions are split between programs, whose parts are combined afterwards.
    """
    rows, query_heads, size = queries.shape
    heads = keys_SHCD.shape[1]
    per_head = query_heads // heads
    block, size_block = max(_ROWS, triton.next_power_of_2(per_head)), triton.next_power_of_2(size)
    splits = triton.next_power_of_2(max(1, min(16, _PROGRAMS // (rows * heads))))
    out = torch.empty_like(queries)
    partial = statistics = out
    if splits > 1:
        partial = torch.empty(rows, heads, splits, block, size, dtype=torch.float32, device=out.device)
        statistics = torch.empty(rows, heads, splits, block, 2, dtype=torch.float32, device=out.device)
    _attend_kernel[(rows, heads, splits)](
        queries, keys_SHCD, values_SHCD, lengths_N, out, partial, statistics, scale, per_head, heads, window or 0,
        keys_SHCD.stride(0), keys_SHCD.stride(1), SIZE=size, SIZE_BLOCK=size_block, QUERIES=block, TILE=64,
        SPLITS=splits, WINDOW=window is not None, num_warps=4, num_stages=3 if queries.element_size() < 4 else 2,
    )  # fmt: skip
    if splits > 1:
        _combine_kernel[(rows, query_heads)](
            partial, statistics, out, per_head, heads, SIZE=size, SIZE_BLOCK=size_block, QUERIES=block, SPLITS=splits,
            num_warps=4,
        )  # fmt: skip
    return out.view(rows, query_heads * size)


@triton.jit
def _expand_kernel(
    y, z, gates, up, rows, width, group_width, ranks, first_end, second_end,
    ROWS: tl.constexpr, RANKS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.program_id(1) * COLUMNS
    column = start + tl.arange(0, COLUMNS)
    member = (start >= first_end).to(tl.int32) + (start >= second_end).to(tl.int32)
    known_row = (row < rows)[:, None]
    target = y + row[:, None].to(tl.int64) * width + column[None, :]
    inside = known_row & (column < width)[None, :]
    result = tl.load(target, mask=inside, other=0.0)
    total = result.to(tl.float32)
    for begin in range(0, ranks, RANKS):
        rank = begin + tl.arange(0, RANKS)
        known = known_row & (rank < ranks)[None, :]
        low = tl.load(z + row[:, None] * group_width + member * ranks + rank[None, :], mask=known, other=0.0)
        gate = tl.load(gates + row[:, None] * ranks + rank[None, :], mask=known, other=0.0)
        part = tl.load(
            up + rank[:, None] * width + column[None, :],
            mask=(rank < ranks)[:, None] & (column < width)[None, :],
            other=0.0,
        )
        total += tl.dot((low * gate).to(part.dtype), part, input_precision="ieee")
    tl.store(target, total.to(result.dtype), mask=inside)


def expand(y: Tensor, z: Tensor, gate_NKR: Tensor, up: Tensor, ends: list[int]) -> None:
    """Add to `y` each row's own adapter: `z` (all agents', for each of up to three layers) times gate times B."""
    rows, width = y.shape
    columns = _columns(ends)
    first, second = (ends[0] if len(ends) > 1 else width), (ends[1] if len(ends) > 2 else width)
    ranks = len(up)
    block = _ROWS if rows <= 2 * _ROWS else 64  # more rows share each tile of B
    _expand_kernel[(triton.cdiv(rows, block), triton.cdiv(width, columns))](
        y, z, gate_NKR, up, rows, width, z.shape[1], ranks, first, second,
        ROWS=block, RANKS=max(16, min(64, triton.next_power_of_2(ranks))), COLUMNS=columns, num_warps=4,
    )  # fmt: skip


def _columns(ends: list[int]) -> int:
    """Return the widest tile that does not straddle two joined layers."""
    return next(size for size in (128, 64, 32, 16) if all(end % size == 0 for end in ends[:-1]))


def can_expand(ends: list[int]) -> bool:
    """Whether joined layers of these sizes can be told apart by tiles."""
    return len(ends) <= 3 and all(end % 16 == 0 for end in ends[:-1])


@triton.jit
def _silu_mul_kernel(pair, out, size, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gate = tl.load(pair + row * 2 * size + at, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    active = (wide / (1 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    up = tl.load(pair + row * 2 * size + size + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * size + at, (active * up).to(gate.dtype), mask=inside)


def silu_mul(pair: Tensor) -> Tensor:
    """Return SiLU of a row's first half times its second half."""
    rows, size = len(pair), pair.shape[1] // 2
    out = torch.empty(rows, size, dtype=pair.dtype, device=pair.device)
    _silu_mul_kernel[(rows, triton.cdiv(size, 1024))](pair, out, size, BLOCK=1024, num_warps=4)
    return out


@triton.jit
def _sample_tile_kernel(
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
    # The same numbers as sampling.exponential_times, in unsigned arithmetic.
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
def _sample_combine_kernel(statistics, winners, tokens, log_probs, tiles, TILES: tl.constexpr):
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


def sample_tokens(logits_NV: Tensor, temperature_N: Tensor, keys_N2: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row from all tokens, reading the logits once and writing nothing of their size."""
    rows, size = logits_NV.shape
    tiles = triton.cdiv(size, _SAMPLE_TILE)
    device = logits_NV.device
    statistics = torch.empty(rows, tiles, 4, dtype=torch.float32, device=device)
    winners = torch.empty(rows, tiles, dtype=torch.int32, device=device)
    tokens = torch.empty(rows, dtype=torch.long, device=device)
    log_probs = torch.empty(rows, dtype=torch.float32, device=device)
    _sample_tile_kernel[(rows, tiles)](
        logits_NV, temperature_N, keys_N2, statistics, winners, size, tiles,
        TILE=_SAMPLE_TILE, STEP=TOKEN_STEP, MIX_1=TOKEN_MIX_1, MIX_2=TOKEN_MIX_2, num_warps=8,
    )  # fmt: skip
    _sample_combine_kernel[(rows,)](
        statistics, winners, tokens, log_probs, tiles, TILES=max(2, triton.next_power_of_2(tiles)), num_warps=1
    )
    return tokens, log_probs
