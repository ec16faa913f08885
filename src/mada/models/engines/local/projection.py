"""Linear layers that read the same input, as one product. Axes: N row, G layer of the group, K agent,
R rank, I in, O out of all layers.

Queries, keys and values are three products of one input, and each of their adapters two more. Laid side by side they
are one product for the weights, one for all A, and one per layer for B. The layers' own parameters become views of the
joined tensors: nothing is copied, and what the optimizer writes is what the engine reads.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

from mada.models.adapters import StackedLinear


class Projection:
    """One or several linear layers of the same input, with their stacked adapters, ready for single tokens."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        bases = [_base(layer) for layer in layers]
        self.weight = _side_by_side([base.weight for base in bases], dim=0)
        # Biases are small, and nobody writes them: a copy.
        biases: list[Tensor | None] = [base.bias for base in bases]
        zeros = [torch.zeros_like(base.weight[:, 0]) for base in bases]
        given = [zero if bias is None else bias.detach() for bias, zero in zip(biases, zeros, strict=True)]
        self.bias = torch.cat(given) if any(bias is not None for bias in biases) else None
        self.ends = list(accumulate(base.out_features for base in bases))
        stacked = [layer for layer in layers if isinstance(layer, StackedLinear)]
        self.adapted = len(stacked) == len(layers)
        if self.adapted:
            self.A_IGKR = _inputs_first([layer.A_KRI for layer in stacked])
            self.B_KRO = _side_by_side([layer.B_KRO for layer in stacked], dim=2)

    @staticmethod
    def possible(layers: Sequence[nn.Module]) -> bool:
        """Whether these layers can be joined: plain or stacked linear layers, all adapted or none."""
        return {type(layer) for layer in layers} in ({nn.Linear}, {StackedLinear})

    def __call__(self, x: Tensor, gate_NKR: Tensor | None) -> Tensor:
        """Apply weights and, with a gate, each row's own adapter; the layers' outputs lie side by side."""
        y = functional.linear(x, self.weight, self.bias)
        if gate_NKR is None or not self.adapted:
            return y
        z_NGKR = self.shrink(x).view(len(x), len(self.ends), -1) * gate_NKR[:, None]
        start = 0
        for place, end in enumerate(self.ends):
            y[:, start:end].addmm_(z_NGKR[:, place], self.B_KRO[..., start:end].flatten(0, 1))
            start = end
        return y

    def shrink(self, x: Tensor) -> Tensor:
        """Return the first half of all agents' adapters, for each of the layers, [N, G·K·R]."""
        return torch.mm(x, self.A_IGKR.flatten(1))


def _base(layer: nn.Module) -> nn.Linear:
    base = layer.base if isinstance(layer, StackedLinear) else layer
    assert isinstance(base, nn.Linear)
    return base


def _side_by_side(parameters: Sequence[Tensor], *, dim: int) -> Tensor:
    """Lay parameters side by side in one tensor, and make them views of it."""
    if len(parameters) == 1:
        return parameters[0].detach()
    joined = torch.cat([parameter.detach() for parameter in parameters], dim=dim)
    for parameter, part in zip(parameters, joined.split([one.shape[dim] for one in parameters], dim=dim), strict=True):
        parameter.data = part
    return joined


def _inputs_first(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Lay all A side by side with the input as first axis, for one product, and make them views of that.

    A product with few columns is several times faster on a CPU when they lie side by side.
    """
    joined = torch.stack([parameter.detach().permute(2, 0, 1) for parameter in parameters], dim=1)
    for place, parameter in enumerate(parameters):
        parameter.data = joined[:, place].permute(1, 2, 0)
    return joined
