"""The key-value cache: one slot per row of the batch, sized from a memory budget. Axes: L layer, S slot, H key-value
head, C position in the context, D head size."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mada.errors import EngineError

GIB = 2**30


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What one token costs: layers, key-value heads, their size, and the number format."""

    layers: int
    heads: int
    head_size: int
    dtype: torch.dtype

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one position of one row takes in all layers."""
        return 2 * self.layers * self.heads * self.head_size * self.dtype.itemsize

    def slots(self, *, context: int, budget: int, wanted: int) -> int:
        """Return how many rows of `context` tokens fit the budget, at most as many as wanted; at least one must."""
        slot = context * self.bytes_per_token
        if slot > budget:
            raise EngineError(
                f"one sequence of {context:,} tokens needs {slot / GIB:.2f} GiB of key-value cache, and the budget is "
                f"{budget / GIB:.2f} GiB: raise kv_memory, or lower the context to {budget // self.bytes_per_token:,}"
            )
        return min(wanted, budget // slot)


class SlotCache:
    """Keys and values of every row: `keys_LSHCD` and `values_LSHCD`.

    A row owns a slot while it lives. A step works on one slice, the first slots; when rows end and nobody waits, rows
    from beyond move into their slots as soon as that makes the slice cheaper.
    """

    def __init__(self, shape: CacheShape, *, slots: int, context: int, device: torch.device) -> None:
        size = (shape.layers, slots, shape.heads, context, shape.head_size)
        self.keys_LSHCD = torch.zeros(size, dtype=shape.dtype, device=device)
        self.values_LSHCD = torch.zeros(size, dtype=shape.dtype, device=device)
        self.slots = slots
        self.context = context

    def fill(self, layer: int, keys_PHTD: Tensor, values_PHTD: Tensor, *, slots_N: Tensor, prompts_N: Tensor) -> None:
        """Put prompts' keys and values into slots: the prompt `prompts_N[i]` into slot `slots_N[i]`.

        One prompt may go into many slots: a group's prompt is computed once. What lies beyond a shorter prompt's end is
        never looked at: a row's length says where it ends.
        """
        width = keys_PHTD.shape[2]
        self.keys_LSHCD[layer, slots_N, :, :width] = keys_PHTD[prompts_N]
        self.values_LSHCD[layer, slots_N, :, :width] = values_PHTD[prompts_N]

    def copy(self, source: int, targets_N: Tensor, *, length: int) -> None:
        """Copy a row's first positions into other slots."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, targets_N, :, :length] = tensor[:, source, :, :length].unsqueeze(1)

    def move(self, source: int, target: int, *, length: int) -> None:
        """Copy one row's first positions into one other slot."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, target, :, :length] = tensor[:, source, :, :length]

    def move_together(self, sources_N: Tensor, targets_N: Tensor, *, length: int) -> None:
        """Copy the first positions of many rows into as many other slots, in few launches and by way of a copy."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, targets_N, :, :length] = tensor[:, sources_N, :, :length]
