"""How a base model is run: trunk and head separately, fused norms, attention kernels, sliding windows, CPU threads.

Logits take more memory than the rest of a causal model, so the trunk runs alone and the head is applied only where
logits are needed. `check_head` compares the result with the model's own logits.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from mada.errors import ModelError

SMALL_MODEL = 50_000_000  # parameters; below this a second CPU thread only costs time
# These scale by `weight`; Gemma's norm scales by 1 + weight and stays as it is.
_PLAIN_NORMS = frozenset({"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "SmolLM3RMSNorm"})


def trunk(model: PreTrainedModel) -> nn.Module:
    """Return the model without its head; called like the model, its first output is the last hidden states."""
    return model.base_model


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the logits of hidden states, as the whole model would."""
    head = model.get_output_embeddings()
    if head is None:
        raise ModelError(f"{type(model).__name__} has no output head, so it cannot predict the next token")
    logits: Tensor = head(hidden)
    scale, divisor, cap = _after_head(model)
    if scale is not None:
        logits = logits * scale
    if divisor is not None:
        logits = logits / divisor
    return logits if cap is None else cap * torch.tanh(logits / cap)


def plain_head(model: PreTrainedModel) -> nn.Linear | None:
    """Return the head if logits are its product and nothing else, `None` otherwise."""
    head = model.get_output_embeddings()
    plain = type(head) is nn.Linear and cast("Tensor | None", head.bias) is None
    return head if isinstance(head, nn.Linear) and plain and _after_head(model) == [None] * 3 else None


def _after_head(model: PreTrainedModel) -> list[Any]:
    """Return what the logits are multiplied by, divided by, and capped at."""
    config = model.config.get_text_config()
    return [getattr(config, name, None) for name in ("logit_scale", "logits_scaling", "final_logit_softcapping")]


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """Refuse a model whose logits differ from those of `logits_of`."""
    ids = torch.arange(4, device=model.device)[None]
    own = model(input_ids=ids, use_cache=False).logits.float()
    ours = logits_of(model, trunk(model)(input_ids=ids, use_cache=False)[0]).float()
    # bfloat16 keeps 8 bits; a missing scale or cap is far beyond that.
    if own.shape != ours.shape or (own - ours).abs().max() > 0.02 * own.abs().max() + 1e-4:
        raise ModelError(
            f"{type(model).__name__} changes its logits after the head in an unknown way, so log-probabilities would "
            "be wrong. Use another architecture, or add this one to mada/models/forward.py"
        )


def fuse_norms(model: nn.Module) -> int:
    """Run a model's RMS norms as one torch operation instead of eight; return how many there are.

    The eight take a tenth of a training pass on a GPU. The result differs by rounding only: the scale is applied before
    rounding, not after.
    """
    norms = [module for module in model.modules() if type(module).__name__ in _PLAIN_NORMS]
    for norm in norms:
        norm.forward = partial(_rms_norm, norm)
    return len(norms)


def _rms_norm(norm: nn.Module, hidden_states: Tensor) -> Tensor:
    weight, epsilon = cast("Tensor", norm.weight), cast("float", norm.variance_epsilon)
    return functional.rms_norm(hidden_states, weight.shape, weight, epsilon)


def no_cudnn_attention(device: torch.device) -> AbstractContextManager[object]:
    """Disable cuDNN's attention inside the block, for shapes that rarely repeat.

    cuDNN plans every new shape before it runs, which takes longer than the other kernels; torch still prefers it on
    some GPUs.
    """
    if device.type != "cuda":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def layer_windows(config: Any) -> list[int | None]:
    """Return each layer's sliding window, `None` for full attention."""
    kinds: list[str] | None = getattr(config, "layer_types", None)
    window: int | None = getattr(config, "sliding_window", None)
    if kinds is None:
        return [window] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else None for kind in kinds]


def set_threads(model: PreTrainedModel, wanted: int | None = None) -> int:
    """Set this process's CPU threads and return their number: the wanted one, or 1 for a small model on a CPU.

    On busy cores, two threads of a small model wait several times as long as they compute. OMP_NUM_THREADS is
    respected.
    """
    if wanted is not None:
        torch.set_num_threads(wanted)
    elif model.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ and model.num_parameters() < SMALL_MODEL:
        torch.set_num_threads(1)
    return torch.get_num_threads()
