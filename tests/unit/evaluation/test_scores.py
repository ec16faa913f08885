"""Scores of debates, computed by hand."""

import asyncio

import pytest
from pydantic import TypeAdapter

from mada.debate.response import Response
from mada.debate.transcript import Debate, Turn
from mada.evaluation.scores import Score, Transcript, score_debate
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


def scored(debate, grader):
    return asyncio.run(score_debate(debate, system="s", benchmark="b", seed=2, problem=PROBLEM, grader=grader))


def test_a_corrected_debate_by_hand(grader):
    assert scored(held(["3", "3", "0.5"], ["1/2", None, "0.5"]), grader) == Score(
        system="s",
        benchmark="b",
        seed=2,
        problem="p-1",
        accuracy=2 / 3,
        vote_correct=True,
        first_vote_correct=False,
        tie=False,
        round_accuracies=(1 / 3, 2 / 3),
        answers=(("3", "3", "0.5"), ("1/2", None, "0.5")),
        correct=((False, False, True), (True, False, True)),
        generated_tokens=30,
        prompt_tokens=90,
        calls=6,
        truncated=1,
        unanswered=1,
        shortened=3,
    )


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
    score = scored(held(*rounds), grader)
    assert (score.accuracy, score.first_vote_correct, score.vote_correct, score.tie) == (accuracy, first, last, tie)
    assert score.rounds == len(rounds)
    assert score.round_accuracies[-1] == accuracy


def test_records_read_back_as_they_were(grader):
    debate = held(["3", None], ["0.5", "4"])
    score = scored(debate, grader)
    scores = TypeAdapter(Score)
    assert scores.validate_json(scores.dump_json(score)) == score
    transcript = Transcript("s", "b", 2, "p-1", PROBLEM.answer, debate)
    transcripts = TypeAdapter(Transcript)
    assert transcripts.validate_json(transcripts.dump_json(transcript)) == transcript
