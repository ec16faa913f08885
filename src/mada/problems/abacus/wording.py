"""Exercises in words: a bare sum, instructions, or one of several short stories.

A new story is one row of `STORIES`. In its sentences {n} is the number and {who} the person it is about.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mada.problems.abacus.exercise import Exercise, Step

PEOPLE = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Grace", "Hugo", "Iris", "Jon", "Kim", "Leo", "Mia", "Noor")


@dataclass(frozen=True, slots=True)
class Story:
    """The sentences of a story; of each kind, one is drawn whenever it is needed."""

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


def worded(exercise: Exercise, random: np.random.Generator) -> str:
    """State an exercise as ordinary text, in a form drawn at random."""
    return _FORMS[int(random.choice(len(_FORMS), p=_SHARES))](exercise, random)


def _sum(exercise: Exercise, random: np.random.Generator) -> str:
    """Write a bare sum; a multiplication comes first in every exercise, so no brackets are needed."""
    terms = "".join(f" {step.sign} {step.operand}" for step in exercise.steps)
    return _one_of(("What is {sum}?", "Calculate {sum}.", "Find the value of {sum}."), random).replace(
        "{sum}", f"{exercise.start}{terms}"
    )


def _instructions(exercise: Exercise, random: np.random.Generator) -> str:
    opening = _one_of(("Start with {n}.", "Think of the number {n}."), random)
    sentences = [opening.replace("{n}", str(exercise.start))]
    sentences += [
        _one_of(_INSTRUCTIONS[step.sign], random).replace("{n}", str(step.operand)) for step in exercise.steps
    ]
    return " ".join([*sentences, _one_of(("What is the result?", "Which number do you get?"), random)])


def _story(exercise: Exercise, random: np.random.Generator) -> str:
    story = STORIES[int(random.integers(len(STORIES)))]
    who = _one_of(PEOPLE, random)
    first = exercise.steps[0]
    if first.sign == "*":
        opening = _one_of(story.groups, random).replace("{k}", str(first.operand))
        events = exercise.steps[1:]
    else:
        opening, events = _one_of(story.opening, random), exercise.steps
    sentences = [opening.replace("{n}", str(exercise.start)), *(_event(story, step, random) for step in events)]
    return " ".join([*sentences, _one_of(story.question, random)]).replace("{who}", who)


def _event(story: Story, step: Step, random: np.random.Generator) -> str:
    return _one_of(story.more if step.sign == "+" else story.fewer, random).replace("{n}", str(step.operand))


def _one_of(choices: tuple[str, ...], random: np.random.Generator) -> str:
    return choices[int(random.integers(len(choices)))]


_Form = Callable[[Exercise, np.random.Generator], str]
_FORMS: tuple[_Form, ...] = (_sum, _instructions, _story)
_SHARES = (0.25, 0.25, 0.5)
