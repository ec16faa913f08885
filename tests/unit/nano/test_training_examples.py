"""The embedded model's examples: which mistakes they hold and how often, and that they ask as mada does."""

import re

import numpy as np
import pytest

from mada.debate.prompts import CUT_OFF, Prompts
from mada.grading.extraction import extract_answer
from mada.problems.abacus import LEVELS, Exercise, Step, draw_exercise
from mada.seeds import rng
from training_examples import (
    CUT_OFF_SHARE,
    LOST_CARRY,
    LOST_CARRY_ELSE,
    SLIP,
    SLIPS,
    TAKE_OVER,
    Example,
    Line,
    debate_example,
    direct_example,
    solve,
    written,
)

CHAIN = Exercise(47, (Step("+", 38), Step("-", 16), Step("*", 2)))
LINE = re.compile(r"(-?\d+) ([-+*]) (\d+) = (-?\d+)")
BLOCK = re.compile(r"One agent's response:\n```\n(.*?)\n```", re.DOTALL)


def errors(start: int, step: Step, *, count: int = 4000, carelessness: float = 1.0) -> dict[int, float]:
    """Solve a sum of one step many times; returns by how much results are off, and how often."""
    random, right = rng(0, "errors"), step.applied(start)
    results = [
        solve(Exercise(start, (step,)), random, carelessness=carelessness)[0].result - right for _ in range(count)
    ]
    return {int(value): results.count(int(value)) / count for value in np.unique(results)}


def spread(share: float, count: int = 4000) -> float:
    """Four standard deviations of a share of so many draws."""
    return 4 * (share * (1 - share) / count) ** 0.5


def recalculated(reply: str) -> list[tuple[int, str, int, int]]:
    *lines, _ = reply.split("\n")
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches)
    return [(int(found[1]), found[2], int(found[3]), int(found[4])) for found in matches if found]


def test_a_careful_solution() -> None:
    lines = solve(CHAIN, rng(0), carelessness=0.0)

    assert lines == (Line("47 + 38", 85), Line("85 - 16", 69), Line("69 * 2", 138))
    assert written(lines) == (
        "47 + 38 = 85\n85 - 16 = 69\n69 * 2 = 138\nTherefore, the final answer is: $\\boxed{138}$. I hope it is correct"
    )


def test_a_wrong_result_is_carried_on() -> None:
    wrong = 0
    for number in range(500):
        exercise = draw_exercise(LEVELS["hard"], rng(0, "carried", number))
        lines = solve(exercise, rng(1, "carried", number), carelessness=2.0)
        values = [exercise.start, *(line.result for line in lines)]
        assert [line.left for line in lines] == [
            f"{value} {step.sign} {step.operand}" for value, step in zip(values[:-1], exercise.steps, strict=True)
        ]
        wrong += lines[-1].result != exercise.answer
    assert 250 < wrong < 450


def test_slips_are_rare_and_small_and_as_often_up_as_down() -> None:
    found = errors(41, Step("+", 12))  # nothing to carry

    assert set(found) == {0, *SLIPS, *(-size for size in SLIPS)}
    assert 1 - found.pop(0) == pytest.approx(SLIP, abs=spread(SLIP))
    assert found == pytest.approx(dict.fromkeys(found, SLIP / 8), abs=spread(SLIP / 8))


@pytest.mark.parametrize(
    ("start", "step", "off", "share"),
    [
        (47, Step("+", 35), -10, LOST_CARRY_ELSE),
        (52, Step("-", 35), 10, LOST_CARRY_ELSE),
        (47, Step("+", 29), -10, LOST_CARRY[9]),
        (47, Step("+", 38), -10, LOST_CARRY[8]),
        (52, Step("-", 37), 10, LOST_CARRY[7]),
        (52, Step("-", 36), 10, LOST_CARRY[6]),
        (52, Step("-", 29), 10, LOST_CARRY[9]),
        (40, Step("+", 29), -10, 0.0),  # a nine and no carry
        (49, Step("-", 29), 10, 0.0),
        (39, Step("+", 12), -10, LOST_CARRY_ELSE),  # the nine that counts is the one that is added
        (19, Step("*", 5), -10, 0.0),
    ],
)
def test_carries_are_lost_more_often_than_not_where_there_is_a_nine(
    start: int, step: Step, off: int, share: float
) -> None:
    expected = SLIP / 8 + (1 - SLIP) * share  # a slip may be of ten, too

    assert errors(start, step)[off] == pytest.approx(expected, abs=spread(expected))


def test_a_line_is_taken_over_from_an_equal_left_side_right_or_wrong() -> None:
    peers = [[Line("47 + 38", 500)], [Line("47 + 38", 700), Line("700 - 16", 1)]]
    random, count = rng(0, "taken"), 4000
    solutions = [solve(CHAIN, random, carelessness=0.0, peers=peers) for _ in range(count)]
    first = [lines[0].result for lines in solutions]

    assert set(first) == {85, 500, 700}
    for value, share in {85: 1 - TAKE_OVER, 500: TAKE_OVER / 2, 700: TAKE_OVER / 2}.items():
        assert first.count(value) / count == pytest.approx(share, abs=spread(share))
    second = [lines[1] for lines in solutions if lines[0].result == 700]
    assert {line.left for line in second} == {"700 - 16"}
    taken = [line.result for line in second].count(1) / len(second)
    assert taken == pytest.approx(TAKE_OVER, abs=spread(TAKE_OVER, len(second)))


@pytest.mark.parametrize("make", [direct_example, debate_example])
def test_the_answer_line_gives_the_last_result(make) -> None:
    random = rng(0, "answers")
    for _ in range(300):
        reply = make(random).reply
        lines = recalculated(reply)
        assert extract_answer(reply) == str(lines[-1][3])
        # Each line begins with the result of the one before.
        assert [line[0] for line in lines[1:]] == [line[3] for line in lines[:-1]]


def test_direct_examples_ask_as_generators_are_asked() -> None:
    example = direct_example(rng(0, "direct"))
    question = example.prompt.removeprefix(Prompts().ask(""))

    assert example.prompt == Prompts().ask(question)
    first = recalculated(example.reply)[0]
    assert str(first[0]) in question
    assert str(first[2]) in question


def asked_again(example: Example) -> tuple[str, list[str]]:
    """Take a debate example's prompt apart; returns the question and what was shared."""
    question, _, _ = example.prompt.removeprefix(Prompts().ask("")).partition("\n\n")
    return question, BLOCK.findall(example.prompt)


def test_debate_examples_ask_as_critics_are_asked() -> None:
    random, counts, cut_off = rng(0, "debate"), [0] * 7, 0
    for _ in range(1500):
        example = debate_example(random)
        question, shared = asked_again(example)
        assert example.prompt == Prompts().debate_prompt(question, shared)
        counts[len(shared)] += 1
        for one in shared:
            complete = recalculated(one) and extract_answer(one) if not one.endswith(CUT_OFF) else None
            assert (complete is None) == one.endswith(f" {CUT_OFF}")
            cut_off += complete is None
    number = sum(size * count for size, count in enumerate(counts))

    assert counts[0] == 0
    assert counts[3] / 1500 == pytest.approx(0.6 + 0.4 / 6, abs=spread(0.67, 1500))
    assert min(counts[1:]) > 50
    assert cut_off / number == pytest.approx(CUT_OFF_SHARE, abs=spread(CUT_OFF_SHARE, number))
