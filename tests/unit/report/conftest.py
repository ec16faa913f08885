"""A tiny evaluation whose numbers are known: two seeds, two benchmarks, three systems."""

import pytest

from mada.debate.response import Response
from mada.debate.transcript import Debate, Turn
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score, Transcript

HOSTILE = "```\n</details><script>alert(1)</script>\n# Results\n| a | b |\x1b[2J"
PLACES = [(benchmark, seed, problem) for seed in (0, 1) for benchmark in ("arithmetic", "algebra") for problem in "pq"]


@pytest.fixture
def plan():
    return EvaluationPlan(
        systems=(
            PlannedSystem(name="single", title="one agent", calls=1),
            PlannedSystem(name="vote", title="vote | of 4", measure="vote", calls=4),
            PlannedSystem(name="debate", title="debate", calls=4),
        ),
        reference="single",
        benchmarks=("arithmetic", "algebra"),
    )


def score(system, place, *rounds):
    """A score of rounds of verdicts; a vote is right when more than half of a round is."""
    benchmark, seed, problem = place
    accuracies = tuple(sum(verdicts) / len(verdicts) for verdicts in rounds)
    calls = sum(map(len, rounds))
    return Score(
        system=system,
        benchmark=benchmark,
        seed=seed,
        problem=problem,
        accuracy=accuracies[-1],
        vote_correct=accuracies[-1] > 0.5,
        first_vote_correct=accuracies[0] > 0.5,
        tie=False,
        round_accuracies=accuracies,
        answers=tuple(tuple("4" if right else "5" for right in verdicts) for verdicts in rounds),
        correct=tuple(tuple(bool(right) for right in verdicts) for verdicts in rounds),
        generated_tokens=300 * calls,
        prompt_tokens=50,
        calls=calls,
        truncated=0,
        unanswered=0,
        shortened=0,
    )


@pytest.fixture
def scores():
    single = [[1], [0], [0], [0], [1], [1], [0], [0]]
    vote = [[1, 1, 1, 0], [1, 1, 0, 0]] * 4
    debate = [
        ([1, 1], [1, 1]),  # right throughout
        ([0, 1], [1, 1]),  # corrected
        ([1, 1], [0, 1]),  # damaged
        ([0, 0], [0, 0]),  # failed
        *[([1, 1], [1, 1])] * 3,
        ([0, 0], [1, 1]),  # corrected, with another seed
    ]
    return [
        *(score("single", place, verdicts) for place, verdicts in zip(PLACES, single, strict=True)),
        *(score("vote", place, verdicts) for place, verdicts in zip(PLACES, vote, strict=True)),
        *(score("debate", place, *rounds) for place, rounds in zip(PLACES, debate, strict=True)),
    ]


@pytest.fixture
def transcripts(scores):
    """The debates behind the scores, in which everybody says something hostile."""
    return [transcript(one) for one in scores]


def transcript(one):
    debate = Debate(f"What is 2 + 2? {HOSTILE}")
    for number, answers in enumerate(one.answers, start=1):
        turns = [
            Turn(f"agent-{seat}", "prompt", 5, Response(f"{HOSTILE} \\boxed{{{answer}}}", answer, 300))
            for seat, answer in enumerate(answers, start=1)
        ]
        debate = debate.with_round("generator" if number == 1 else "critic", turns)
    return Transcript(one.system, one.benchmark, one.seed, one.problem, "4", debate)
