"""All code that depends on vLLM, written against its version 0.24; `VllmEngine` uses only `VllmBackend`.

Where a decision rests on vLLM's internals, a comment names the file it was read from, below `vllm/`.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TypeVar

from mada.errors import EngineError
from mada.models.engines.engine import Live, Sampling
from mada.models.memory import GIB

T = TypeVar("T")

# `max_lora_rank` is one of these (config/lora.py).
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# The lowest temperature that vLLM does not raise, and the highest it takes (sampling_params.py).
TEMPERATURES = (0.01, 2.0)
# vLLM's process wants its share free after its CUDA context has taken some (v1/worker/utils.py, request_memory), and
# captured steps come on top of the share.
_VLLM_OVERHEAD = 3 * GIB
_MAX_SHARE = 0.92
# Prompt tokens read in one pass. An embedded engine would get 2,048 otherwise (engine/arg_utils.py).
_BATCHED_TOKENS = 8192
# Seconds between checks that vLLM's process is alive, while waiting for its answer.
_LIVENESS_INTERVAL = 2.0

_ENVIRONMENT = {
    # FlashInfer's sampler compiles itself at the first use, and knows neither seeds nor processed log-probs.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # A forked process cannot use CUDA where this one has used it already.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
}

# All names used of vLLM, by module; imported together, so that a missing one fails at the start.
_VLLM_NAMES = {
    "vllm.engine.arg_utils": ("AsyncEngineArgs",),
    "vllm.inputs": ("tokens_input",),
    "vllm.lora.request": ("LoRARequest",),
    "vllm.sampling_params": ("RequestOutputKind", "SamplingParams"),
    "vllm.v1.engine.async_llm": ("AsyncLLM",),
    "vllm.v1.engine.exceptions": ("EngineDeadError", "EngineGenerateError"),
}


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """What vLLM is started with."""

    model: str
    revision: str | None
    dtype: str
    context: int
    rows: int
    memory: float
    """Share of the GPU's total memory."""
    seed: int
    agents: int = 0
    """How many adapters there are at the same time."""
    rank: int = 1
    """The largest rank among them."""
    can_sleep: bool = False
    eager: bool = False


@dataclass(frozen=True, slots=True)
class AdapterVersion:
    """An adapter at one moment, which is what vLLM knows: `generator-1@17`.

    `name` is the key of the prefix cache and `number` that of the loaded weights; neither is ever used twice, so
    nothing of an older version can be served for a newer one. `adapter_version` is `AdapterStack.version` at the time;
    None for an adapter from a folder.
    """

    name: str
    number: int
    folder: Path
    adapter_version: int | None = None


@dataclass(frozen=True, slots=True)
class VllmOutput:
    """One completion as vLLM gives it."""

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    finish_reason: str
    prompt_tokens: int
    """Tokens of the prompt that were read, not found in the prefix cache."""


