# pyright: basic
"""The GRPO objective (T1). Axes: B completion, T completion token (a micro-batch's completions end to end).

    ratio     = exp(log π − log π_old)
    policy    = −min(ratio · A, clip(ratio, 1 − ε, 1 + ε) · A)
    k3        = exp(log π_ref − log π) − (log π_ref − log π) − 1            ≥ 0, estimates KL(π ‖ π_ref)
    loss      = Σ_T weight · (policy + β · k3)

Completions stand end to end, without padding, so there is nothing to mask. All that couples completions is the
weight, and `AGGREGATIONS` makes it from all of an agent's completions of a step before any is cut into micro-batches:
sums of micro-batches are the sum of the batch. A completion that is skipped keeps its part in the weights of the
others: skipping saves time and never changes the scale.

| aggregation | weight of a token                           | reads as                                 | source   |
|-------------|---------------------------------------------|------------------------------------------|----------|
| `sequence`  | 1 / (completions · its completion's length) | mean over tokens, then completions       | GRPO     |
| `token`     | 1 / (tokens of all completions)             | mean over all tokens                     | DAPO     |
| `budget`    | 1 / (completions · max_tokens)              | sum over tokens by a constant, then mean | Dr. GRPO |
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mada.learning.batches import MicroBatch, padded
from mada.models.forward import layer_windows, logits_of, no_cudnn_attention, plain_head, trunk

Aggregation = Callable[[Sequence[int], int], list[float]]
"""From the lengths of all of one agent's completions, and max_tokens, to each completion's weight per token."""


def by_sequence(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every completion counts the same."""
    return [1 / (len(lengths_B) * length) for length in lengths_B]


