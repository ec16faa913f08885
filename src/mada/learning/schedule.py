"""The learning rate of each step, as a share of its highest value (T3).

Steps count from 0. The warm-up rises in a line from 0, so the first of its steps changes nothing; this is what
transformers' schedules do, and a test holds the two equal. After the warm-up the rate follows one of `SCHEDULES`,
functions of the way gone from the warm-up's end (0) to the last step's end (1).
"""

import math
from collections.abc import Callable, Mapping

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
}


def learning_rate_share(schedule: str, step: int, *, total_steps: int, warmup_ratio: float) -> float:
    """Return the share of the highest learning rate that a step uses."""
    warmup = math.ceil(total_steps * warmup_ratio)
    if step < warmup:
        return step / warmup
    progress = (step - warmup) / max(1, total_steps - warmup)
    return SCHEDULES[schedule](min(1.0, progress))