class VllmBackend:
    """vLLM's `AsyncLLM`: a scheduler and a model in a process of their own. Every failure is an `EngineError`."""

    def __init__(self, engine: Any, vllm: SimpleNamespace) -> None:
        self._engine: Any = engine
        self._vllm = vllm
        self._requests = count()

    @classmethod
    async def start(cls, settings: VllmSettings) -> Self:
        """Start vLLM; the event loop stands still until its model is loaded.

        AsyncLLM binds itself to the running loop, so it cannot be made in a thread.
        """
        os.environ.update(_ENVIRONMENT)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        vllm = _import_vllm()
        # The variable is too late where vLLM was imported before.
        logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
        try:
            # No local variable: an error that vLLM catches and keeps while it is imported keeps this frame alive.
            return cls(vllm.AsyncLLM.from_engine_args(vllm.AsyncEngineArgs(**engine_arguments(settings))), vllm)
        except (ValueError, RuntimeError, OSError) as error:
            raise EngineError(
                f"vLLM does not start with {settings.model}: {error}; what its process said is above, and with "
                "VLLM_LOGGING_LEVEL=INFO it says more"
            ) from error

    @property
    def vocabulary(self) -> int:
        """The size of the model's vocabulary."""
        return self._engine.model_config.get_vocab_size()

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        seed: int,
        limit: int,
        version: AdapterVersion | None,
        live: Live | None = None,
    ) -> VllmOutput:
        """Sample one completion; being cancelled takes it out of the batch (`AsyncLLM.generate` sees to that)."""
        # The form that vLLM's own renderer makes; raw prompts are on their way out (v1/engine/input_processor.py).
        prompt = self._vllm.tokens_input(list(prompt_ids))
        arguments = sampling_arguments(sampling, seed=seed, limit=limit)
        request = f"mada-{next(self._requests)}"
        lora = None if version is None else self._lora_request(version)
        try:
            # Only a reader of what is sampled so far is worth a message for every token.
            kinds = self._vllm.RequestOutputKind
            params = self._vllm.SamplingParams(
                **arguments, output_kind=kinds.FINAL_ONLY if live is None else kinds.CUMULATIVE
            )
            output = None
            async for output in self._engine.generate(prompt, params, request, lora_request=lora):
                if live is not None:
                    so_far = _output(output)
                    live.token_ids[:], live.log_probs[:] = so_far.token_ids, so_far.log_probs
        except self._vllm.EngineDeadError as error:
            raise _died() from error
        except (self._vllm.EngineGenerateError, ValueError) as error:
            raise EngineError(f"vLLM refuses a request: {error.__cause__ or error}") from error
        if output is None:
            raise _died()
        return _output(output)

    async def load(self, version: AdapterVersion) -> None:
        """Load an adapter onto the GPU."""
        await self._reply_to(self._engine.add_lora(self._lora_request(version)), f"load {version.name}")

    async def unload(self, version: AdapterVersion) -> None:
        """Unload an adapter. vLLM may have evicted it already."""
        await self._reply_to(self._engine.remove_lora(version.number), f"unload {version.name}")

    async def sleep(self) -> None:
        """Free the GPU's memory. The adapters' buffers are weights too (v1/worker/gpu_worker.py)."""
        await self._reply_to(self._engine.sleep(level=1), "sleep")

    async def wake_up(self) -> None:
        """Take the memory again. The prefix cache was emptied before sleeping (v1/engine/core.py)."""
        await self._reply_to(self._engine.wake_up(), "wake up")

    async def close(self) -> None:
        """End vLLM's process and its task here, and drop it: at interpreter exit it would complain."""
        self._engine.shutdown()
        if self._engine.output_handler is not None:
            await asyncio.wait({self._engine.output_handler}, timeout=_LIVENESS_INTERVAL)
        self._engine = None

    def _lora_request(self, version: AdapterVersion) -> Any:
        return self._vllm.LoRARequest(version.name, version.number, str(version.folder))

    async def _reply_to(self, answer: Awaitable[T], task: str) -> T:
        """Wait for an answer while vLLM's process is alive: a dead one would never send it."""
        waiting = asyncio.ensure_future(answer)
        try:
            while not (await asyncio.wait({waiting}, timeout=_LIVENESS_INTERVAL))[0]:
                if self._engine.errored:
                    raise _died()
            return waiting.result()
        except EngineError:
            raise
        # A call that fails over there comes back as a bare Exception with its text (v1/engine/core_client.py).
        except Exception as error:
            raise _died() if self._engine.errored else EngineError(f"vLLM cannot {task}: {error}") from error
        finally:
            waiting.cancel()


def _import_vllm() -> SimpleNamespace:
    try:
        modules = {import_module(module): names for module, names in _VLLM_NAMES.items()}
        return SimpleNamespace(**{name: getattr(module, name) for module, names in modules.items() for name in names})
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported ({error}); install it with `pip install 'mada-rl[vllm]'`, or use the local engine"
        ) from None
    except AttributeError as error:
        raise EngineError(f"vLLM is not as expected ({error}); mada knows its version 0.24: install that") from None


