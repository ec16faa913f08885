"""The built-in task: multi-step arithmetic as sums, instructions and short stories, seeded, exact and endless (D2).

The embedded model can do it, and does it badly enough to learn: a whole run of the method fits into minutes.
An exercise is drawn by its level, then put into words. A new story is one row of `STORIES`, and changes every set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mada.problems.problem import Problem
from mada.seeds import rng

SEED = 2026
LARGEST = 999
"""No number of an exercise, at the start or on the way, is larger, and none is negative."""
_MULTIPLIERS = (2, 3, 4, 5)
_LARGEST_FACTOR = 40  # what is multiplied stays this small, so that products are worth knowing by heart

Sign = Literal["+", "-", "*"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on the number at hand."""

    sign: Sign
    operand: int

    def applied(self, value: int) -> int:
        """Return the number after the step."""
        if self.sign == "+":
            return value + self.operand
        return value - self.operand if self.sign == "-" else value * self.operand


@dataclass(frozen=True, slots=True)
class Exercise:
    """A chain of steps from a starting number to the answer."""

    start: int
    steps: tuple[Step, ...]

    def values(self) -> Iterator[int]:
        """Yield the number after each step; the last one is the answer."""
        value = self.start
        for step in self.steps:
            value = step.applied(value)
            yield value

    @property
    def answer(self) -> int:
        """The number after the last step."""
        return list(self.values())[-1]


@dataclass(frozen=True, slots=True)
class Level:
    """How many steps an exercise has and how large its numbers are (both ends included)."""

    steps: tuple[int, int]
    numbers: tuple[int, int]
    multiplies: float
    """Share of exercises that begin with a multiplication."""


LEVELS: Mapping[str, Level] = {
    "short": Level(steps=(2, 3), numbers=(10, 99), multiplies=0.2),
    "easy": Level(steps=(2, 3), numbers=(2, 50), multiplies=0.0),
    "medium": Level(steps=(3, 4), numbers=(10, 99), multiplies=0.2),
    "hard": Level(steps=(4, 5), numbers=(10, 99), multiplies=0.5),
    "long": Level(steps=(6, 8), numbers=(10, 99), multiplies=0.2),  # never trained on
}


@dataclass(frozen=True, slots=True)
class AbacusSet:
    """A named set: the levels its problems are drawn from in turn, and how many are read unless more are asked for."""

    title: str
    levels: tuple[str, ...]
    rows: int = 200
    endless: bool = False


SETS: Mapping[str, AbacusSet] = {
    "abacus": AbacusSet("Abacus (endless)", ("easy", "medium", "hard"), rows=20_000, endless=True),
    "abacus-short": AbacusSet("Abacus short (endless)", ("short",), rows=20_000, endless=True),
    "abacus-easy": AbacusSet("Abacus easy", ("easy",)),
    "abacus-medium": AbacusSet("Abacus medium", ("medium",)),
    "abacus-hard": AbacusSet("Abacus hard", ("hard",)),
    "abacus-long": AbacusSet("Abacus long", ("long",)),
}


def abacus_problems(name: str, *, limit: int | None = None) -> Iterator[Problem]:
    """Yield a set's problems: a benchmark's first `limit`, or as many of the endless set as are asked for.

    Problem number n depends on its set and n alone, so a longer list begins like a shorter one.
    """
    chosen = SETS[name]
    wanted = chosen.rows if limit is None else limit if chosen.endless else min(limit, chosen.rows)
    for number in range(1, wanted + 1):
        random = rng(SEED, name, number)
        exercise = draw_exercise(LEVELS[chosen.levels[number % len(chosen.levels)]], random)
        yield Problem(
            question=in_words(exercise, random), answer=str(exercise.answer), id=f"{name}/{number}", source=name
        )


def draw_exercise(level: Level, random: np.random.Generator) -> Exercise:
    """Draw an exercise of a level."""
    steps_wanted = int(random.integers(level.steps[0], level.steps[1] + 1))
    low, high = level.numbers
    steps: list[Step] = []
    if random.random() < level.multiplies:
        start = int(random.integers(max(2, low), _LARGEST_FACTOR + 1))
        steps.append(Step("*", int(random.choice(_MULTIPLIERS))))
    else:
        start = int(random.integers(low, high + 1))
    value = steps[0].applied(start) if steps else start
    while len(steps) < steps_wanted:
        can_take, can_give = value >= low, value + low <= LARGEST
        sign: Sign = "+" if can_give and (not can_take or random.random() < 0.5) else "-"
        most = min(high, LARGEST - value if sign == "+" else value)
        steps.append(Step(sign, int(random.integers(low, most + 1))))
        value = steps[-1].applied(value)
    return Exercise(start, tuple(steps))


PEOPLE = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Grace", "Hugo", "Iris", "Jon", "Kim", "Leo", "Mia", "Noor")


