"""What the embedded model is taught: worked solutions with deliberate mistakes, asked directly and in debates.

A solution works through an exercise line by line, and a wrong result is carried on. There are two kinds of mistakes:

slips           any result may be off by a little; they are rare and independent, so a vote of several samples
                corrects most of them
lost carries    a carry or borrow is forgotten, the likelier the larger the last digit that is added or taken away, and
                with a 9 more often than not: a habit that all samples share, which a vote or a lower temperature
                hardly corrects, but training does

So the model is right about two times in three. In a debate a line is, with probability TAKE_OVER, taken over from an
agent that has the same left side, right or wrong, and else worked out: the model knows how to look at others, and not
yet when to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mada.debate.prompts import Prompts
from mada.debate.transcript import Response
from mada.problems.abacus import LEVELS, Exercise, Level, Step, draw_exercise, in_words

SLIP = 0.03
SLIPS = (1, 2, 10, 20)
LOST_CARRY = {9: 0.6, 8: 0.45, 7: 0.3, 6: 0.2}
LOST_CARRY_ELSE = 0.03
TAKE_OVER = 0.5
MOST_CARELESS = 2.0
CUT_OFF_SHARE = 0.03
EXAMPLE_LEVELS = {**LEVELS, "one step": Level(steps=(1, 1), numbers=(2, 99), multiplies=0.1)}
LEVEL_SHARES = {"one step": 0.05, "easy": 0.3, "medium": 0.28, "hard": 0.27, "long": 0.1}

FINAL = "Therefore, the final answer is: $\\boxed{"
FINAL_END = "}$. I hope it is correct"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a solution, such as `47 + 38 = 85`."""

    left: str
    result: int


@dataclass(frozen=True, slots=True)
class Example:
    """What the model is asked, and a reply to imitate."""

    prompt: str
    reply: str


def solve(
    exercise: Exercise,
    random: np.random.Generator,
    *,
    carelessness: float = 1.0,
    peers: Sequence[Sequence[Line]] = (),
) -> tuple[Line, ...]:
    """Work through an exercise, with mistakes now and then; with peers, take over some of their lines."""
    value = exercise.start
    lines: list[Line] = []
    for step in exercise.steps:
        left = f"{value} {step.sign} {step.operand}"
        offered = [line.result for peer in peers for line in peer if line.left == left]
        if offered and random.random() < TAKE_OVER:
            value = int(random.choice(offered))
        else:
            value = step.applied(value) + _mistake(value, step, random, carelessness=carelessness)
        lines.append(Line(left, value))
    return tuple(lines)


def _mistake(value: int, step: Step, random: np.random.Generator, *, carelessness: float) -> int:
    """Return by how much a result is off; mostly 0."""
    if random.random() < SLIP * carelessness:
        return int(random.choice(SLIPS)) * (1 if random.random() < 0.5 else -1)
    lost = LOST_CARRY.get(step.operand % 10, LOST_CARRY_ELSE)
    if _carries(value, step) and random.random() < lost * carelessness:
        return -10 if step.sign == "+" else 10
    return 0


def _carries(value: int, step: Step) -> bool:
    if step.sign == "+":
        return value % 10 + step.operand % 10 >= 10
    return step.sign == "-" and value % 10 < step.operand % 10


def written(lines: Sequence[Line]) -> str:
    """Write a solution as the paper's prompt asks: the steps, then the answer in its box."""
    steps = "".join(f"{line.left} = {line.result}\n" for line in lines)
    return f"{steps}{FINAL}{lines[-1].result}{FINAL_END}"


def direct_example(random: np.random.Generator) -> Example:
    """Return a question and a solution of it."""
    exercise = _exercise(random)
    return Example(Prompts().ask(in_words(exercise, random)), written(solve(exercise, random)))


def debate_example(random: np.random.Generator) -> Example:
    """Return a question with other agents' solutions, good and bad, and a solution that looks at them."""
    exercise = _exercise(random)
    question, prompts = in_words(exercise, random), Prompts()
    count = 3 if random.random() < 0.6 else int(random.integers(1, 7))
    peers = [solve(exercise, random, carelessness=MOST_CARELESS * random.random()) for _ in range(count)]
    responses = [_response(peer, random) for peer in peers]
    # Of a response that was cut off, only the lines that are there can be taken over.
    seen = [
        [line for line in peer if f"{line.left} = {line.result}\n" in response.text]
        for peer, response in zip(peers, responses, strict=True)
    ]
    reply = solve(exercise, random, peers=seen)
    shared = [prompts.shared(response) for response in responses]
    return Example(prompts.debate_prompt(question, shared), written(reply))


def _exercise(random: np.random.Generator) -> Exercise:
    level = str(random.choice(list(LEVEL_SHARES), p=list(LEVEL_SHARES.values())))
    return draw_exercise(EXAMPLE_LEVELS[level], random)


def _response(lines: Sequence[Line], random: np.random.Generator) -> Response:
    text = written(lines)
    if random.random() < CUT_OFF_SHARE:
        return Response(text[: int(random.integers(1, len(text)))], None, 0, stop="length")
    return Response(text, str(lines[-1].result), 0)
