"""Engines, chosen and made as a recipe wants them; those other than our own are imported only when wanted."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import PacedEngine
from mada.models.engines.choosing import EngineChoice, Hardware, choose_engine, rows_that_fit
from mada.models.engines.local import LocalEngine
from mada.models.loading import ChatModel, load_config
from mada.models.memory import DEFAULT_ROWS, count_parameters
from mada.recipe.sections import EngineSection, ModelSection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Log = Callable[[str], None]
"""Takes a message for the user."""


def ignored(text: str) -> None:
    """Drop the message."""


ROWS_OF_VLLM = 256
SLOTS_OF_A_SERVER = 64
"""Completions of vLLM, and requests to a server, at the same time where a recipe names no number of rows."""


def chosen_engine(section: EngineSection, model: ModelSection, *, window: int, alone: bool, log: Log) -> EngineChoice:
    """Choose an engine for a model; log a choice that is not the default."""
    config = load_config(model.name, revision=model.revision)

    def parameters() -> int:
        return count_parameters(model.name, lora=Lora(), agents=0, revision=model.revision).base

    choice = choose_engine(section.kind, config, window=window, parameters=parameters, url=section.url, alone=alone)
    if choice.should_log:
        # Nothing can be said while it starts: the event loop stands still.
        log(f"{choice}; it starts in a minute or two" if choice.kind == "vllm" else str(choice))
    return choice


def local_engine(
    section: EngineSection,
    model: "PreTrainedModel",
    stack: AdapterStack | None,
    *,
    window: int,
    alone: bool,
    log: Log,
) -> LocalEngine:
    """Make our own engine. Log when it has far fewer rows than an empty GPU would hold: sampling is slow then."""
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


def weights_of(model: ModelSection) -> str:
    """Return what a run's manifest calls a model's weights."""
    return f"weights of {model.name}{f'@{model.revision}' if model.revision else ''}"


async def start_engine(
    choice: EngineChoice,
    section: EngineSection,
    model: ModelSection,
    *,
    chat: ChatModel,
    window: int,
    stack: AdapterStack | None = None,
    adapters: Mapping[str, Path] | None = None,
) -> PacedEngine:
    """Start vLLM, or reach a server. Adapters are a learner's stack, or folders by the names that agents ask for."""
    if choice.kind == "vllm":
        from mada.models.engines.vllm import VllmEngine

        return await VllmEngine.start(
            model.name,
            revision=model.revision,
            dtype=model.dtype,
            stack=stack,
            adapters=adapters,
            context=window,
            rows=section.rows or ROWS_OF_VLLM,
        )
    from mada.models.engines.openai import OpenAIEngine

    # A server knows an adapter by the name of its seat, which is the name of its folder.
    names = {agent: folder.name for agent, folder in (adapters or {}).items()}
    assert section.url is not None
    engine = OpenAIEngine(
        section.url,
        models={None: model.name, **names},
        tokenizer=chat.tokenizer,
        slots=section.rows or SLOTS_OF_A_SERVER,
        timeout=section.timeout,
        retry_for=section.retry_for,
    )
    try:
        await engine.check()
    except BaseException:
        await engine.close()
        raise
    return engine