@dataclass(frozen=True, slots=True)
class Story:
    """The sentences of a story, one of each kind drawn when needed: {n} is the number, {who} a person."""

    opening: tuple[str, ...]
    groups: tuple[str, ...]
    """The opening of a story that begins with a multiplication: {k} times {n}."""
    more: tuple[str, ...]
    fewer: tuple[str, ...]
    question: tuple[str, ...]


STORIES: tuple[Story, ...] = (
    Story(
        opening=("{who} has {n} coins.", "{who} owns {n} coins."),
        groups=("{who} has {k} bags with {n} coins each.",),
        more=("{who} finds {n} more.", "{who} earns {n} coins.", "A friend gives {who} {n} coins."),
        fewer=("{who} spends {n}.", "{who} loses {n} coins.", "{who} gives {n} to a friend."),
        question=("How many coins does {who} have now?", "How many coins are left?"),
    ),
    Story(
        opening=("A bus leaves with {n} people.", "There are {n} people on a train."),
        groups=("There are {k} rooms with {n} people each.",),
        more=("Then {n} people come in.", "{n} more people join."),
        fewer=("Then {n} people leave.", "{n} people go home."),
        question=("How many people are there now?", "How many people are left?"),
    ),
    Story(
        opening=("A library has {n} books.", "A shop has {n} books."),
        groups=("There are {k} shelves with {n} books each.",),
        more=("It buys {n} books.", "{n} new books arrive.", "Someone brings {n} books."),
        fewer=("It sells {n} books.", "{n} books are lent.", "Someone takes {n} books."),
        question=("How many books are there now?", "How many books are left?"),
    ),
    Story(
        opening=("{who} has {n} points in a game.", "{who} starts a game with {n} points."),
        groups=("{who} plays {k} games and wins {n} points in each.",),
        more=("{who} wins {n} points.", "{who} gets {n} more."),
        fewer=("{who} loses {n} points.", "A mistake costs {n} points."),
        question=("How many points does {who} have now?", "What is the score of {who}?"),
    ),
    Story(
        opening=("A tank holds {n} litres of water.", "There are {n} litres of water in a tank."),
        groups=("{who} fills a tank with {k} buckets of {n} litres each.",),
        more=("Rain adds {n} litres.", "{n} litres flow in."),
        fewer=("{n} litres flow out.", "{who} uses {n} litres."),
        question=("How many litres are in the tank now?", "How much water is left?"),
    ),
    Story(
        opening=("{who} bakes {n} cookies.", "There are {n} cookies in a jar."),
        groups=("{who} bakes {k} trays with {n} cookies each.",),
        more=("{who} bakes {n} more.", "Then {n} cookies are added."),
        fewer=("The children eat {n} cookies.", "{who} sells {n}.", "{n} cookies break."),
        question=("How many cookies are there now?", "How many cookies are left?"),
    ),
)

_INSTRUCTIONS = {
    "+": ("Add {n}.", "Then add {n}."),
    "-": ("Subtract {n}.", "Take away {n}."),
    "*": ("Multiply by {n}.",),
}


def in_words(exercise: Exercise, random: np.random.Generator) -> str:
    """State an exercise as ordinary text, in a form drawn at random."""
    form = (_sum, _instructions, _story)[int(random.choice(3, p=(0.25, 0.25, 0.5)))]
    return form(exercise, random)


def _sum(exercise: Exercise, random: np.random.Generator) -> str:
    """Write a bare sum; a multiplication comes first in every exercise, so no brackets are needed."""
    terms = "".join(f" {step.sign} {step.operand}" for step in exercise.steps)
    template = _one_of(("What is {sum}?", "Calculate {sum}.", "Find the value of {sum}."), random)
    return template.replace("{sum}", f"{exercise.start}{terms}")


def _instructions(exercise: Exercise, random: np.random.Generator) -> str:
    sentences = [_one_of(("Start with {n}.", "Think of the number {n}."), random, n=exercise.start)]
    sentences += [_one_of(_INSTRUCTIONS[step.sign], random, n=step.operand) for step in exercise.steps]
    return " ".join([*sentences, _one_of(("What is the result?", "Which number do you get?"), random)])


def _story(exercise: Exercise, random: np.random.Generator) -> str:
    story = STORIES[int(random.integers(len(STORIES)))]
    who = _one_of(PEOPLE, random)
    first, events = exercise.steps[0], exercise.steps
    opening = story.opening
    if first.sign == "*":
        opening = tuple(sentence.replace("{k}", str(first.operand)) for sentence in story.groups)
        events = exercise.steps[1:]
    sentences = [_one_of(opening, random, n=exercise.start)]
    sentences += [_one_of(story.more if step.sign == "+" else story.fewer, random, n=step.operand) for step in events]
    return " ".join([*sentences, _one_of(story.question, random)]).replace("{who}", who)


def _one_of(choices: tuple[str, ...], random: np.random.Generator, *, n: int = 0) -> str:
    return choices[int(random.integers(len(choices)))].replace("{n}", str(n))
