"""A model as the engine runs it: it reads prompts into the key-value cache, then decodes one token per row and step.

`LlamaNetwork` (llama.py) is the usual decoder block, written out for sampling; `HuggingFaceNetwork` runs any causal
model's own forward pass. Axes: P prompt, T token of a prompt, N row, K agent, V token; of the cache: L layer, S slot,
H key-value head, C position in the context, D head size.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mada.models.adapters import AdapterStack, Routing
from mada.models.forward import layer_windows, logits_of, trunk
from mada.models.memory import CacheShape


class KVCache:
    """Keys and values of every row, `keys_LSHCD` and `values_LSHCD`: one slot of the full context per row.

    A step works on the first slots. When rows end and no request waits, the engine moves rows from later slots into
    theirs as soon as that makes a step cheaper.
    """

    def __init__(self, shape: CacheShape, *, slots: int, context: int, device: torch.device) -> None:
        size = (shape.layers, slots, shape.heads, context, shape.head_size)
        self.keys_LSHCD = torch.zeros(size, dtype=shape.dtype, device=device)
        self.values_LSHCD = torch.zeros(size, dtype=shape.dtype, device=device)
        self.slots = slots
        self.context = context

    def fill(self, layer: int, keys_PHTD: Tensor, values_PHTD: Tensor, *, slots_N: Tensor, prompts_N: Tensor) -> None:
        """Write keys and values of prompts into slots: the prompt `prompts_N[i]` into slot `slots_N[i]`.

        One prompt may go into many slots: a group's prompt is computed once. What lies beyond a shorter prompt's end is
        never read: a row's length says where it ends.
        """
        width = keys_PHTD.shape[2]
        self.keys_LSHCD[layer, slots_N, :, :width] = keys_PHTD[prompts_N]
        self.values_LSHCD[layer, slots_N, :, :width] = values_PHTD[prompts_N]

    def copy(self, source: int, targets_N: Tensor, *, length: int) -> None:
        """Copy the first positions of one slot into other slots."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, targets_N, :, :length] = tensor[:, source, :, :length].unsqueeze(1)

    def move(self, source: int, target: int, *, length: int) -> None:
        """Copy the first positions of one slot into one other slot."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, target, :, :length] = tensor[:, source, :, :length]

    def move_together(self, sources_N: Tensor, targets_N: Tensor, *, length: int) -> None:
        """Copy the first positions of many slots into as many others, in few launches, with a temporary copy."""
        for tensor in (self.keys_LSHCD, self.values_LSHCD):
            tensor[:, targets_N, :, :length] = tensor[:, sources_N, :, :length]


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Prompts to read together, padded on the right; slot `slots_N[i]` continues prompt `prompts_N[i]`."""

    ids_PT: Tensor
    lengths_P: Tensor
    gate_PK: Tensor | None
    slots_N: Tensor
    prompts_N: Tensor


class Network(Protocol):
    """A model as the engine sees it."""

    shape: CacheShape

    def prefill(self, prompts: PromptBatch, cache: KVCache) -> Tensor:
        """Fill the cache with prompts; return the logits after each prompt's last token, [P, V]."""
        ...

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: KVCache, *, longest: int
    ) -> Tensor:
        """Append one token to each of the first N slots, whose rows are `lengths_N` long; return logits [N, V].

        `longest` is at least every row's length after the token: positions beyond it are not read.
        """
        ...


class HuggingFaceNetwork:
    """A causal model's own forward pass; slower than `LlamaNetwork`, for every architecture with an ordinary cache."""

    def __init__(self, model: PreTrainedModel, stack: AdapterStack | None) -> None:
        self.model = model
        self.stack = stack
        config = model.config.get_text_config()
        self.shape = CacheShape.of(config, model.dtype)
        windows = set(layer_windows(config))
        self.mixed = len(windows) > 1
        self.window = next((window for window in windows if window is not None), None)

    def prefill(self, prompts: PromptBatch, cache: KVCache) -> Tensor:
        """Fill the cache with prompts; return the logits after each prompt's last token."""
        filled = DynamicCache()
        with self._routed(prompts.gate_PK):
            hidden = trunk(self.model)(input_ids=prompts.ids_PT, past_key_values=filled, use_cache=True)[0]
        layers: list[Any] = list(filled.layers)
        for index, layer in enumerate(layers):
            cache.fill(index, layer.keys, layer.values, slots_N=prompts.slots_N, prompts_N=prompts.prompts_N)
        return logits_of(self.model, hidden[torch.arange(len(hidden), device=hidden.device), prompts.lengths_P - 1])

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: KVCache, *, longest: int
    ) -> Tensor:
        """Append one token to each of the first N slots."""
        back_NL = lengths_N[:, None] - torch.arange(longest, device=lengths_N.device)
        full = self._mask(back_NL < 0)
        sliding = self._mask((back_NL < 0) | (back_NL >= self.window)) if self.window else full
        mask: Any = {"full_attention": full, "sliding_attention": sliding} if self.mixed else sliding
        with self._routed(gate_NK):
            hidden = trunk(self.model)(
                input_ids=tokens_N[:, None],
                attention_mask=mask,
                position_ids=lengths_N[:, None],
                past_key_values=_CacheView(cache, lengths_N, longest=longest),
                use_cache=True,
            )[0]
        return logits_of(self.model, hidden[:, 0])

    def _mask(self, hidden_NL: Tensor) -> Tensor:
        dtype = self.model.dtype
        zeros = torch.zeros(hidden_NL.shape, dtype=dtype, device=hidden_NL.device)
        return zeros.masked_fill_(hidden_NL, torch.finfo(dtype).min)[:, None, None]

    def _routed(self, gate_NK: Tensor | None) -> Any:
        if self.stack is None or gate_NK is None:
            return torch.no_grad()
        return self.stack.routed(Routing(gate_NK, span=None))


class _CacheView:
    """`KVCache` with the interface of transformers' caches: takes one token per row, returns all positions."""

    is_compileable = False

    def __init__(self, cache: KVCache, lengths_N: Tensor, *, longest: int) -> None:
        self._cache = cache
        self._lengths_N = lengths_N
        self._rows_N = torch.arange(len(lengths_N), device=lengths_N.device)
        self._longest = longest

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values; return those of every position so far."""
        stored = self._cache.keys_LSHCD[layer_idx], self._cache.values_LSHCD[layer_idx]
        for kept, new in zip(stored, (keys, values), strict=True):
            kept[self._rows_N, :, self._lengths_N] = new[:, :, 0]
        count = len(self._rows_N)
        return stored[0][:count, :, : self._longest], stored[1][:count, :, : self._longest]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: positions are given row by row, so the model does not use it."""
        return 0
