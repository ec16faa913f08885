"""Which engine samples a model: the local one, vLLM, or a server; and why.

Measured on an H200 with a model of 1.5 billion parameters (docs/results.md), the local engine is faster than vLLM
with as many rows, from 16 of them on, and it shares the learner's tensors. It reserves a slot of the full context for
every row, so long contexts and large models leave it few rows; vLLM pages its cache and holds as many rows as their
real lengths allow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

from mada.errors import EngineError
from mada.models.memory import rows_that_fit

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

EngineKind = Literal["local", "vllm", "openai"]
MIN_LOCAL_ROWS = 80
"""Rows from which on the local engine is faster than vLLM with any number of rows (docs/results.md)."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, the reason for it, and whether that is worth a line in the log."""

    kind: EngineKind
    reason: str
    should_log: bool = True

    def __str__(self) -> str:
        return f"{self.kind} engine: {self.reason}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine: bytes of its first GPU, None without one, and whether vLLM is installed."""

    gpu_bytes: int | None
    has_vllm: bool

    @classmethod
    def detect(cls) -> "Hardware":
        """Describe this machine."""
        gpu_bytes = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None
        return cls(gpu_bytes, find_spec("vllm") is not None)


def choose_engine(
    wanted: Literal["auto", "local", "vllm", "openai"],
    config: "PreTrainedConfig",
    *,
    window: int,
    parameters: Callable[[], int],
    url: str | None = None,
    alone: bool = False,
    hardware: Hardware | None = None,
) -> EngineChoice:
    """Choose the engine for a model, or check that the requested one is available.

    `alone` means that no learner and no other model needs memory beside it. `parameters` is called only where the
    choice depends on their number.
    """
    hardware = hardware or Hardware.detect()
    if wanted == "openai" or (wanted == "auto" and url):
        if not url:
            raise EngineError("the engine 'openai' needs the address of a server: set engine.url")
        return EngineChoice("openai", f"completions come from {url}")
    if url:
        raise EngineError(f"got the address {url} with the engine {wanted!r}; leave out one, or use 'openai'")
    if wanted == "vllm":
        if hardware.gpu_bytes is None:
            raise EngineError("the engine 'vllm' needs a GPU, and there is no GPU here; use 'local'")
        if not hardware.has_vllm:
            raise EngineError("vLLM is not installed: pip install 'mada-rl[vllm]', or use the engine 'local'")
        return EngineChoice("vllm", "the recipe asks for it")
    if wanted == "local":
        return EngineChoice("local", "the recipe asks for it", should_log=False)
    if hardware.gpu_bytes is None:
        return EngineChoice("local", "there is no GPU", should_log=False)
    rows = rows_that_fit(config, window=window, parameters=parameters(), gpu_bytes=hardware.gpu_bytes, alone=alone)
    fits = f"{rows:,} rows of {window:,} tokens fit"
    if rows >= MIN_LOCAL_ROWS:
        return EngineChoice("local", f"{fits}, enough for it to be the faster one")
    if hardware.has_vllm:
        return EngineChoice("vllm", f"only {fits} without paging")
    return EngineChoice(
        "local", f"vLLM is not installed; only {fits}, so a shorter window or the extra `vllm` would be faster"
    )
