"""The limits of a local engine, the choice of its network, and a check of the network against the model."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from mada.errors import EngineError, ModelError
from mada.models.adapters import AdapterStack
from mada.models.engines.local.batch import Batch
from mada.models.engines.local.llama import LlamaNetwork
from mada.models.engines.local.network import HuggingFaceNetwork, KVCache, Network, PromptBatch
from mada.models.memory import DEFAULT_ROWS, MAX_CPU_MEMORY, cache_share

_log = logging.getLogger(__name__)

# Prompt tokens read in one pass: enough to fill the device, few enough that decoding rows do not wait for long.
_PREFILL_TOKENS = {"cpu": 2048, "cuda": 16384}


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest row, the number of rows, and how prefill and decoding alternate."""

    context: int
    rows: int
    kv_memory: int
    prefill_tokens: int
    """Prompt tokens read in one pass, padding included."""
    admit_at_least: int
    """Free slots that are collected before prompts are read, while other rows are decoding."""
    steps_ahead: int
    """Steps that the device may be ahead of the host."""

    @classmethod
    def of(
        cls,
        model: PreTrainedModel,
        *,
        context: int | None,
        rows: int | None,
        kv_memory: int | None,
        alone: bool = False,
    ) -> "Limits":
        """Check the given limits and fill in the others for a model's device."""
        device = model.device.type
        window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if context is not None and window is not None and context > window:
            raise EngineError(f"got a context of {context:,} tokens, and the model's window is {window:,}; lower it")
        context = context or window
        if not context:
            raise EngineError("the model does not say how long its window is; give LocalEngine a context")
        if rows is not None and rows < 1:
            raise EngineError(f"an engine needs room for at least 1 row, got {rows}")
        rows = rows or DEFAULT_ROWS[device]
        if kv_memory is None:
            kv_memory = int(cache_share(device, alone=alone) * _free_memory(model.device))
        on_gpu = device == "cuda"
        return cls(
            context=context,
            rows=rows,
            kv_memory=kv_memory,
            prefill_tokens=_PREFILL_TOKENS[device],
            admit_at_least=max(1, rows // 16) if on_gpu else 1,
            steps_ahead=1 if on_gpu else 0,
        )


def make_batch(model: PreTrainedModel, stack: AdapterStack | None, limits: Limits) -> Batch:
    """Return a batch on the fastest network whose logits are the model's own."""
    model.eval()
    for network in _networks(model, stack, context=limits.context):
        difference = _difference(model, stack, network, limits)
        # bfloat16 keeps 8 bits, float32 24; anything structural is far beyond either.
        if difference < (0.05 if model.dtype.itemsize < 4 else 1e-3):
            break
        _log.warning("%s is off by %.2g for this model and is not used", type(network).__name__, difference)
    else:
        raise ModelError(
            f"{type(model).__name__} cannot be sampled with the key-value cache of the local engine; "
            "use a causal model with ordinary attention layers"
        )
    slots = network.shape.rows(context=limits.context, budget=limits.kv_memory, wanted=limits.rows)
    cache = KVCache(network.shape, slots=slots, context=limits.context, device=model.device)
    kind = Batch
    if model.device.type == "cuda":
        from mada.models.engines.local.cuda import GraphBatch

        kind = GraphBatch
    return kind(network, cache, scale_K=None if stack is None else stack.scale_K)


def _networks(model: PreTrainedModel, stack: AdapterStack | None, *, context: int) -> Iterator[Network]:
    """Yield the networks that may fit the model, fastest first."""
    if LlamaNetwork.supports(model):
        if model.device.type == "cuda":
            # Imported here because it needs Triton, which comes with torch only where CUDA does.
            from mada.models.engines.local.cuda import CudaLlamaNetwork

            yield CudaLlamaNetwork(model, stack, context=context)
        yield LlamaNetwork(model, stack, context=context)
    yield HuggingFaceNetwork(model, stack)


@torch.inference_mode()
def _difference(model: PreTrainedModel, stack: AdapterStack | None, network: Network, limits: Limits) -> float:
    """Return how far the network's logits are from the model's own, relative to their size, on one short text."""
    length = min(6, limits.context)
    device = model.device
    ids = torch.arange(1, length + 1, device=device)[None] % model.config.get_text_config().vocab_size
    own = model(input_ids=ids, use_cache=False).logits[0].float()
    cache = KVCache(network.shape, slots=1, context=length, device=device)
    gate = None if stack is None else torch.zeros(1, len(stack.agents), device=device)
    zero = torch.zeros(1, dtype=torch.long, device=device)
    prefix = max(1, length // 2)
    logits = [network.prefill(PromptBatch(ids[:, :prefix], zero + prefix, gate, zero, zero), cache)]
    logits += [
        network.decode(ids[:, index], zero + index, gate, cache, longest=length) for index in range(prefix, length)
    ]
    ours = torch.cat(logits).float()
    return float((ours - own[prefix - 1 :]).abs().max() / own.abs().max().clamp(min=1e-6))


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        # Memory in torch's caching allocator is free for us, but the driver counts it as taken.
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    return min(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), MAX_CPU_MEMORY)
