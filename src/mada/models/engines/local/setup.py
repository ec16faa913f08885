"""What an engine starts with: its limits, the kind of network, and a check that the network is the model."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from mada.errors import EngineError, ModelError
from mada.models.adapters import AdapterStack
from mada.models.engines.local.batch import Batch
from mada.models.engines.local.cache import GIB, SlotCache
from mada.models.engines.local.huggingface import HuggingFaceNetwork
from mada.models.engines.local.llama import LlamaNetwork
from mada.models.engines.local.network import Network, Prompts

_log = logging.getLogger(__name__)

# Rows beyond these make a step longer by about as much as they add.
ROWS = {"cpu": 64, "cuda": 512}
# Prompt tokens read in one pass: enough to fill the device, few enough that waiting rows are not held up for long.
_PROMPT_TOKENS = {"cpu": 2048, "cuda": 16384}
MOST_FREE_ON_A_CPU = 8 * GIB


def share_of_free(kind: str, *, alone: bool) -> float:
    """Return the share of the memory free at its start that an engine without a budget takes for keys and values.

    On a GPU a learner needs more than half of it for activations; what an engine alone leaves is for reading prompts,
    for logits, and for captured steps. On a CPU more would gain nothing.
    """
    if kind != "cuda":
        return 0.25
    return 0.7 if alone else 0.4


@dataclass(frozen=True, slots=True)
class Limits:
    """How long rows may be, how many there are, and how the engine paces itself."""

    context: int
    rows: int
    kv_memory: int
    prompt_tokens: int
    admit_at_least: int
    """Free slots that are collected before prompts are read, while other rows are being continued."""
    lag: int
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
        """Settle the limits for a model's device."""
        kind = model.device.type
        window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if context is not None and window is not None and context > window:
            raise EngineError(f"got a context of {context:,} tokens, and the model's window is {window:,}; lower it")
        context = context or window
        if not context:
            raise EngineError("the model does not say how long its window is; give LocalEngine a context")
        if rows is not None and rows < 1:
            raise EngineError(f"an engine needs room for at least 1 row, got {rows}")
        wanted = rows or ROWS[kind]
        if kv_memory is None:
            kv_memory = int(share_of_free(kind, alone=alone) * _free_memory(model.device))
        on_gpu = kind == "cuda"
        return cls(
            context=context,
            rows=wanted,
            kv_memory=kv_memory,
            prompt_tokens=_PROMPT_TOKENS[kind],
            admit_at_least=max(1, wanted // 16) if on_gpu else 1,
            lag=1 if on_gpu else 0,
        )


def make_batch(model: PreTrainedModel, stack: AdapterStack | None, limits: Limits) -> Batch:
    """Choose the fastest network that is the model, and make room for its rows."""
    model.eval()
    for network in _networks(model, stack, context=limits.context):
        difference = _difference(model, stack, network, limits)
        # bfloat16 keeps 8 bits, float32 24; anything structural is far beyond either.
        if difference < (0.05 if model.dtype.itemsize < 4 else 1e-3):
            break
        _log.warning("%s is off by %.2g for this model and is not used", type(network).__name__, difference)
    else:
        raise ModelError(
            f"{type(model).__name__} cannot be sampled with a cache of keys and values as mada keeps it; "
            "use a causal model with ordinary attention layers"
        )
    shape = network.shape
    slots = shape.slots(context=limits.context, budget=limits.kv_memory, wanted=limits.rows)
    cache = SlotCache(shape, slots=slots, context=limits.context, device=model.device)
    kind = Batch
    if model.device.type == "cuda":
        from mada.models.engines.local.cuda import GraphBatch

        kind = GraphBatch
    return kind(network, cache, scale_K=None if stack is None else stack.scale_K)


def _networks(model: PreTrainedModel, stack: AdapterStack | None, *, context: int) -> Iterator[Network]:
    """Yield the networks that may be the model, fastest first."""
    if LlamaNetwork.possible(model):
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
    cache = SlotCache(network.shape, slots=1, context=length, device=device)
    none = None if stack is None else torch.zeros(1, len(stack.agents), device=device)
    zero = torch.zeros(1, dtype=torch.long, device=device)
    known = max(1, length // 2)
    logits = [network.read(Prompts(ids[:, :known], zero + known, none, zero, zero), cache)]
    logits += [
        network.decode(ids[:, place], zero + place, none, cache, longest=length) for place in range(known, length)
    ]
    ours = torch.cat(logits).float()
    return float((ours - own[known - 1 :]).abs().max() / own.abs().max().clamp(min=1e-6))


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        # What an earlier stage has left to torch's allocator is free for us, but the driver counts it as taken.
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # A container may have less than the machine says, and a CPU gains nothing from more.
    return min(free, MOST_FREE_ON_A_CPU)
