"""What an update did, per agent and as a whole: the numbers one watches while agents learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mada.learning.batches import CreditedCompletion
from mada.learning.passes import Floats, LearningPass, Lesson, LessonTokens


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

    completions: int
    completions_learnt: int
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

    step: int
    agents: Mapping[str, AgentReport]
    micro_batches: int
    """Passes forward and backward, over all updates."""
    padding_share: float
    out_of_memory: int
    """How often memory ran out and the update went on with smaller micro-batches."""
    seconds: Mapping[str, float]
    """By part: `reference`, `learning` (forward and backward), `optimizer`."""


def agent_report(
    completions: Sequence[CreditedCompletion],
    lessons: Sequence[Lesson],
    passes: Sequence[LearningPass],
    *,
    agent: str,
    learning_rate: float,
    gradient_norms: Sequence[float],
    canary: Canary | None,
) -> AgentReport:
    """Sum up one agent's part in the passes of an update."""
    learnt = [place for place, lesson in enumerate(lessons) if lesson.completion.agent == agent]
    tokens = [one.tokens[place] for one in passes for place in learnt]
    updates = max(1, len(passes))
    return AgentReport(
        completions=sum(completion.agent == agent for completion in completions),
        completions_learnt=len(learnt),
        tokens_learnt=sum(len(lessons[place].completion.completion_ids) for place in learnt),
        learning_rate=learning_rate,
        loss=loss_of(tokens) / updates,
        policy_loss=float(sum(one.weighted_policy_T.sum(dtype=np.float64) for one in tokens)) / updates,
        gradient_norm=float(np.mean(gradient_norms)) if learnt else 0.0,
        kl=_mean([one.kl_T for one in tokens]),
        clip_share=_mean([one.clipped_T for one in tokens]),
        entropy=_mean([one.entropies_T for one in tokens]),
        canary=canary,
    )


def loss_of(tokens: Sequence[LessonTokens]) -> float:
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
