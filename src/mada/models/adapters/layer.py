"""The shape of an adapter, and a linear layer with K of them, computed for all rows of a batch at once.

Axes: N row, K agent, R rank, I in, O out.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mada.errors import AdapterError

Targets = tuple[str, ...] | Literal["all-linear"]


@dataclass(frozen=True, slots=True)
class Lora:
    """The shape of one adapter (T2): y = Wx + (alpha / rank) · B A x, with dropout on x while learning."""

    rank: int = 16
    alpha: float = 128.0
    dropout: float = 0.05
    targets: Targets = "all-linear"

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"an adapter's rank must be at least 1, got {self.rank}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"an adapter's dropout must be in [0, 1), got {self.dropout}")

    @property
    def scale(self) -> float:
        """The factor of the low-rank update."""
        return self.alpha / self.rank


def target_layers(model: nn.Module, targets: Targets) -> Iterator[tuple[str, nn.Linear]]:
    """Yield the layers that an adapter is attached to, by path, in the order of the model.

    `all-linear` is every linear layer but the output head, as in PEFT; a name means the layers whose path ends in it.
    """
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
    linear = [path for path, one in model.named_modules() if isinstance(one, nn.Linear) and one is not head]
    names = ("all-linear",) if targets == "all-linear" else targets
    found: set[str] = set()
    for path, module in model.named_modules():
        if targets == "all-linear":
            matching = ["all-linear"] if path in linear else []
        else:
            matching = [name for name in names if path == name or path.endswith(f".{name}")]
        if matching:
            found.update(matching)
            yield path, _adaptable(path, module, head=head)
    missing = [name for name in names if name not in found]
    if missing:
        kinds = sorted({path.rpartition(".")[2] for path in linear})
        raise AdapterError(
            f"the model has no linear layer called {', '.join(map(repr, missing))}; its linear layers are "
            f"{', '.join(kinds) or 'none'}: choose lora.targets among them"
        )


def _adaptable(path: str, module: nn.Module, *, head: nn.Module | None) -> nn.Linear:
    """Refuse layers where an adapter would silently compute something else."""
    if not isinstance(module, nn.Linear):
        raise AdapterError(
            f"{path} is a {type(module).__name__}, not a linear layer; name linear layers in lora.targets, or write "
            "'all-linear'"
        )
    if module is head:
        raise AdapterError(
            f"{path} is the output head, which takes no adapter here; leave it out of lora.targets, or write "
            "'all-linear'"
        )
    if "experts" in path.split("."):
        raise AdapterError(
            f"{path} belongs to a mixture of experts, which mixes tokens of different rows, so adapters cannot be "
            "routed; use a dense model, or name only the attention's layers in lora.targets"
        )
    if not module.weight.is_floating_point():
        raise AdapterError(
            f"{path} has quantized weights ({module.weight.dtype}); load the base in bfloat16 or float32"
        )
    return module


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """The agents of a batch's rows, prepared once for all layers of a forward pass.

    `gate_NK` holds an agent's scale where the row is the agent's, and 0 elsewhere; a row of the bare base is all zeros.
    `span` is set when the rows are in agent order, equally many for each agent from `span[0]` up to `span[1]`, so that
    each agent's rows are one block.
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
    count, remainder = divmod(len(agents_N), last - first + 1) if last >= first else (0, 1)
    even = not remainder and agents_N == [agent for agent in range(first, last + 1) for _ in range(count)]
    return (first, last + 1) if even else None


@dataclass(slots=True)
class RoutingState:
    """What all adapted layers of a model share: the current routing, and whether the model is learning."""

    routing: Routing | None = None
    learning: bool = False
    """Whether adapter dropout is on: while learning, never while sampling."""
    _dropout_cache: tuple[Tensor, float, Tensor] | None = field(default=None, init=False, repr=False)

    @contextmanager
    def set(self, routing: Routing | None, *, learning: bool = False) -> Generator[None]:
        """Use a routing, or no adapters at all, inside the block."""
        before = self.routing, self.learning
        self.routing, self.learning, self._dropout_cache = routing, learning, None
        try:
            yield
        finally:
            self.routing, self.learning = before
            self._dropout_cache = None

    def dropout(self, x: Tensor, share: float) -> Tensor:
        """Return a layer's input with dropout; layers of the very same input (q, k and v) share one mask.

        PEFT draws a mask for each layer; sharing saves most of dropout's time and memory.
        """
        if self._dropout_cache is None or self._dropout_cache[0] is not x or self._dropout_cache[1] != share:
            self._dropout_cache = x, share, _dropout(x, share)
        return self._dropout_cache[2]


