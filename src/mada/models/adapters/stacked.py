"""A linear layer with K low-rank adapters, computed for all rows at once. Axes: N row, K agent, R rank, I in, O out."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from mada.errors import AdapterError
from mada.models.adapters.routing import Routing, Switchboard


class StackedLinear(nn.Module):
    """y = Wx + b + scale_k · B_k A_k x, where k is the agent of x's row.

    Two matrix products do the low-rank part of a whole batch, and no loop over agents:

    - rows in agent order, equally many each: products batched over agents;
    - any other order: one product with all A side by side, the columns of other agents' adapters set to zero, one
      product with all B. The zeros cost K times the (small) low-rank arithmetic, and no copy of any weight.

    An input is [row, position, feature], or the same with rows and positions laid end to end in one axis.

    Adapters of smaller rank are padded with zero rows of A and B. These get zero gradients (each is a product with the
    other's zeros), so they stay zero, and padding is exact.
    """

    def __init__(self, base: nn.Linear, *, agents: int, rank: int, dropout: float, switchboard: Switchboard) -> None:
        super().__init__()
        self.base = base
        self.rank = rank
        self.dropout = dropout
        weight = base.weight
        self.A_KRI = nn.Parameter(weight.new_zeros(agents, rank, base.in_features))
        self.B_KRO = nn.Parameter(weight.new_zeros(agents, rank, base.out_features))
        self._switchboard = switchboard

    @property
    def in_features(self) -> int:
        """Size of the input."""
        return self.base.in_features

    @property
    def out_features(self) -> int:
        """Size of the output."""
        return self.base.out_features

    @property
    def weight(self) -> Tensor:
        """The frozen base weight: some models read its dtype or device."""
        return self.base.weight

    @property
    def bias(self) -> Tensor | None:
        """The frozen base bias."""
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply base and adapters to rows laid out as the switchboard's routing says."""
        y = self.base(x)
        routing = self._switchboard.routing
        if routing is None:
            return y
        rows = len(routing.gate_NK)
        if x.shape[0] != rows and not (x.shape[:-1].numel() % rows == 0 and (x.dim() == 2 or x.shape[0] == 1)):
            raise AdapterError(
                f"the batch has {x.shape[0]} rows, but agents were named for {rows}: name one for each row"
            )
        if self._switchboard.learning and self.dropout:
            x = self._switchboard.dropped(x, self.dropout)
        low_rank = self._by_block if routing.span else self._by_gate
        return low_rank(x, y, routing)

    def _by_block(self, x: Tensor, y: Tensor, routing: Routing) -> Tensor:
        assert routing.span is not None
        first, end = routing.span
        count = end - first
        scale_K11 = routing.gate_NK[:: len(routing.gate_NK) // count, first:end].diagonal()[:, None, None]
        x_K = x.reshape(count, -1, x.shape[-1])
        z_K = torch.bmm(x_K, self.A_KRI[first:end].transpose(1, 2)) * scale_K11.to(x.dtype)
        # Into y itself, which nobody else has seen: a copy would read and write all outputs once more.
        y.view(count, -1, y.shape[-1]).baddbmm_(z_K, self.B_KRO[first:end])
        return y

    def _by_gate(self, x: Tensor, y: Tensor, routing: Routing) -> Tensor:
        agents = len(self.A_KRI)
        z = functional.linear(x, self.A_KRI.flatten(0, 1)).reshape(len(routing.gate_NK), -1, agents, self.rank)
        gated = (z * routing.gate_NK[:, None, :, None].to(z.dtype)).view(-1, agents * self.rank)
        y.view(-1, y.shape[-1]).addmm_(gated, self.B_KRO.flatten(0, 1))
        return y
