"""An exercise: a number, and what is done to it step by step. The wording is another matter (`wording.py`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Sign = Literal["+", "-", "*"]

LARGEST = 999
"""No number of an exercise, at the start or on the way, is larger, and none is negative."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done to the number at hand."""

    sign: Sign
    operand: int

    def applied(self, value: int) -> int:
        """Return the number after the step."""
        if self.sign == "+":
            return value + self.operand
        return value - self.operand if self.sign == "-" else value * self.operand


@dataclass(frozen=True, slots=True)
class Exercise:
    """A chain of steps from a starting number to the answer."""

    start: int
    steps: tuple[Step, ...]

    def values(self) -> Iterator[int]:
        """Yield the number after each step; the last one is the answer."""
        value = self.start
        for step in self.steps:
            value = step.applied(value)
            yield value

    @property
    def answer(self) -> int:
        """The number after the last step."""
        return list(self.values())[-1]
