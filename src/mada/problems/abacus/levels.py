"""Levels of difficulty: how many steps an exercise has, how large its numbers are, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mada.problems.abacus.exercise import LARGEST, Exercise, Sign, Step

_MULTIPLIERS = (2, 3, 4, 5)
_LARGEST_FACTOR = 40  # what is multiplied stays this small, so that products are worth knowing by heart


@dataclass(frozen=True, slots=True)
class Level:
    """What an exercise of a level may look like; ranges include both ends."""

    steps: tuple[int, int]
    numbers: tuple[int, int]
    multiplies: float
    """Share of exercises that begin with a multiplication."""


LEVELS: Mapping[str, Level] = {
    "short": Level(steps=(2, 3), numbers=(10, 99), multiplies=0.2),
    "easy": Level(steps=(2, 3), numbers=(2, 50), multiplies=0.0),
    "medium": Level(steps=(3, 4), numbers=(10, 99), multiplies=0.2),
    "hard": Level(steps=(4, 5), numbers=(10, 99), multiplies=0.5),
    "long": Level(steps=(6, 8), numbers=(10, 99), multiplies=0.2),
}
"""Short, easy, medium and hard are what training problems are made of; long chains are kept out of it."""


def draw_exercise(level: Level, random: np.random.Generator) -> Exercise:
    """Draw an exercise of a level."""
    count = int(random.integers(level.steps[0], level.steps[1] + 1))
    low, high = level.numbers
    steps: list[Step] = []
    if random.random() < level.multiplies:
        start = int(random.integers(max(2, low), _LARGEST_FACTOR + 1))
        steps.append(Step("*", int(random.choice(_MULTIPLIERS))))
    else:
        start = int(random.integers(low, high + 1))
    value = steps[0].applied(start) if steps else start
    while len(steps) < count:
        steps.append(_draw_step(value, level, random))
        value = steps[-1].applied(value)
    return Exercise(start, tuple(steps))


def _draw_step(value: int, level: Level, random: np.random.Generator) -> Step:
    low, high = level.numbers
    can_take, can_give = value >= low, value + low <= LARGEST
    sign: Sign = "+" if can_give and (not can_take or random.random() < 0.5) else "-"
    most = min(high, LARGEST - value if sign == "+" else value)
    return Step(sign, int(random.integers(low, most + 1)))
