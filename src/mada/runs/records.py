"""Types of records that one part of mada writes and others read; fields keep their names, so old runs stay readable."""

from dataclasses import dataclass

METRICS, VALIDATION, CREDITS = "metrics.jsonl", "validation.jsonl", "credits.jsonl"
"""The files of a training's records, in `generators/` and `critics/` of a run."""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One agent in one step. Steps count from 1.

    `reward_parts` are the unweighted terms of the reward; `advantage` is the mean of |A|; `zero_spread_share` is the
    share of groups whose rewards are all equal, and `skipped_share` that of completions not learnt from. The numbers
    from `loss` to `ratio` are the learner's. The rates, and nothing else, depend on the machine.
    """

    step: int
    agent: str
    reward: float
    reward_parts: dict[str, float]
    accuracy: float | None
    advantage: float
    length: float
    truncated_share: float
    zero_spread_share: float
    skipped_share: float
    loss: float | None
    policy_loss: float | None
    kl: float | None
    clip_share: float | None
    entropy: float | None
    gradient_norm: float | None
    learning_rate: float
    canary_mean: float | None
    canary_largest: float | None
    ratio: float | None
    tokens: int
    tokens_learnt: int
    rollout_tokens_per_second: float | None
    learn_tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class ValidationStep:
    """One agent on the validation set after a step; `is_best` says that its adapter was kept."""

    step: int
    agent: str
    accuracy: float
    length: float
    truncated_share: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class GroupCredit:
    """What a group's completions earned and were credited with, to six decimals.

    `group_relative` is what GRPO's advantage (A1) gives the same rewards, so that a critic's counterfactual credit can
    be held against it without training twice.
    """

    step: int
    agent: str
    prompt: str
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    group_relative: tuple[float, ...]
    generator_accuracy: float | None