def engine_arguments(settings: VllmSettings) -> dict[str, Any]:
    """Return what `AsyncEngineArgs` is given."""
    arguments: dict[str, Any] = {
        "model": settings.model,
        "revision": settings.revision,
        "dtype": settings.dtype,
        "seed": settings.seed,
        "trust_remote_code": False,
        # Tokens go in and tokens come out. "hf" keeps vLLM from asking the Hub which tokenizer it would have been.
        "skip_tokenizer_init": True,
        "tokenizer_mode": "hf",
        # A model's own sampling settings must not change ours.
        "generation_config": "vllm",
        "max_model_len": settings.context,
        "max_num_seqs": settings.rows,
        "max_num_batched_tokens": max(_BATCHED_TOKENS, settings.rows),
        "gpu_memory_utilization": settings.memory,
        "enable_prefix_caching": True,
        # log_softmax(logits / temperature), and at temperature 0 that of the logits (v1/sample/sampler.py). "raw" is
        # always at temperature 1.
        "logprobs_mode": "processed_logprobs",
        "enable_sleep_mode": settings.can_sleep,
        "enable_flashinfer_autotune": False,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "enforce_eager": settings.eager,
    }
    if not settings.eager:
        arguments["cudagraph_capture_sizes"] = capture_sizes(settings.rows)
    if settings.agents:
        arguments |= {
            "enable_lora": True,
            "max_lora_rank": lora_rank(settings.rank),
            # While a version comes in, the one that it replaces is still there.
            "max_loras": settings.agents + 1,
            # As many old ones as can be in use while all agents get new ones.
            "max_cpu_loras": 2 * settings.agents + 1,
        }
    return arguments


def sampling_arguments(sampling: Sampling, *, seed: int, limit: int) -> dict[str, Any]:
    """Return what `SamplingParams` is given, but for the kind of output."""
    least, most = TEMPERATURES
    if sampling.temperature and not least <= sampling.temperature <= most:
        raise EngineError(
            f"vLLM samples at temperature 0 or from {least} to {most}, got {sampling.temperature}; "
            "choose another, or use the local engine"
        )
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or 0,
        "seed": seed,
        "max_tokens": limit,
        # The model's own end ends nothing, nor does what its generation settings name; only these do, and stay in the
        # tokens (v1/core/sched/utils.py, check_stop; v1/engine/detokenizer.py).
        "ignore_eos": True,
        "stop_token_ids": list(sampling.stop_tokens),
        # Of the sampled token alone, in plain lists.
        "logprobs": 0,
        "flat_logprobs": True,
        "detokenize": False,
        "skip_clone": True,
    }


def lora_rank(rank: int) -> int:
    """Return the smallest of vLLM's ranks that an adapter of this rank fits in."""
    for known in RANKS:
        if rank <= known:
            return known
    raise EngineError(f"got an adapter of rank {rank}, and vLLM takes up to {RANKS[-1]}; use the local engine")


def capture_sizes(rows: int) -> list[int]:
    """Return the batch sizes whose steps are captured: few, since each takes time, and none far above another."""
    steps = {1, 2, 4, *(size for power in range(3, 20) for size in (2**power, 3 * 2 ** (power - 1)))}
    return sorted({*(size for size in steps if size < rows), rows})


def memory_share(free: int, total: int, *, reserve: int) -> float:
    """Return vLLM's share of a GPU's memory: all that is free but for a reserve."""
    usable = free - reserve - _VLLM_OVERHEAD
    if usable < GIB:
        raise EngineError(
            f"the GPU has {free / GIB:.1f} GiB free, of which {reserve / GIB:.1f} GiB are reserved and "
            f"{_VLLM_OVERHEAD / GIB:.0f} GiB are what vLLM needs beside its share, so there is too little left for it; "
            "free some, lower `reserve`, or use the local engine"
        )
    return min(usable / total, _MAX_SHARE)


def _output(output: Any) -> VllmOutput:
    [completion] = output.outputs
    flat = completion.logprobs
    return VllmOutput(
        token_ids=tuple(completion.token_ids),
        # At every position the sampled token comes first (v1/engine/logprobs.py).
        log_probs=tuple(flat.logprobs[start] for start in flat.start_indices),
        finish_reason=str(completion.finish_reason),
        prompt_tokens=len(output.prompt_token_ids) - (output.num_cached_tokens or 0),
    )


def _died() -> EngineError:
    return EngineError(
        "vLLM's process has ended; what it said last is above. Out of memory is the most frequent cause: start the "
        "engine with a smaller `memory` or fewer `rows`"
    )
