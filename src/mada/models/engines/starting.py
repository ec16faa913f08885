"""Engines as a recipe's `[engine]` asks for them. vLLM and the server's client are imported only when needed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines.choosing import EngineChoice, Hardware, choose_engine, rows_that_fit
from mada.models.engines.engine import PacedEngine
from mada.models.engines.local import LocalEngine
from mada.models.loading import ChatModel, load_config
from mada.models.memory import DEFAULT_ROWS, count_parameters
from mada.recipe.sections import EngineSection, ModelSection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VLLM_ROWS = 256
SERVER_REQUESTS = 64
"""Completions of vLLM, and requests to a server, at the same time where a recipe names no number of rows."""

Log = Callable[[str], None]
"""Told in a sentence what is worth knowing about the engine."""


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