def _dropout(x: Tensor, share: float) -> Tensor:
    """Set a share of numbers to zero and scale the rest up. On a CPU torch's own takes several times as long."""
    if x.device.type != "cpu":
        return functional.dropout(x, share, training=True)
    # Four decisions from every random 64-bit number; a share is kept to 1/65,536.
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.long).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= round(share * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - share))


class StackedLinear(nn.Module):
    """y = Wx + b + scale_k · B_k A_k x, where k is the agent of x's row.

    Two matrix products do the low-rank part of a whole batch, without a loop over agents:

    - rows in agent order, equally many each: products batched over agents;
    - any other order: one product with all A side by side, the columns of other agents' adapters set to zero, one
      product with all B. The zeros cost K times the (small) low-rank arithmetic, and no copy of any weight.

    An input is [row, position, feature], or the same with rows and positions flattened into one axis.

    Adapters of smaller rank are padded with zero rows of A and B. These get zero gradients (each is a product with the
    other's zeros), so they stay zero, and padding is exact.
    """

    def __init__(self, base: nn.Linear, *, agents: int, rank: int, dropout: float, routing_state: RoutingState) -> None:
        super().__init__()
        self.base = base
        self.rank = rank
        self.dropout = dropout
        self.routing_state = routing_state
        # Some models read these of their layers.
        self.in_features, self.out_features = base.in_features, base.out_features
        self.A_KRI = nn.Parameter(base.weight.new_zeros(agents, rank, base.in_features))
        self.B_KRO = nn.Parameter(base.weight.new_zeros(agents, rank, base.out_features))

    @property
    def weight(self) -> Tensor:
        """The frozen base weight: some models read its dtype or device."""
        return self.base.weight

    @property
    def bias(self) -> Tensor | None:
        """The frozen base bias."""
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply base and adapters to rows in the order of the routing_state's routing."""
        y = self.base(x)
        routing = self.routing_state.routing
        if routing is None:
            return y
        rows = len(routing.gate_NK)
        if x.shape[0] != rows and not (x.shape[:-1].numel() % rows == 0 and (x.dim() == 2 or x.shape[0] == 1)):
            raise AdapterError(
                f"the batch has {x.shape[0]} rows, but agents were named for {rows}: name one for each row"
            )
        if self.routing_state.learning and self.dropout:
            x = self.routing_state.dropout(x, self.dropout)
        return self._by_block(x, y, routing, *routing.span) if routing.span else self._by_gate(x, y, routing)

    def _by_block(self, x: Tensor, y: Tensor, routing: Routing, first: int, end: int) -> Tensor:
        count = end - first
        scale_K11 = routing.gate_NK[:: len(routing.gate_NK) // count, first:end].diagonal()[:, None, None]
        x_K = x.reshape(count, -1, x.shape[-1])
        z_K = torch.bmm(x_K, self.A_KRI[first:end].transpose(1, 2)) * scale_K11.to(x.dtype)
        # Into y itself, which is fresh: a copy would read and write all outputs once more.
        y.view(count, -1, y.shape[-1]).baddbmm_(z_K, self.B_KRO[first:end])
        return y

    def _by_gate(self, x: Tensor, y: Tensor, routing: Routing) -> Tensor:
        agents = len(self.A_KRI)
        z = functional.linear(x, self.A_KRI.flatten(0, 1)).reshape(len(routing.gate_NK), -1, agents, self.rank)
        gated = (z * routing.gate_NK[:, None, :, None].to(z.dtype)).view(-1, agents * self.rank)
        y.view(-1, y.shape[-1]).addmm_(gated, self.B_KRO.flatten(0, 1))
        return y
