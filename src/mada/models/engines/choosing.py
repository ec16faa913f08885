"""Which engine samples a model: our own, vLLM, or a server; and why.

Measured on an H200 with a model of 1.5 billion parameters (docs/performance.md), the local engine is ahead of vLLM
with as many rows, from 16 of them on, and it shares the learner's tensors. It keeps a slot for every row, as long as
the longest prompt and reply may be, so long replies and large models leave it few rows; vLLM keeps pages, and holds as
many rows as their real lengths allow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

from mada.errors import EngineError
from mada.models.engines.local.setup import share_of_free

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

EngineKind = Literal["local", "vllm", "openai"]
FEWEST_ROWS = 80
"""Rows from which on the local engine is faster than vLLM was with any number of them (docs/performance.md)."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and the reason in words."""

    kind: EngineKind
    reason: str
    is_matter_of_course: bool = False
    """Whether nobody needs to be told."""

    def __str__(self) -> str:
        return f"{self.kind} engine: {self.reason}"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a choice depends on beside the model: bytes of the GPU, None without one, and whether vLLM is installed."""

    gpu_bytes: int | None
    has_vllm: bool

    @classmethod
    def here(cls) -> "Surroundings":
        """Look at this machine."""
        found = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None
        return cls(found, find_spec("vllm") is not None)


def choose_engine(
    wanted: Literal["auto", "local", "vllm", "openai"],
    config: "PreTrainedConfig",
    *,
    window: int,
    parameters: Callable[[], int],
    url: str | None = None,
    alone: bool = False,
    surroundings: Surroundings | None = None,
) -> EngineChoice:
    """Choose the engine for a model, or check that the one that was asked for can be had.

    `alone` means that no learner and no other model will need memory beside it. The parameters are counted only where
    the choice depends on them.
    """
    around = surroundings or Surroundings.here()
    if wanted == "openai" or (wanted == "auto" and url):
        if not url:
            raise EngineError("got the engine 'openai' without the address of a server; set engine.url")
        return EngineChoice("openai", f"completions come from {url}")
    if url:
        raise EngineError(f"got the address {url} with the engine {wanted!r}; leave out one, or use 'openai'")
    if wanted == "vllm":
        _check_vllm(around)
        return EngineChoice("vllm", "the recipe asks for it")
    if wanted == "local":
        return EngineChoice("local", "the recipe asks for it", is_matter_of_course=True)
    return _automatic(config, window=window, parameters=parameters, alone=alone, around=around)


def cache_bytes_per_token(config: "PreTrainedConfig", *, width: int = 2) -> int:
    """Return what keys and values of one token take in all layers, in numbers of so many bytes."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * text.num_hidden_layers * heads * head_size * width


def rows_that_fit(
    config: "PreTrainedConfig", *, window: int, parameters: int, gpu_bytes: int, alone: bool, width: int = 2
) -> int:
    """Return how many slots of a whole window fit beside a model, in numbers of so many bytes, on an empty GPU."""
    free = share_of_free("cuda", alone=alone) * (gpu_bytes - parameters * width)
    return max(0, int(free // (cache_bytes_per_token(config, width=width) * window)))


def _automatic(
    config: "PreTrainedConfig", *, window: int, parameters: Callable[[], int], alone: bool, around: Surroundings
) -> EngineChoice:
    if around.gpu_bytes is None:
        return EngineChoice("local", "there is no GPU", is_matter_of_course=True)
    rows = rows_that_fit(config, window=window, parameters=parameters(), gpu_bytes=around.gpu_bytes, alone=alone)
    held = f"{rows:,} rows of {window:,} tokens fit"
    if rows >= FEWEST_ROWS:
        return EngineChoice("local", f"{held}, and with so many it is the faster one")
    if around.has_vllm:
        return EngineChoice("vllm", f"only {held} as whole slots, and vLLM keeps pages")
    return EngineChoice(
        "local", f"vLLM is not installed; only {held}, so a shorter window or the extra `vllm` would be faster"
    )


def _check_vllm(around: Surroundings) -> None:
    if around.gpu_bytes is None:
        raise EngineError("got the engine 'vllm', and there is no GPU here; use 'local', or a machine with one")
    if not around.has_vllm:
        raise EngineError("got the engine 'vllm', which is not installed: pip install 'mada-rl[vllm]', or use 'local'")
