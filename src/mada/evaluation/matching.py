"""Matched budgets: as many samples as another system's generated tokens allow, per question on average (B1).

A debate that is compared with a vote of as many calls is compared with a rival that may have had a fraction of its
tokens, because critics read and write more. So on every benchmark the rival's number of samples is the debate's mean
tokens per question divided by the mean tokens of one of its samples. That is no whole number: some questions get one
sample more than others, such that the mean is met.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from mada.errors import EvaluationError
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.scores import Score


class TokenLedger:
    """Mean generated tokens by system and by agent on every benchmark, from the scores of systems of a fixed size."""

    def __init__(self) -> None:
        self._of_system: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._of_agent: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, score: Score) -> None:
        """Take a score into account."""
        _count(self._of_system[score.system, score.benchmark], [score.generated_tokens])
        for agent, tokens in zip(score.agents[0], score.tokens[0], strict=True):
            _count(self._of_agent[agent, score.benchmark], [tokens])

    def samples(self, system: PlannedSystem, benchmark: str) -> float:
        """Return how many generators' samples a matched system may take per question, on average.

        Whoever speaks after the generators, a judge, is taken to write as much as one of them.
        """
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
        later = (system.rounds - 1) * len(system.critics)
        return max(1.0, len(known) * allowed / max(1.0, sum(known)) - later)


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
