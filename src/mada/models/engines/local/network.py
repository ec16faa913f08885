"""What the engine asks of a model: to read prompts into the cache, and to take one more token for every row.

Two kinds of networks answer: `LlamaNetwork`, a plain reading of the blocks that most compact models are made of, and
`HuggingFaceNetwork`, any causal model's own forward pass. Axes: P prompt, T token of a prompt, N row, K agent, V token.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mada.models.engines.local.cache import CacheShape, SlotCache


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts to read at once, padded on the right, and where their keys and values go.

    Row i of the batch continues prompt `prompts_N[i]` in slot `slots_N[i]`.
    """

    ids_PT: Tensor
    lengths_P: Tensor
    gate_PK: Tensor | None
    slots_N: Tensor
    prompts_N: Tensor


class Network(Protocol):
    """A model as the engine sees it."""

    shape: CacheShape

    def read(self, prompts: Prompts, cache: SlotCache) -> Tensor:
        """Fill the cache with prompts; return the logits after each prompt's last token, [P, V]."""
        ...

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: SlotCache, *, longest: int
    ) -> Tensor:
        """Take one token for each of the first N slots, whose rows are `lengths_N` long before it; logits [N, V].

        `longest` is at least every row's length after the token: what lies beyond need not be looked at.
        """
        ...
