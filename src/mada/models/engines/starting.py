"""Which engine a recipe's `[engine]` gets, and starting it. vLLM and the server's client are imported only when needed.

Measured on an H200 with a model of 1.5 billion parameters (docs/results.md), the local engine is faster than vLLM
with as many rows, from 16 of them on, and it shares the learner's tensors. It reserves a slot of the full context for
every row, so long contexts and large models leave it few rows; vLLM pages its cache and holds as many rows as their
real lengths allow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from mada.errors import EngineError
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines.engine import PacedEngine
from mada.models.engines.local import LocalEngine
from mada.models.loading import ChatModel, load_config
from mada.models.memory import DEFAULT_ROWS, count_parameters, rows_that_fit
from mada.recipe.schema import EngineSection, ModelSection

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

EngineKind = Literal["local", "vllm", "openai"]
MIN_LOCAL_ROWS = 80
"""Rows from which on the local engine is faster than vLLM with any number of rows (docs/results.md)."""
VLLM_ROWS = 256
SERVER_REQUESTS = 64
"""Completions of vLLM, and requests to a server, at the same time where a recipe names no number of rows."""

Log = Callable[[str], None]
"""Told in a sentence what is worth knowing about the engine."""


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


def choose_model_engine(
    section: EngineSection, model: ModelSection, *, window: int, alone: bool, log: Log | None = None
) -> EngineChoice:
    """Choose the engine for a model, and log the choice unless it is obvious."""
    config = load_config(model.name, revision=model.revision)

    def parameters() -> int:
        return count_parameters(model.name, lora=Lora(), agents=0, revision=model.revision).base

    choice = choose_engine(section.kind, config, window=window, parameters=parameters, url=section.url, alone=alone)
    if log is not None and choice.should_log:
        # Now, for the event loop does not run while vLLM starts.
        log(f"{choice}; it starts in a minute or two" if choice.kind == "vllm" else str(choice))
    return choice


def start_local(
    section: EngineSection,
    model: "PreTrainedModel",
    stack: AdapterStack | None,
    *,
    window: int,
    alone: bool,
    log: Log,
) -> LocalEngine:
    """Start a local engine; log if far fewer rows fit than on an empty GPU, because sampling will then be slow."""
    engine = LocalEngine(model, stack, context=window, rows=section.rows, alone=alone)
    gpu_bytes = Hardware.detect().gpu_bytes if model.device.type == "cuda" else None
    if gpu_bytes is not None:
        fitting = rows_that_fit(
            model.config,
            window=window,
            parameters=model.num_parameters(),
            gpu_bytes=gpu_bytes,
            alone=alone,
            dtype=model.dtype,
        )
        if engine.slots < min(fitting, section.rows or DEFAULT_ROWS["cuda"]) // 2:
            log(f"only {engine.slots:,} rows fit, because something else holds memory of the GPU")
    return engine


async def start_vllm(
    section: EngineSection,
    model: ModelSection,
    *,
    window: int,
    stack: AdapterStack | None = None,
    adapters: Mapping[str, Path] | None = None,
) -> PacedEngine:
    """Start vLLM with the adapters of a learner's stack, or of folders by the names that agents ask for."""
    from mada.models.engines.vllm import VllmEngine

    return await VllmEngine.start(
        model.name,
        revision=model.revision,
        dtype=model.dtype,
        stack=stack,
        adapters=adapters,
        context=window,
        rows=section.rows or VLLM_ROWS,
    )


async def connect(
    section: EngineSection, model: ModelSection, *, chat: ChatModel, adapters: Mapping[str, Path]
) -> PacedEngine:
    """Connect to a server that has the base, and each adapter under the name of its folder."""
    from mada.models.engines.openai import OpenAIEngine

    assert section.url is not None
    engine = OpenAIEngine(
        section.url,
        models={None: model.name, **{agent: folder.name for agent, folder in adapters.items()}},
        tokenizer=chat.tokenizer,
        slots=section.rows or SERVER_REQUESTS,
        timeout=section.timeout,
        retry_for=section.retry_for,
    )
    try:
        await engine.check()
    except BaseException:
        await engine.close()
        raise
    return engine
