"""What the page knows of every debate before it opens one: enough to filter, count, search and list them.

The index is column by column, with numbers for whatever repeats, so that 10,000 debates are read in an instant.
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from mada.evaluation.scores import Score, Transcript
from mada.report.page.outcomes import OUTCOMES, Outcome, is_agreed, outcome_of

LONGEST_QUESTION, LONGEST_ANSWER = 1_000, 200
"""The index holds the beginnings of what is longer; opening the debate shows all of it."""

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Entry:
    """A debate's line in the index; `place` gives its order: run, system, benchmark, problem, seed."""

    place: tuple[int, int, int, tuple[tuple[int, str], ...], int]
    run: str
    system: tuple[str, str]
    """Name and title."""
    benchmark: str
    seed: int
    problem: str
    question: str
    outcome: Outcome
    is_agreed: bool
    is_tie: bool
    agents: tuple[tuple[str, ...], ...]
    right: str
    """A digit per seat, round after round: 1 for a right answer."""
    answers: tuple[str | None, ...]
    verdict: str | None

    @classmethod
    def of(
        cls, transcript: Transcript, score: Score, *, run: tuple[int, str], system: tuple[int, str], benchmark: int
    ) -> Self:
        """Return the line of a debate; run and system come with their places, the benchmark as its place."""
        debate = transcript.debate
        return cls(
            place=(run[0], system[0], benchmark, natural(transcript.problem), transcript.seed),
            run=run[1],
            system=(transcript.system, system[1]),
            benchmark=transcript.benchmark,
            seed=transcript.seed,
            problem=transcript.problem,
            question=" ".join(debate.question.split())[:LONGEST_QUESTION],
            outcome=outcome_of(score),
            is_agreed=is_agreed(score),
            is_tie=score.tie,
            agents=tuple(tuple(turn.agent for turn in one.turns) for one in debate.rounds),
            right="".join("1" if right else "0" for verdicts in score.correct for right in verdicts),
            answers=tuple(_beginning(response.answer) for one in debate.rounds for response in one.responses),
            verdict=_beginning(debate.verdict.answer) if debate.verdict else None,
        )


class Numbers(Generic[Value]):
    """Numbers for values in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}

    def __call__(self, value: Value) -> int:
        """Return the value's number."""
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Value]:
        """The values by their numbers."""
        return list(self._numbers)


def index_of(entries: Sequence[Entry], *, chunk: int) -> dict[str, object]:
    """Return the index of debates in this order, of which every `chunk` have their bodies together."""
    runs, systems, benchmarks = Numbers[str](), Numbers[tuple[str, str]](), Numbers[str]()
    agents, answers = Numbers[str](), Numbers[str]()
    problems, seatings = Numbers[tuple[int, str, str]](), Numbers[tuple[tuple[int, ...], ...]]()

    def number_of(answer: str | None) -> int | None:
        return None if answer is None else answers(answer)

    columns = {
        "run": [runs(one.run) for one in entries],
        "system": [systems(one.system) for one in entries],
        "problem": [problems((benchmarks(one.benchmark), one.problem, one.question)) for one in entries],
        "seed": [one.seed for one in entries],
        "outcome": [OUTCOMES.index(one.outcome) for one in entries],
        "agreed": [int(one.is_agreed) for one in entries],
        "tie": [int(one.is_tie) for one in entries],
        "seating": [seatings(tuple(tuple(map(agents, seats)) for seats in one.agents)) for one in entries],
        "right": [one.right for one in entries],
        "answers": [[number_of(answer) for answer in one.answers] for one in entries],
        "verdict": [number_of(one.verdict) for one in entries],
    }
    return {
        "count": len(entries),
        "chunk": chunk,
        "outcomes": OUTCOMES,
        "runs": runs.values,
        "systems": systems.values,
        "benchmarks": benchmarks.values,
        "problems": problems.values,
        "agents": agents.values,
        "seatings": seatings.values,
        "answers": answers.values,
        "columns": columns,
    }


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers within names by their size: `easy/9` comes before `easy/10`."""
    # Odd places are digits; a number of any length compares by its length first, so none needs to become an int.
    parts = re.split("([0-9]+)", name)
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0") + part) if place % 2 else (0, part) for place, part in enumerate(parts)
    )


def _beginning(answer: str | None) -> str | None:
    return None if answer is None else answer[:LONGEST_ANSWER]
