"""Scores for tests of evaluation and reports. Import by name."""

from collections.abc import Sequence
from typing import Any

from mada.evaluation.scores import Score


def score_of(
    system: str,
    rounds: Sequence[Sequence[object]],
    *,
    benchmark: str = "easy",
    seed: int = 0,
    problem: str = "p",
    agents: Sequence[str] = ("g", "c"),
    tokens: int = 50,
    prompts: int = 5,
    **changes: Any,
) -> Score:
    """A score of these verdicts, round after round; right answers are 4, wrong ones 5.

    A vote is right where more than half of a round is. `agents` names who has all seats of a round.
    """
    votes = [2 * sum(map(bool, verdicts)) > len(verdicts) for verdicts in rounds]

    def seats(value: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple((value,) * len(verdicts) for verdicts in rounds)

    fields = {
        "agents": tuple((agents[min(number, 1)],) * len(verdicts) for number, verdicts in enumerate(rounds)),
        "answers": tuple(tuple("4" if right else "5" for right in verdicts) for verdicts in rounds),
        "groups": tuple(tuple(0 if right else 1 for right in verdicts) for verdicts in rounds),
        "correct": tuple(tuple(map(bool, verdicts)) for verdicts in rounds),
        "verdict_correct": votes[-1],
        "first_vote_correct": votes[0],
        "tie": False,
        "tokens": seats(tokens),
        "prompts": seats(prompts),
        "truncated": 0,
        "shortened": 0,
    }
    return Score(system, benchmark, seed, problem, **{**fields, **changes})
