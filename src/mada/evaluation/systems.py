"""Systems under test. Everything that is compared is a debate of some shape.

| system | shape |
|---|---|
| a single agent | one generator, one round |
| the mean of k agents | k generators, one round |
| a vote of k | the same, measured by its vote |
| a debate | generators and critics, two rounds or more; with trained seats it is MADA |

A turn's seed depends on seat and round, not on the system. So systems that seat the same model draw the same samples:
they differ by what they are, not by luck, and what they share needs to be sampled only once (`SharingEngine`).
"""

from dataclasses import dataclass
from typing import Literal

from mada.debate.protocol import Agent, check_seats, hold_debate
from mada.debate.transcript import Debate

Measure = Literal["mean", "vote"]
"""What counts as a system's accuracy: the mean over its last round's answers (the paper's, I2), or their vote."""


@dataclass(frozen=True, slots=True)
class System:
    """Something that answers a benchmark. `name` is for records, `title` for people."""

    name: str
    title: str
    generators: tuple[Agent, ...]
    critics: tuple[Agent, ...] = ()
    rounds: int = 1
    measure: Measure = "mean"

    def __post_init__(self) -> None:
        check_seats(self.generators, self.critics, rounds=self.rounds)

    @property
    def calls(self) -> int:
        """How often a model is asked per question."""
        return len(self.generators) + (self.rounds - 1) * len(self.critics)

    async def debate(self, question: str, *, seed: int) -> Debate:
        """Hold the debate about one question; the verdict is left to `vote`."""
        return await hold_debate(
            question, generators=self.generators, critics=self.critics, rounds=self.rounds, seed=seed
        )
