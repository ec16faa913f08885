"""Parameters and memory of a model and its adapters, from the configuration alone: no weight is loaded."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from mada.errors import EngineError, ModelError
from mada.models.adapters.layer import Lora, target_layers
from mada.models.loading import LOADING_ERRORS, check_causal, first_sentence, load_config

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

GIB = 2**30
DEFAULT_ROWS = {"cpu": 64, "cuda": 512}
"""Rows of the local engine's batch by device; more make a step longer by about as much as they add."""
MAX_CPU_MEMORY = 8 * GIB
"""Free memory of a CPU that is counted: a container may have less than the machine reports, and more gains nothing."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """All adapted layers of one name: their number, and the parameters that one agent trains on them."""

    name: str
    layers: int
    parameters: int


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """The parameters of a base model and of its agents' adapters."""

    model: str
    base: int
    rank: int
    agents: int
    kinds: tuple[LayerKind, ...]

    @property
    def per_agent(self) -> int:
        """Trainable parameters of one agent: rank · (in + out) for each adapted layer (T2)."""
        return sum(kind.parameters for kind in self.kinds)

    @property
    def trainable(self) -> int:
        """Trainable parameters of all agents."""
        return self.agents * self.per_agent

    @property
    def adapter_bytes(self) -> int:
        """Memory of all adapters in float32."""
        return 4 * self.trainable

    @property
    def optimizer_bytes(self) -> int:
        """Memory of AdamW's two moments for all adapters in float32."""
        return 8 * self.trainable


def count_parameters(
    name: str, *, lora: Lora | None = None, agents: int = 1, revision: str | None = None
) -> ParameterCount:
    """Count for a Hub id, a folder or a `config.json`; tied weights count once, as in the paper."""
    lora = lora or Lora()
    config = load_config(name, revision=revision)
    check_causal(name, config)
    try:
        with torch.device("meta"):
            model: nn.Module = cast("Any", AutoModelForCausalLM).from_config(config)
    except LOADING_ERRORS as error:
        raise ModelError(f"{name}: cannot be built as a causal language model: {first_sentence(error)}") from None
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for path, layer in target_layers(model, lora.targets):
        sizes[path.rpartition(".")[2]].append(lora.rank * (layer.in_features + layer.out_features))
    kinds = tuple(LayerKind(kind, len(each), sum(each)) for kind, each in sizes.items())
    base = sum(parameter.numel() for parameter in model.parameters())
    return ParameterCount(name, base, lora.rank, agents, kinds)


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The key-value cache of one token: layers, key-value heads, head size and dtype."""

    layers: int
    heads: int
    head_size: int
    dtype: torch.dtype

    @classmethod
    def of(cls, config: "PreTrainedConfig", dtype: torch.dtype) -> "CacheShape":
        """Read the shape from a model's configuration."""
        text = config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return cls(text.num_hidden_layers, heads, head_size, dtype)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        return 2 * self.layers * self.heads * self.head_size * self.dtype.itemsize

    def rows(self, *, context: int, budget: int, wanted: int) -> int:
        """Return how many rows of `context` tokens fit into a budget of bytes, at most `wanted`."""
        row = context * self.bytes_per_token
        if row > budget:
            raise EngineError(
                f"one sequence of {context:,} tokens needs {row / GIB:.2f} GiB of key-value cache, and the budget is "
                f"{budget / GIB:.2f} GiB: raise kv_memory, or lower the context to {budget // self.bytes_per_token:,}"
            )
        return min(wanted, budget // row)


def cache_bytes_per_token(config: "PreTrainedConfig", *, dtype: torch.dtype = torch.bfloat16) -> int:
    """Return the bytes of one token's keys and values in all layers."""
    return CacheShape.of(config, dtype).bytes_per_token


def cache_share(device: str, *, alone: bool) -> float:
    """Return the share of free memory that the local engine takes for keys and values unless given a budget.

    On a GPU, a learner needs more than half of the rest for activations. An engine that is `alone` leaves memory for
    reading prompts, logits and CUDA graphs. On a CPU a larger batch gains nothing.
    """
    if device != "cuda":
        return 0.25
    return 0.7 if alone else 0.4


def rows_that_fit(
    config: "PreTrainedConfig",
    *,
    window: int,
    parameters: int,
    gpu_bytes: int,
    alone: bool,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """Return how many rows of a whole window fit beside a model on an otherwise empty GPU."""
    budget = cache_share("cuda", alone=alone) * (gpu_bytes - parameters * dtype.itemsize)
    return max(0, int(budget // (cache_bytes_per_token(config, dtype=dtype) * window)))
