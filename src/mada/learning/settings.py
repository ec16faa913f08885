"""How agents learn: the recipe's training section as the learner and the trainer see it."""

from dataclasses import dataclass
from typing import Literal

from mada.learning.advantages import Deviation

Schedule = Literal["constant", "linear", "cosine"]
Truncated = Literal["learn", "skip", "wrong"]
"""What becomes of completions cut off; that they count as `wrong` is the scorer's doing, not the trainer's."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """GRPO's settings, with the paper's values. Each field means what it means in the recipe (docs/recipe.md)."""

    batch_size: int = 16
    group_size: int = 4
    learning_rate: float = 1e-6
    warmup_ratio: float = 0.1
    schedule: Schedule = "linear"
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    weight_decay: float = 0.0
    max_gradient_norm: float | None = 1.0
    kl_coefficient: float = 0.04
    clip_range: float = 0.2
    loss_aggregation: str = "sequence"
    updates_per_rollout: int = 1
    truncated: Truncated = "learn"
    temperature: float = 0.7
    top_p: float = 1.0
    max_new_tokens: int = 8192
    epochs: float = 1.0
    steps: int | None = None
    validate_every: int = 250
    checkpoint_every: int = 25
    checkpoint_minutes: float | None = 10.0
    keep_checkpoints: int = 2
    micro_batch_tokens: int | None = None
    gradient_checkpointing: bool = False
    canary_tolerance: float = 0.1

    @property
    def prompts_per_step(self) -> int:
        """Prompts that an agent sees in one step."""
        return self.batch_size // self.group_size


@dataclass(frozen=True, slots=True)
class Credit:
    """How rewards become advantages: an advantage by name, with what it needs beside the rewards."""

    advantage: str = "grpo"
    deviation: Deviation = "sample"
    accuracy_weight: float = 2.0
