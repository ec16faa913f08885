# pyright: basic
"""Passes over a step's completions, micro-batch by micro-batch. Axes: B completion, T completion token.

`forward_pass` asks the bare base or the agents, without gradients or dropout. `learning_pass` goes forward and backward
with the adapters on and leaves the summed gradients with the optimizer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mada.learning.batches import CreditedCompletion, MicroBatch
from mada.learning.loss import Route, completion_log_probs, grpo
from mada.learning.optimizer import StackedAdamW
from mada.models.adapters import AdapterStack
from mada.recipe.schema import TrainingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """A completion to learn from: the weight of its tokens (loss.py), and the log-probabilities to compare with."""

    completion: CreditedCompletion
    weight: float
    reference_T: Tensor | None = None
    """Those of the bare base; missing when the KL term is off."""
    old_T: Tensor | None = None
    """Those of the policy that the ratio starts from; missing in the first update, which is that policy."""


@dataclass(frozen=True, slots=True)
class TokenValues:
    """What a learning pass found out about every token of a example."""

    log_probs_T: Floats
    entropies_T: Floats
    weighted_T: Floats
    weighted_policy_T: Floats
    kl_T: Floats
    clipped_T: Floats


@dataclass(frozen=True, slots=True)
class LearningPass:
    """One forward and backward over all examples; lists are in their order."""

    tokens: list[TokenValues]
    log_probs: list[Tensor]
    batches: list[MicroBatch]


@torch.no_grad()
def forward_pass(
    stack: AdapterStack, batches: Sequence[MicroBatch], *, temperature: float, route: Route
) -> list[Tensor]:
    """Return the log-probabilities of every completion's tokens, without dropout: of the agents, or of the base."""
    model = cast("PreTrainedModel", stack.model)
    found = [completion_log_probs(model, batch, temperature=temperature, route=route).log_probs_T for batch in batches]
    return _by_completion(found, batches)


def learning_pass(
    stack: AdapterStack,
    examples: Sequence[Example],
    batches: Sequence[MicroBatch],
    *,
    settings: TrainingSettings,
    optimizer: StackedAdamW,
    seed_of: Callable[[int], int],
) -> LearningPass:
    """Sum the gradients of all micro-batches in the optimizer; `seed_of` gives each one's dropout seed."""
    found: list[Tensor] = []
    device = stack.scale_K.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for number, batch in enumerate(batches):
            _seed(seed_of(number), device)
            found.append(_learn(stack, [examples[index] for index in batch.indices], batch, settings))
            optimizer.take_gradients()
    columns = _by_completion(found, batches)
    # Read at the end: every look at a value before would hold up the device.
    tokens = [TokenValues(*column.cpu().numpy()) for column in columns]
    return LearningPass(tokens, [column[0] for column in columns], list(batches))


def _learn(stack: AdapterStack, examples: Sequence[Example], batch: MicroBatch, settings: TrainingSettings) -> Tensor:
    """Go forward and backward over a micro-batch; return the rows of `TokenValues` for its tokens, as [6, T]."""
    model = cast("PreTrainedModel", stack.model)
    route = partial(stack.routed, learning=True)
    policy = completion_log_probs(model, batch, temperature=settings.temperature, route=route)
    log_probs_T = policy.log_probs_T
    own_T = log_probs_T.detach()

    def by_token(values_B: Sequence[float]) -> Tensor:
        return torch.tensor(values_B).repeat_interleave(torch.tensor(batch.completion_lengths)).to(own_T)

    reference = [example.reference_T for example in examples if example.reference_T is not None]
    old = [example.old_T for example in examples if example.old_T is not None]
    objective = grpo(
        log_probs_T,
        old_T=torch.cat(old) if old else own_T,
        reference_T=torch.cat(reference) if reference else None,
        advantages_T=by_token([example.completion.advantage for example in examples]),
        weights_T=by_token([example.weight for example in examples]),
        clip_range=settings.clip_range,
        kl_coefficient=settings.kl_coefficient,
    )
    objective.loss.backward()
    kl_T = torch.full_like(own_T, torch.nan) if objective.kl_T is None else objective.kl_T
    rows = (own_T, policy.entropies_T, objective.weighted_T, objective.weighted_policy_T, kl_T, objective.clipped_T)
    return torch.stack([row.to(own_T) for row in rows])


