"""The sections of a recipe that say how agents learn: what all share, and where the two roles differ."""

from typing import Literal

from mada.recipe.values import (
    Count,
    Fraction,
    FractionAboveZero,
    FractionBelowOne,
    OrNone,
    Positive,
    PositiveOrZero,
    Section,
)

Advantage = Literal["grpo", "counterfactual"]
Deviation = Literal["population", "sample"]
LossAggregation = Literal["sequence", "token", "budget"]
Schedule = Literal["constant", "linear", "cosine"]
Truncated = Literal["learn", "skip", "wrong"]
"""What becomes of completions that were cut off."""


class TrainingSettings(Section):
    """The GRPO settings of every agent; a role may set its own learning rate and number of steps."""

    batch_size: Count = 16
    """Completions per optimizer step and agent: batch_size / group_size prompts (T3)."""
    group_size: Count = 4
    """Completions per prompt, the group that rewards are compared within (T3, A1)."""
    learning_rate: Positive = 1e-6
    """Highest learning rate, reached at the end of the warm-up (T3)."""
    warmup_ratio: Fraction = 0.1
    """Share of the steps during which the learning rate rises from zero (T3)."""
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: it stays, or falls to zero in a line or a cosine.

    The paper is silent; linear is what a warm-up ratio usually goes with (T3; ours).
    """
    adam_beta1: FractionBelowOne = 0.9
    """Decay of AdamW's running mean of gradients (T3)."""
    adam_beta2: FractionBelowOne = 0.999
    """Decay of AdamW's running mean of squared gradients (T3)."""
    adam_epsilon: Positive = 1e-8
    """AdamW's guard against division by zero (T3)."""
    weight_decay: PositiveOrZero = 0.0
    """AdamW's weight decay (T3)."""
    max_gradient_norm: OrNone[Positive] = 1.0
    """Norm that each agent's gradient is scaled down to; none means never (T3; ours)."""
    kl_coefficient: PositiveOrZero = 0.04
    """GRPO's β: the price of moving away from the base model (T1)."""
    clip_range: Positive = 0.2
    """GRPO's ε: the probability ratio counts only between 1 − ε and 1 + ε (T1)."""
    loss_aggregation: LossAggregation = "sequence"
    """Mean over tokens, then completions (sequence, as in GRPO), over all tokens (token), or the sum of each
    completion divided by max_new_tokens, then the mean (budget, as in Dr. GRPO) (T1; ours)."""
    updates_per_rollout: Count = 1
    """Optimizer steps on the same completions; from the second on, the ratio is clipped for real (T1; ours)."""
    truncated: Truncated = "learn"
    """Completions cut off at max_new_tokens: learnt from like any other, as in the paper, only counted in their
    group's statistics (skip), or learnt from as wrong whatever they say (wrong) (T1; ours)."""
    temperature: Positive = 0.7
    """Sampling temperature of training completions; not 0, which would make all of a group the same (T3)."""
    top_p: FractionAboveZero = 1.0
    """Share of probability that training samples from; 1 samples the policy that learns (T3; ours)."""
    max_new_tokens: Count = 8192
    """Tokens after which a training completion is cut off.

    The paper is silent; the replies it counts at inference average 5,000 (T3; ours).
    """
    epochs: Positive = 1.0
    """Passes over an agent's subset, unless steps is set (T3; ours)."""
    steps: OrNone[Count] = None
    """Optimizer steps, instead of epochs; none means epochs decide (T3; ours)."""
    validate_every: Count = 250
    """Steps between looks at the validation set, by which the adapter to keep is chosen (T4; ours)."""
    checkpoint_every: Count = 25
    """Steps between checkpoints to go on from after an interruption (T7; ours)."""
    checkpoint_minutes: OrNone[Positive] = 10.0
    """Minutes after which the step that ends next is followed by a checkpoint too; none means steps alone decide.

    A step of long replies takes minutes, and what is finished is not to be lost (T7; ours).
    """
    keep_checkpoints: Count = 2
    """Latest checkpoints kept to go on from after an interruption, besides the best adapter (T7; ours)."""
    micro_batch_tokens: OrNone[Count] = None
    """Tokens, padding included, of one forward and backward pass; none means a size by device (T3; ours)."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass, for less memory and a third more time (ours)."""
    canary_tolerance: Positive = 0.1
    """Largest difference of log-probabilities between engine and learner, in nats per token on average over an
    agent's completions; beyond it, what was sampled is not what learns, and training stops (ours)."""

    @property
    def prompts_per_step(self) -> int:
        """Prompts that an agent sees in one step."""
        return self.batch_size // self.group_size


class RoleSection(Section):
    """What one role does differently from the shared training settings."""

    advantage: Advantage = "grpo"
    """How rewards become advantages (A1, A2)."""
    std: Deviation = "sample"
    """Standard deviation that grpo divides by. The paper is silent; sample is TRL's (A1; ours)."""
    learning_rate: OrNone[Positive] = None
    """This role's learning rate; none means training.learning_rate (T3; ours)."""
    steps: OrNone[Count] = None
    """This role's optimizer steps; none means training.steps (T3; ours)."""
    truncated: OrNone[Truncated] = None
    """This role's rule for completions cut off; none means training.truncated (T1; ours)."""


class GeneratorsSection(RoleSection):
    """How generators learn: from the bare question, each on its own subset."""

    advantage: Advantage = "grpo"
    """How rewards become advantages; generators have no other agents to be compared with, so grpo (A1)."""


class CriticsSection(RoleSection):
    """How critics learn: from the question and all generators' responses."""

    advantage: Advantage = "counterfactual"
    """How rewards become advantages: counterfactual, or grpo for the ablation without it (A2, A3)."""
    start: Literal["blank", "generators"] = "blank"
    """What a critic's adapter begins as: blank, as in the paper, or a copy of a generator's (T5; ours)."""
    examples: Literal["all", "answered", "disputed"] = "all"
    """Problems that critics learn from: all of them, as in the paper, those that at least one generator got right
    (answered), or those that some got right and others wrong (disputed). The validation set stays whole (T5; ours)."""