def by_token(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every token counts the same."""
    return [1 / sum(lengths_B)] * len(lengths_B)


def by_budget(lengths_B: Sequence[int], max_tokens: int) -> list[float]:
    """Every token counts the same, whatever the lengths turned out to be."""
    return [1 / (len(lengths_B) * max_tokens)] * len(lengths_B)


AGGREGATIONS: Mapping[str, Aggregation] = {"sequence": by_sequence, "token": by_token, "budget": by_budget}


@dataclass(frozen=True, slots=True)
class GrpoLoss:
    """The loss to go backward from, and each token's part in it (detached)."""

    loss: Tensor
    weighted_T: Tensor
    """What each token adds to the loss; they sum to it."""
    weighted_policy_T: Tensor
    """The same without the KL term."""
    kl_T: Tensor | None
    """k3, unweighted; missing without a reference."""
    clipped_T: Tensor
    """Whether the ratio has left its range in the advantage's direction, so that the token teaches nothing more."""


def grpo(
    log_probs_T: Tensor,
    *,
    old_T: Tensor,
    reference_T: Tensor | None,
    advantages_T: Tensor,
    weights_T: Tensor,
    clip_range: float,
    kl_coefficient: float,
) -> GrpoLoss:
    """Compute the objective; advantages and weights are those of each token's completion."""
    ratio_T = torch.exp(log_probs_T - old_T)
    clamped_T = ratio_T.clamp(1 - clip_range, 1 + clip_range)
    token_T = policy_T = -torch.minimum(ratio_T * advantages_T, clamped_T * advantages_T)
    kl_T = None
    if reference_T is not None:
        kl_T = k3(log_probs_T, reference_T)
        token_T = policy_T + kl_coefficient * kl_T
    weighted_T = weights_T * token_T
    clipped_T = torch.where(advantages_T > 0, ratio_T > 1 + clip_range, ratio_T < 1 - clip_range) & (advantages_T != 0)
    return GrpoLoss(
        loss=weighted_T.sum(),
        weighted_T=weighted_T.detach(),
        weighted_policy_T=(weights_T * policy_T).detach(),
        kl_T=None if kl_T is None else kl_T.detach(),
        clipped_T=clipped_T,
    )


def k3(log_probs_T: Tensor, reference_T: Tensor) -> Tensor:
    """Schulman's low-variance estimate of KL(π ‖ π_ref) from tokens sampled from π."""
    difference_T = reference_T - log_probs_T
    return torch.exp(difference_T) - difference_T - 1


# Logits held at a time: 256 MiB in float32. For a vocabulary of 150,000 these are 440 tokens, enough to keep the
# head's product bound by arithmetic rather than by reading its weights.
CHUNK_LOGITS = 2**26


@dataclass(frozen=True, slots=True)
class TokenLogProbs:
    """Of each token: its log-probability, and the entropy of the distribution it was drawn from (no gradient)."""

    log_probs_T: Tensor
    entropies_T: Tensor


Route = Callable[[Sequence[str]], AbstractContextManager[None]]
"""From the agents of a pass's rows to the block in which the model's rows belong to them."""


def completion_log_probs(
    model: PreTrainedModel, batch: MicroBatch, *, temperature: float = 1.0, route: Route | None = None
) -> TokenLogProbs:
    """Return those of a micro-batch's completion tokens, row after row; only their hidden states see the head.

    With a `route` prompts are passed once where the micro-batch was cut for that; without, rows belong to whoever the
    caller has routed them to, each with its own prompt.
    """
    with no_cudnn_attention(model.device):
        if route is not None and batch.shares_prompts:
            hidden_TH = _hidden_by_prompt(model, batch, route)
        else:
            with route([completion.agent for completion in batch.completions]) if route else nullcontext():
                hidden_TH = _hidden_by_row(model, batch)
    ids_T = torch.tensor([token for one in batch.completions for token in one.completion_ids], device=model.device)
    return token_log_probs(model, hidden_TH, ids_T, temperature=temperature)


def _hidden_by_row(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Return the hidden states that completion tokens are predicted from, every row with its own prompt."""
    positions_T = batch.completion_positions().to(model.device)
    hidden_BLH = trunk(model)(input_ids=batch.padded_ids().to(model.device), use_cache=False)[0]
    # A token is predicted from the position before it. index_select's backward is one copy; indexing's would sort.
    return hidden_BLH.flatten(0, 1).index_select(0, positions_T - 1)


def _hidden_by_prompt(model: PreTrainedModel, batch: MicroBatch, route: Route) -> Tensor:
    """Return the same, every prompt passed once: its keys and values are handed to all rows that continue it.

    Gradients flow back through them, so the prompt's part is the sum over its rows, as it is row by row.
    """
    device = model.device
    prompts, which = batch.prompts()
    which_B = torch.tensor(which, device=device)
    lengths_P = torch.tensor([len(ids) for _, ids in prompts], device=device)
    cache = DynamicCache()
    with route([agent for agent, _ in prompts]):
        ids_PL = padded([ids for _, ids in prompts]).to(device)
        read_PLH = trunk(model)(input_ids=ids_PL, past_key_values=cache, use_cache=True)[0]
    # The first token is predicted from the prompt's last; the others from the token before them.
    last_P = torch.arange(len(prompts), device=device) * read_PLH.shape[1] + lengths_P - 1
    hidden = read_PLH.flatten(0, 1).index_select(0, last_P).index_select(0, which_B)[:, None]
    ids_BC = padded([completion.completion_ids[:-1] for completion in batch.completions]).to(device)
    if ids_BC.shape[1]:
        layers: list[Any] = list(cache.layers)
        for layer in layers:
            layer.keys, layer.values = layer.keys.index_select(0, which_B), layer.values.index_select(0, which_B)
        lengths_B1 = lengths_P[which_B][:, None]
        known_BL = torch.arange(ids_PL.shape[1], device=device) < lengths_B1
        with route([completion.agent for completion in batch.completions]):
            continued_BCH = trunk(model)(
                input_ids=ids_BC,
                attention_mask=torch.cat([known_BL, torch.ones_like(ids_BC, dtype=torch.bool)], dim=1),
                position_ids=lengths_B1 + torch.arange(ids_BC.shape[1], device=device),
                past_key_values=cache,
                use_cache=True,
            )[0]
        hidden = torch.cat([hidden, continued_BCH], dim=1)
    lengths_B1 = torch.tensor(batch.completion_lengths, device=device)[:, None]
    own_T = (torch.arange(hidden.shape[1], device=device) < lengths_B1).flatten().nonzero()[:, 0]
    return hidden.flatten(0, 1).index_select(0, own_T)


def can_share_prompts(model: PreTrainedModel) -> bool:
    """Whether a prompt can be passed apart from what continues it: not where a window cuts off its keys."""
    return all(window is None for window in layer_windows(model.config.get_text_config()))


def token_log_probs(
    model: PreTrainedModel,
    hidden_TH: Tensor,
    ids_T: Tensor,
    *,
    temperature: float = 1.0,
    chunk_logits: int = CHUNK_LOGITS,
) -> TokenLogProbs:
    """Return what the model's head makes of each token, given the hidden state it is predicted from."""
    chunk = max(1, chunk_logits // model.config.get_text_config().vocab_size)
    head = plain_head(model)
    if head is not None and hidden_TH.is_cuda:
        found = _KernelLogProbs.apply(hidden_TH, ids_T, head.weight, temperature, chunk)
    else:
        found = _ChunkedLogProbs.apply(hidden_TH, ids_T, model, temperature, chunk)
    log_probs_T, entropies_T = found  # type: ignore[misc]
    return TokenLogProbs(log_probs_T, entropies_T)


class _ChunkedLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TH: Tensor, ids_T: Tensor, model: PreTrainedModel, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        log_probs_T = torch.empty(len(ids_T), dtype=torch.float32, device=hidden_TH.device)
        entropies_T = torch.empty_like(log_probs_T)
        for start in range(0, len(ids_T), chunk):
            own = slice(start, start + chunk)
            log_p_CV = logits_of(model, hidden_TH[own]).float().div_(temperature).log_softmax(-1)
            log_probs_T[own] = log_p_CV.gather(1, ids_T[own, None])[:, 0]
            entropies_T[own] = -torch.linalg.vecdot(log_p_CV.exp(), log_p_CV)
            del log_p_CV  # before the next chunk is made: two would be held otherwise
        ctx.save_for_backward(hidden_TH, ids_T)
        ctx.model, ctx.temperature, ctx.chunk = model, temperature, chunk
        ctx.mark_non_differentiable(entropies_T)
        return log_probs_T, entropies_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient_T = gradients[0]
        hidden_TH, ids_T = ctx.saved_tensors
        gradient_TH = torch.empty_like(hidden_TH)
        for start in range(0, len(ids_T), ctx.chunk):
            own = slice(start, start + ctx.chunk)
            with torch.enable_grad():
                hidden_CH = hidden_TH[own].detach().requires_grad_()
                logits_CV = logits_of(ctx.model, hidden_CH)
            scale_C1 = gradient_T[own, None] / ctx.temperature
            # A copy, also in float32: the graph may need the logits as they are.
            p_CV = logits_CV.detach().to(torch.float32, copy=True).div_(ctx.temperature).softmax(-1)
            gradient_CV = p_CV.mul_(-scale_C1).scatter_add_(1, ids_T[own, None], scale_C1)
            (gradient_TH[own],) = torch.autograd.grad(logits_CV, hidden_CH, gradient_CV.to(logits_CV.dtype))
            del logits_CV, p_CV, gradient_CV
        return gradient_TH, None, None, None, None


class _KernelLogProbs(torch.autograd.Function):
    """The same on a CUDA device, for a head that is one product: logits stay in the model's format."""

    @staticmethod
    def forward(
        ctx: Any, hidden_TH: Tensor, ids_T: Tensor, weight_VH: Tensor, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        # Imported here because it needs Triton, which comes with torch only where CUDA does.
        from mada.learning.head_kernels import log_probs_of

        found = [
            log_probs_of(hidden_CH @ weight_VH.T, ids_C, temperature)
            for hidden_CH, ids_C in zip(hidden_TH.split(chunk), ids_T.split(chunk), strict=True)
        ]
        log_probs_T, entropies_T, normalizers_T = (torch.cat(parts) for parts in zip(*found, strict=True))
        ctx.save_for_backward(hidden_TH, ids_T, weight_VH, normalizers_T)
        ctx.temperature, ctx.chunk = temperature, chunk
        ctx.mark_non_differentiable(entropies_T)
        return log_probs_T, entropies_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from mada.learning.head_kernels import replace_by_gradient

        hidden_TH, ids_T, weight_VH, normalizers_T = ctx.saved_tensors
        gradient_TH = torch.empty_like(hidden_TH)
        for start in range(0, len(ids_T), ctx.chunk):
            own = slice(start, start + ctx.chunk)
            logits_CV = hidden_TH[own] @ weight_VH.T
            replace_by_gradient(logits_CV, ids_T[own], ctx.temperature, normalizers_T[own], gradients[0][own])
            torch.mm(logits_CV, weight_VH, out=gradient_TH[own])
        return gradient_TH, None, None, None, None
