"""Matched budgets: as many samples as another system's generated tokens allow, per question on average (B1).

A debate that is compared with a vote of as many calls is compared with a rival that may have had a fraction of its
tokens, because critics read and write more. So on every benchmark the rival's number of samples is the debate's mean
tokens per question divided by the mean tokens of one of its samples. That is no whole number: some questions get one
sample more than others, such that the mean is met.

Whoever speaks after the samples, a judge, takes its reply out of the budget. How long that is nobody knows before it
has spoken, so the first questions of a benchmark are its *pilot*: there its reply is taken to be as long as a sample.
From then on it is taken to be as long as in the pilot.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from mada.errors import EvaluationError
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.scores import Score

PILOT = 16
"""How many questions of a benchmark tell how long a judge's reply is."""


class TokenLedger:
    """Mean generated tokens by system and by agent on every benchmark, from the scores of systems of a fixed size."""

    def __init__(self) -> None:
        self._of_system: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._of_agent: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._of_pilot: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, score: Score) -> None:
        """Take a score into account."""
        _count(self._of_system[score.system, score.benchmark], [score.generated_tokens])
        for agent, tokens in zip(score.agents[0], score.tokens[0], strict=True):
            _count(self._of_agent[agent, score.benchmark], [tokens])

    def add_pilot(self, score: Score) -> None:
        """Take into account what was said after the samples, in a matched system's score of the pilot."""
        _count(self._of_pilot[score.system, score.benchmark], [sum(map(sum, score.tokens[1:]))])

    def samples(self, system: PlannedSystem, benchmark: str, *, in_pilot: bool) -> float:
        """Return how many generators' samples a matched system may take per question, on average."""
        target = system.matched_to
        allowed = _mean(self._of_system.get((target or "", benchmark)))
        each = [_mean(self._of_agent.get((agent, benchmark))) for agent in dict.fromkeys(system.generators)]
        known = [tokens for tokens in each if tokens is not None]
        if allowed is None or len(known) < len(each):
            raise EvaluationError(
                f"{system.name!r} is to use as many tokens as {target!r} on {benchmark}, and how many a sample of "
                f"{', '.join(dict.fromkeys(system.generators))} has is not known; "
                "evaluate a system of fixed size with these generators too, such as a single agent"
            )
        one = max(1.0, sum(known)) / len(known)
        later = None if in_pilot else _mean(self._of_pilot.get((system.name, benchmark)))
        if later is None:
            later = (system.rounds - 1) * len(system.critics) * one
        return max(1.0, (allowed - later) / one)


def share_out(mean: float, place: int) -> int:
    """Return the whole number for one place in an order, such that the numbers up to any place keep the mean."""
    # A hair more: 5.999… is six that went through a division.
    return max(1, math.floor((place + 1) * mean + 1e-9) - math.floor(place * mean + 1e-9))


def _count(entry: list[int], values: Iterable[int]) -> None:
    for value in values:
        entry[0] += value
        entry[1] += 1


def _mean(entry: list[int] | None) -> float | None:
    return entry[0] / entry[1] if entry else None
