"""Everything that depends on vLLM, written against its version 0.24; the engine knows only `interface.Backend`.

Where a decision rests on vLLM's inside, the file that it was read from is named, below `vllm/`.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Sequence
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any, Self, TypeVar

from mada.errors import EngineError
from mada.models.engines.engine import Sampling
from mada.models.engines.vllm.handover import Version
from mada.models.engines.vllm.interface import Generated, Settings

T = TypeVar("T")

GIB = 2**30
# `max_lora_rank` is one of these (config/lora.py).
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# The lowest temperature that vLLM does not raise, and the highest it takes (sampling_params.py).
TEMPERATURES = (0.01, 2.0)
# vLLM's process wants its share free after its CUDA context has taken some (v1/worker/utils.py, request_memory), and
# captured steps come on top of the share.
_OVERHEAD = 3 * GIB
_MOST = 0.92
# Prompt tokens read in one pass. An embedded engine would get 2,048 otherwise (engine/arg_utils.py).
_BATCHED_TOKENS = 8192
# Seconds between looks at whether vLLM's process still lives, while it owes an answer.
_WATCH = 2.0

_ENVIRONMENT = {
    # FlashInfer's sampler compiles itself at the first use, and knows neither seeds nor processed log-probs.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # A forked process cannot use CUDA where this one has used it already.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
}

# All that is used of vLLM, by module. Fetched together at the start, so that what is missing is missed at once.
_USED = {
    "vllm.engine.arg_utils": ("AsyncEngineArgs",),
    "vllm.inputs": ("tokens_input",),
    "vllm.lora.request": ("LoRARequest",),
    "vllm.sampling_params": ("RequestOutputKind", "SamplingParams"),
    "vllm.v1.engine.async_llm": ("AsyncLLM",),
    "vllm.v1.engine.exceptions": ("EngineDeadError", "EngineGenerateError"),
}


class VllmBackend:
    """vLLM's `AsyncLLM`: a scheduler and a model in a process of their own, spoken to through sockets."""

    def __init__(self, engine: Any, vllm: SimpleNamespace) -> None:
        self._engine: Any = engine
        self._vllm = vllm
        self._requests = count()

    @classmethod
    async def start(cls, settings: Settings) -> Self:
        """Start vLLM; the event loop stands still until its model is loaded.

        AsyncLLM binds itself to the running loop, so it cannot be made in a thread.
        """
        os.environ.update(_ENVIRONMENT)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        vllm = _import_vllm()
        # The variable is too late where vLLM was imported before.
        logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
        try:
            # Not kept in a name here: an error that vLLM catches and keeps while it is imported keeps this frame too.
            return cls(vllm.AsyncLLM.from_engine_args(vllm.AsyncEngineArgs(**engine_arguments(settings))), vllm)
        except (ValueError, RuntimeError, OSError) as error:
            raise EngineError(
                f"vLLM does not start with {settings.model}: {error}; what its process said is above, and with "
                "VLLM_LOGGING_LEVEL=INFO it says more"
            ) from error

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        return self._engine.model_config.get_vocab_size()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, seed: int, limit: int, version: Version | None
    ) -> Generated:
        """Sample one completion; being cancelled takes it out of the batch (`AsyncLLM.generate` sees to that)."""
        # The form that vLLM's own renderer makes; raw prompts are on their way out (v1/engine/input_processor.py).
        prompt = self._vllm.tokens_input(list(prompt_ids))
        arguments = sampling_arguments(sampling, seed=seed, limit=limit)
        request = f"mada-{next(self._requests)}"
        lora = None if version is None else self._lora_request(version)
        try:
            params = self._vllm.SamplingParams(**arguments, output_kind=self._vllm.RequestOutputKind.FINAL_ONLY)
            outputs = [output async for output in self._engine.generate(prompt, params, request, lora_request=lora)]
        except self._vllm.EngineDeadError as error:
            raise _died() from error
        except (self._vllm.EngineGenerateError, ValueError) as error:
            raise EngineError(f"vLLM refuses a request: {error.__cause__ or error}") from error
        if not outputs:
            raise _died()
        return _generated(outputs[-1])

    async def load(self, version: Version) -> None:
        """Load an adapter, and give it a place on the GPU."""
        await self._owed(self._engine.add_lora(self._lora_request(version)), f"load {version.name}")

    async def unload(self, version: Version) -> None:
        """Forget an adapter. It may be gone already, when more came in than there was room for."""
        await self._owed(self._engine.remove_lora(version.number), f"unload {version.name}")

    async def sleep(self) -> None:
        """Give back the GPU's memory. The adapters' buffers are weights too (v1/worker/gpu_worker.py)."""
        await self._owed(self._engine.sleep(level=1), "sleep")

    async def wake_up(self) -> None:
        """Take the memory again. The prefix cache was emptied before sleeping (v1/engine/core.py)."""
        await self._owed(self._engine.wake_up(), "wake up")

    async def close(self) -> None:
        """End vLLM's process, let its task here end too, and let go of it: found at Python's end, it would complain."""
        self._engine.shutdown()
        if self._engine.output_handler is not None:
            await asyncio.wait({self._engine.output_handler}, timeout=_WATCH)
        self._engine = None

    def _lora_request(self, version: Version) -> Any:
        return self._vllm.LoRARequest(version.name, version.number, str(version.folder))

    async def _owed(self, answer: Awaitable[T], task: str) -> T:
        """Wait for an answer as long as vLLM's process lives: a dead one would owe it for ever."""
        waiting = asyncio.ensure_future(answer)
        try:
            while not (await asyncio.wait({waiting}, timeout=_WATCH))[0]:
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
        modules = {import_module(module): names for module, names in _USED.items()}
        return SimpleNamespace(**{name: getattr(module, name) for module, names in modules.items() for name in names})
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported ({error}); install it with `pip install 'mada-rl[vllm]'`, or use the local engine"
        ) from None
    except AttributeError as error:
        raise EngineError(f"vLLM is not as expected ({error}); mada knows its version 0.24: install that") from None


def engine_arguments(settings: Settings) -> dict[str, Any]:
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
        "enable_sleep_mode": settings.sleeps,
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


def share_of_memory(free: int, total: int, *, reserve: int) -> float:
    """Return vLLM's share of a GPU's memory: all that is free but for a reserve."""
    usable = free - reserve - _OVERHEAD
    if usable < GIB:
        raise EngineError(
            f"the GPU has {free / GIB:.1f} GiB free, of which {reserve / GIB:.1f} GiB are reserved and "
            f"{_OVERHEAD / GIB:.0f} GiB are what vLLM needs beside its share, so there is too little left for it; "
            "free some, lower `reserve`, or use the local engine"
        )
    return min(usable / total, _MOST)


def _generated(output: Any) -> Generated:
    [completion] = output.outputs
    flat = completion.logprobs
    return Generated(
        token_ids=tuple(completion.token_ids),
        # At every position the sampled token comes first (v1/engine/logprobs.py).
        log_probs=tuple(flat.logprobs[start] for start in flat.start_indices),
        reason=str(completion.finish_reason),
        prompt_tokens=len(output.prompt_token_ids) - (output.num_cached_tokens or 0),
    )


def _died() -> EngineError:
    return EngineError(
        "vLLM's process has ended; what it said last is above. Out of memory is the most frequent cause: start the "
        "engine with a smaller `memory` or fewer `rows`"
    )