def _by_completion(found: Sequence[Tensor], batches: Sequence[MicroBatch]) -> list[Tensor]:
    """Cut what was found for each micro-batch's tokens (the last axis) into completions, in their first order."""
    pairs = [
        pair
        for values, batch in zip(found, batches, strict=True)
        for pair in zip(batch.indices, values.split(batch.completion_lengths, dim=-1), strict=True)
    ]
    return [values for _, values in sorted(pairs, key=lambda pair: pair[0])]


def _seed(seed: int, device: torch.device) -> None:
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


@dataclass(frozen=True, slots=True)
class Canary:
    """How far the learner's log-probabilities are from the engine's, in nats per token.

    Both come from the same weights without dropout, so what is left is rounding.
    """

    mean: float
    """Mean over completions of their mean absolute difference."""
    largest: float
    """That of the completion that differs most."""
    ratio: float
    """Mean over tokens of exp(learner − engine): 1 when they agree."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent's update: means over the updates where there are several. A mean of nothing is `None`."""

    tokens_learnt: int
    learning_rate: float
    loss: float
    policy_loss: float
    """The loss without the KL term."""
    gradient_norm: float
    """Before clipping."""
    kl: float | None
    """Mean over tokens of k3; missing without KL term."""
    clip_share: float | None
    """Share of tokens that the clipped ratio took out."""
    entropy: float | None
    """Mean over tokens, in nats, at the temperature of sampling."""
    canary: Canary | None
    """Missing when the engine gave no log-probabilities."""


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update did."""

    agents: Mapping[str, AgentReport]
    micro_batches: int
    """Passes forward and backward, over all updates."""
    out_of_memory: int
    """How often memory ran out and the update went on with smaller micro-batches."""
    seconds: Mapping[str, float]
    """By part: `reference`, `learning` (forward and backward), `optimizer`."""


def agent_report(
    examples: Sequence[Example],
    passes: Sequence[LearningPass],
    *,
    agent: str,
    learning_rate: float,
    gradient_norms: Sequence[float],
    canary: Canary | None,
) -> AgentReport:
    """Sum up one agent's part in the passes of an update."""
    learnt = [index for index, example in enumerate(examples) if example.completion.agent == agent]
    tokens = [one.tokens[index] for one in passes for index in learnt]
    updates = max(1, len(passes))
    return AgentReport(
        tokens_learnt=sum(len(examples[index].completion.completion_ids) for index in learnt),
        learning_rate=learning_rate,
        loss=loss_of(tokens) / updates,
        policy_loss=float(sum(one.weighted_policy_T.sum(dtype=np.float64) for one in tokens)) / updates,
        gradient_norm=float(np.mean(gradient_norms)) if learnt else 0.0,
        kl=_mean([one.kl_T for one in tokens]),
        clip_share=_mean([one.clipped_T for one in tokens]),
        entropy=_mean([one.entropies_T for one in tokens]),
        canary=canary,
    )


def loss_of(tokens: Sequence[TokenValues]) -> float:
    """Return the loss that these completions' tokens sum to."""
    return float(sum(one.weighted_T.sum(dtype=np.float64) for one in tokens))


def canary_of(pairs: Sequence[tuple[CreditedCompletion, Floats]]) -> Canary | None:
    """Compare the learner's log-probabilities of completions with the engine's, where it gave any."""
    differences = [
        log_probs_T.astype(np.float64) - np.asarray(completion.engine_log_probs)
        for completion, log_probs_T in pairs
        if completion.engine_log_probs is not None
    ]
    if not differences:
        return None
    means = [float(np.abs(difference).mean()) for difference in differences]
    return Canary(float(np.mean(means)), max(means), float(np.exp(np.concatenate(differences)).mean()))


def _mean(values: Sequence[np.ndarray]) -> float | None:
    joined = np.concatenate(values).astype(np.float64) if values else np.array([np.nan])
    mean = float(joined.mean())
    return None if np.isnan(mean) else mean
