"""Which row of a batch belongs to which agent. Axes: N row, K agent."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """The agents of a batch's rows, prepared once for all layers of a forward pass.

    `gate_NK` holds an agent's scale where the row is the agent's, and 0 elsewhere; a row of the bare base has zeros
    only. `span` is there when the rows lie in agent order, equally many for each of the agents from `span[0]` up to
    `span[1]`: then each agent's rows are one block.
    """

    gate_NK: Tensor
    span: tuple[int, int] | None

    @classmethod
    def of(cls, agents_N: list[int], scale_K: Tensor) -> "Routing":
        """Prepare the routing of rows given by agent index, −1 for the bare base."""
        index_N = torch.tensor(agents_N, dtype=torch.long, device=scale_K.device)
        return cls(gates(index_N, scale_K), _even_span(agents_N))


def gates(index_N: Tensor, scale_K: Tensor) -> Tensor:
    """Return an agent's scale where the row is the agent's, and 0 elsewhere, [N, K]."""
    return (index_N[:, None] == torch.arange(len(scale_K), device=scale_K.device)) * scale_K


def _even_span(agents_N: list[int]) -> tuple[int, int] | None:
    if not agents_N or agents_N[0] < 0:
        return None
    first, last = agents_N[0], agents_N[-1]
    count, odd = divmod(len(agents_N), last - first + 1) if last >= first else (0, 1)
    even = not odd and agents_N == [agent for agent in range(first, last + 1) for _ in range(count)]
    return (first, last + 1) if even else None


def _dropout(x: Tensor, share: float) -> Tensor:
    """Set a share of numbers to zero and scale the rest up. On a CPU torch's own takes several times as long."""
    if x.device.type != "cpu":
        return functional.dropout(x, share, training=True)
    # Four decisions from every random 64-bit number; a share is kept to 1/65,536.
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.long).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= round(share * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - share))


@dataclass(slots=True)
class Switchboard:
    """The state all adapted layers of a model look at: the routing of the rows now passing, and whether they learn."""

    routing: Routing | None = None
    learning: bool = False
    """Whether adapter dropout is on: while learning, never while sampling."""
    _dropped: tuple[Tensor, float, Tensor] | None = field(default=None, init=False, repr=False)

    @contextmanager
    def set(self, routing: Routing | None, *, learning: bool = False) -> Generator[None]:
        """Have the layers use a routing, or no adapters at all, inside the block."""
        before = self.routing, self.learning
        self.routing, self.learning, self._dropped = routing, learning, None
        try:
            yield
        finally:
            self.routing, self.learning = before
            self._dropped = None

    def dropped(self, x: Tensor, share: float) -> Tensor:
        """Return a layer's input with dropout; layers that read the very same input (q, k and v) share one mask.

        PEFT draws a mask for each layer; sharing saves most of dropout's time and memory.
        """
        if self._dropped is None or self._dropped[0] is not x or self._dropped[1] != share:
            self._dropped = x, share, _dropout(x, share)
        return self._dropped[2]
