"""Any causal model's own forward pass as a network, over the engine's cache. Axes as in `network`."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mada.models.adapters import AdapterStack, Routing
from mada.models.engines.local.cache import CacheShape, SlotCache
from mada.models.engines.local.network import Prompts
from mada.models.forward import layer_windows, logits_of, trunk


class HuggingFaceNetwork:
    """A causal model as it is; slower than `LlamaNetwork`, but for every architecture with an ordinary cache."""

    def __init__(self, model: PreTrainedModel, stack: AdapterStack | None) -> None:
        self.model = model
        self.stack = stack
        config = model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.shape = CacheShape(config.num_hidden_layers, heads, size, model.dtype)
        windows = set(layer_windows(config))
        self.mixed = len(windows) > 1
        self.window = next((window for window in windows if window is not None), None)

    def read(self, prompts: Prompts, cache: SlotCache) -> Tensor:
        """Fill the cache with prompts; return the logits after each prompt's last token."""
        made = DynamicCache()
        with self._routed(prompts.gate_PK):
            hidden = trunk(self.model)(input_ids=prompts.ids_PT, past_key_values=made, use_cache=True)[0]
        layers: list[Any] = list(made.layers)
        for place, layer in enumerate(layers):
            cache.fill(place, layer.keys, layer.values, slots_N=prompts.slots_N, prompts_N=prompts.prompts_N)
        return logits_of(self.model, hidden[torch.arange(len(hidden), device=hidden.device), prompts.lengths_P - 1])

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: SlotCache, *, longest: int
    ) -> Tensor:
        """Take one token for each of the first N slots."""
        back_NL = lengths_N[:, None] - torch.arange(longest, device=lengths_N.device)
        full = self._mask(back_NL < 0)
        sliding = self._mask((back_NL < 0) | (back_NL >= self.window)) if self.window else full
        mask: Any = {"full_attention": full, "sliding_attention": sliding} if self.mixed else sliding
        with self._routed(gate_NK):
            hidden = trunk(self.model)(
                input_ids=tokens_N[:, None],
                attention_mask=mask,
                position_ids=lengths_N[:, None],
                past_key_values=_Slots(cache, lengths_N, longest=longest),
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


class _Slots:
    """The engine's cache as a model's attention layers want it: takes one token per row, gives back all of them."""

    is_compileable = False

    def __init__(self, cache: SlotCache, lengths_N: Tensor, *, longest: int) -> None:
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
        """Return what is there already; positions are given row by row, so this is not used."""
        return 0
