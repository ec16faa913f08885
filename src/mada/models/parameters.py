"""How many parameters a model has and how many its agents would train, counted without loading a weight."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from mada.errors import ModelError
from mada.models.adapters.lora import Lora, target_layers
from mada.models.loading import LOADING_ERRORS, check_causal, first_sentence, load_config


@dataclass(frozen=True, slots=True)
class LayerKind:
    """All adapted layers of one name: how many there are, and what one agent trains on them."""

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
        raise ModelError(f"{name}: no causal language model can be built from this: {first_sentence(error)}") from None
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for path, layer in target_layers(model, lora.targets):
        sizes[path.rpartition(".")[2]].append(lora.rank * (layer.in_features + layer.out_features))
    kinds = tuple(LayerKind(kind, len(each), sum(each)) for kind, each in sizes.items())
    base = sum(parameter.numel() for parameter in model.parameters())
    return ParameterCount(name, base, lora.rank, agents, kinds)
