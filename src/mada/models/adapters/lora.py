"""The shape of an adapter: its rank, its scale and the layers it sits on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import nn

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
    """Yield the linear layers an adapter sits on, by path, in the order of the model.

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
