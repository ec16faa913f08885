# pyright: basic, reportMissingImports=false, reportIndexIssue=false
"""Log-probabilities from logits, and back, as one Triton kernel each. Axes: C token of a chunk, V vocabulary.

Spelt out, each of a dozen operations reads and writes all logits in float32. Here the forward pass reads them once in
the model's own format, and the backward pass overwrites them with their gradient.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 4096


@triton.jit
def _forward_kernel(logits, ids, temperature, log_probs, entropies, normalizers, size, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    highest = -float("inf")
    total = 0.0
    weighted = 0.0
    for start in range(0, size, TILE):
        token = start + tl.arange(0, TILE)
        inside = token < size
        z = tl.load(logits + row * size + token, mask=inside, other=-float("inf")).to(tl.float32) / temperature
        higher = tl.maximum(highest, tl.max(z, axis=0))
        shrink = tl.exp(highest - higher)
        share = tl.exp(z - higher)
        total = total * shrink + tl.sum(share, axis=0)
        weighted = weighted * shrink + tl.sum(tl.where(inside, share * z, 0.0), axis=0)
        highest = higher
    normalizer = highest + tl.log(total)
    own = tl.load(logits + row * size + tl.load(ids + row)).to(tl.float32) / temperature
    tl.store(log_probs + row, own - normalizer)
    tl.store(entropies + row, normalizer - weighted / total)
    tl.store(normalizers + row, normalizer)


@triton.jit
def _backward_kernel(logits, ids, temperature, normalizers, gradients, size, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = token < size
    place = logits + row * size + token
    value = tl.load(place, mask=inside, other=0.0)
    share = tl.exp(value.to(tl.float32) / temperature - tl.load(normalizers + row))
    own = token == tl.load(ids + row)
    gradient = (tl.where(own, 1.0, 0.0) - share) * tl.load(gradients + row) / temperature
    tl.store(place, gradient.to(value.dtype), mask=inside)


def log_probs_of(logits_CV: Tensor, ids_C: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return each token's log-probability, its distribution's entropy, and the logarithm of the normalizing sum."""
    rows, size = logits_CV.shape
    results = [torch.empty(rows, dtype=torch.float32, device=logits_CV.device) for _ in range(3)]
    _forward_kernel[(rows,)](logits_CV, ids_C, temperature, *results, size, TILE=_TILE, num_warps=8)
    return results[0], results[1], results[2]


def replace_by_gradient(
    logits_CV: Tensor, ids_C: Tensor, temperature: float, normalizers_C: Tensor, gradient_C: Tensor
) -> None:
    """Overwrite logits with the gradient that the log-probabilities' gradient has with respect to them."""
    rows, size = logits_CV.shape
    grid = (rows, triton.cdiv(size, _TILE))
    _backward_kernel[grid](
        logits_CV, ids_C, temperature, normalizers_C, gradient_C.contiguous(), size, TILE=_TILE, num_warps=8
    )
