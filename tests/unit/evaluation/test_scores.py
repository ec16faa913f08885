"""Scores of debates, computed by hand."""

import asyncio
from dataclasses import replace

import pytest

from mada.debate.transcript import Debate, Response, Turn
from mada.debate.verdict import Rule
from mada.evaluation.scores import Score, score_debate
from mada.problems import Problem

PROBLEM = Problem("What is one half?", r"\frac{1}{2}", "p-1", "test")


def held(*rounds):
    """A debate in which every agent gives the next of these answers; round 2 shortens one response of those it saw."""
    debate = Debate(PROBLEM.question)
    for number, answers in enumerate(rounds, start=1):
        turns = [
            Turn(
                f"agent-{seat}",
                "prompt",
                10 * number,
                Response("text", answer, 5, stop="length" if answer is None else "end"),
                shortened_responses=number - 1,
            )
            for seat, answer in enumerate(answers, start=1)
        ]
        debate = debate.with_round("generator" if number == 1 else "critic", turns)
    return debate


def scored(debate, grader, rule: Rule = "vote"):
    """Return the score and the debate with its verdict."""
    where = {"system": "s", "benchmark": "b", "seed": 2, "problem": PROBLEM}
    return asyncio.run(score_debate(debate, **where, grader=grader, rule=rule))


def test_a_corrected_debate_by_hand(grader):
    debate = held(["3", "3", "0.5"], ["1/2", None, "0.5"])
    score, with_verdict = scored(debate, grader)
    assert score == Score(
        system="s",
        benchmark="b",
        seed=2,
        problem="p-1",
        agents=(("agent-1", "agent-2", "agent-3"),) * 2,
        answers=(("3", "3", "0.5"), ("1/2", None, "0.5")),
        groups=((0, 0, 1), (1, None, 1)),
        correct=((False, False, True), (True, False, True)),
        verdict_correct=True,
        first_vote_correct=False,
        tie=False,
        tokens=((5, 5, 5), (5, 5, 5)),
        prompts=((10, 10, 10), (20, 20, 20)),
        truncated=1,
        shortened=3,
        unfit=0,
    )
    assert (score.rounds, score.calls, score.unanswered) == (2, 6, 1)
    assert (score.generated_tokens, score.prompt_tokens) == (30, 90)
    assert (score.accuracy_of_round(0), score.accuracy) == (1 / 3, 2 / 3)
    assert with_verdict.rounds == debate.rounds
    assert with_verdict.verdict is not None
    assert with_verdict.verdict.answer in {"1/2", "0.5"}


@pytest.mark.parametrize(
    ("rounds", "accuracy", "first", "last", "tie"),
    [
        ([["0.5"]], 1, True, True, False),
        ([[None]], 0, False, False, False),
        ([["3", "0.5"]], 0.5, False, False, True),  # the shorter spelling wins a tie
        ([["0.5", "0.5"], ["3", "3"]], 0, True, False, False),
        ([["0.5", "0.5", "3"], ["3", "1/2"]], 0.5, True, True, True),  # the round before settles a tie
        ([["3"], ["4"], ["0.5"]], 1, False, True, False),
    ],
)
def test_votes_and_accuracies(rounds, accuracy, first, last, tie, grader):
    score, _ = scored(held(*rounds), grader)
    assert (score.accuracy, score.first_vote_correct, score.verdict_correct, score.tie) == (accuracy, first, last, tie)
    assert score.rounds == len(rounds)


def test_replies_that_did_not_fit_are_counted(grader):
    debate = held(["0.5", None])
    turns = [debate.last.turns[0], replace(debate.last.turns[1], prompt_tokens=0)]
    score, _ = scored(Debate(PROBLEM.question).with_round("generator", turns), grader)
    assert (score.unfit, score.truncated, score.prompts) == (1, 1, ((10, 0),))
