"""From the last hidden states to logits: the part of a causal model that is largest in memory, done piece by piece.

Running a model without its head and applying the head only where logits are wanted saves most of a forward pass's
memory. What some architectures do after the head is done here too, and `check_head` holds it to the model's own logits.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mada.errors import ModelError


def trunk(model: PreTrainedModel) -> nn.Module:
    """Return the model without its head; called like the model, its first output is the last hidden states."""
    return model.base_model


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return the logits of hidden states, as the whole model would."""
    head = model.get_output_embeddings()
    if head is None:
        raise ModelError(f"{type(model).__name__} has no output head, so it cannot say which token comes next")
    logits: Tensor = head(hidden)
    config: Any = model.config.get_text_config()
    if (scale := getattr(config, "logit_scale", None)) is not None:
        logits = logits * scale
    if (divisor := getattr(config, "logits_scaling", None)) is not None:
        logits = logits / divisor
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = cap * torch.tanh(logits / cap)
    return logits


def plain_head(model: PreTrainedModel) -> nn.Linear | None:
    """Return the head where logits are its product and nothing else; `None` where more is done to them."""
    head = model.get_output_embeddings()
    config = model.config.get_text_config()
    more = [getattr(config, name, None) for name in ("logit_scale", "logits_scaling", "final_logit_softcapping")]
    plain = type(head) is nn.Linear and cast("Tensor | None", head.bias) is None
    return head if isinstance(head, nn.Linear) and plain and more == [None] * 3 else None


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """Refuse a model whose logits are not what `logits_of` makes of its hidden states."""
    ids = torch.arange(4, device=model.device)[None]
    own = model(input_ids=ids, use_cache=False).logits.float()
    ours = logits_of(model, trunk(model)(input_ids=ids, use_cache=False)[0]).float()
    # bfloat16 keeps 8 bits; a forgotten scale or cap is far beyond that.
    if own.shape != ours.shape or (own - ours).abs().max() > 0.02 * own.abs().max() + 1e-4:
        raise ModelError(
            f"{type(model).__name__} does something to its logits that mada does not know; its log-probabilities would "
            "be wrong. Use another architecture, or teach mada/models/head.py this one"
        )
