"""The built-in task: every text states its exercise, every answer is right, and the sets never change."""

import hashlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.problems import Problem, load_problems
from mada.problems.abacus import (
    LARGEST,
    LEVELS,
    PEOPLE,
    SETS,
    Exercise,
    Step,
    abacus_problems,
    draw_exercise,
    in_words,
)

TRAINING = "abacus"
BENCHMARKS = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")

# The sentences of the three forms, written down apart from the code that makes them: what each does to the number.
SUM = re.compile(r"(?:What is|Calculate|Find the value of) (\d+(?: [-+*] \d+)+)[?.]")
OPENINGS = ("Start with #.", "Think of the number #.")
INSTRUCTIONS = {"Add #.": "+", "Then add #.": "+", "Subtract #.": "-", "Take away #.": "-", "Multiply by #.": "*"}
GROUPS = {
    *("WHO has # bags with # coins each.", "There are # rooms with # people each."),
    *("There are # shelves with # books each.", "WHO plays # games and wins # points in each."),
    *("WHO fills a tank with # buckets of # litres each.", "WHO bakes # trays with # cookies each."),
}
STARTS = {
    **dict.fromkeys(("WHO has # coins.", "WHO owns # coins."), 0),
    **dict.fromkeys(("A bus leaves with # people.", "There are # people on a train."), 1),
    **dict.fromkeys(("A library has # books.", "A shop has # books."), 2),
    **dict.fromkeys(("WHO has # points in a game.", "WHO starts a game with # points."), 3),
    **dict.fromkeys(("A tank holds # litres of water.", "There are # litres of water in a tank."), 4),
    **dict.fromkeys(("WHO bakes # cookies.", "There are # cookies in a jar."), 5),
}
MORE = {
    *("WHO finds # more.", "WHO earns # coins.", "A friend gives WHO # coins."),
    *("Then # people come in.", "# more people join."),
    *("It buys # books.", "# new books arrive.", "Someone brings # books."),
    *("WHO wins # points.", "WHO gets # more."),
    *("Rain adds # litres.", "# litres flow in."),
    *("WHO bakes # more.", "Then # cookies are added."),
}
FEWER = {
    *("WHO spends #.", "WHO loses # coins.", "WHO gives # to a friend."),
    *("Then # people leave.", "# people go home."),
    *("It sells # books.", "# books are lent.", "Someone takes # books."),
    *("WHO loses # points.", "A mistake costs # points."),
    *("# litres flow out.", "WHO uses # litres."),
    *("The children eat # cookies.", "WHO sells #.", "# cookies break."),
}
# "How many", "How much", "What is the …", "Which number …": the question does nothing to the number.
QUESTION = re.compile(r"(?:How many|How much|What is the|Which number) [^\d?]*\?")


def understood(text: str) -> Exercise:
    """Read an exercise back from its words, as a pupil would."""
    bare = SUM.fullmatch(text)
    if bare:
        start, *rest = bare[1].split()
        return Exercise(int(start), tuple(itertools.starmap(step, zip(rest[::2], rest[1::2], strict=True))))
    *sentences, question = re.findall(r"[^.?]+[.?]", text)
    assert QUESTION.fullmatch(question.strip()), question
    (opening, first), *events = [plain(sentence) for sentence in sentences]
    if opening in GROUPS:
        return Exercise(first[1], (step("*", first[0]), *(step(sign_of(one), *numbers) for one, numbers in events)))
    assert opening in OPENINGS or opening in STARTS, opening
    return Exercise(first[0], tuple(step(sign_of(one), *numbers) for one, numbers in events))


def plain(sentence: str) -> tuple[str, list[int]]:
    numbers = [int(number) for number in re.findall(r"\d+", sentence)]
    nameless = re.sub(rf"\b(?:{'|'.join(PEOPLE)})\b", "WHO", sentence.strip())
    return re.sub(r"\d+", "#", nameless), numbers


def sign_of(sentence: str) -> str:
    if sentence in INSTRUCTIONS:
        return INSTRUCTIONS[sentence]
    assert (sentence in MORE) != (sentence in FEWER), sentence
    return "+" if sentence in MORE else "-"


def step(sign: str, operand: str | int) -> Step:
    assert sign in ("+", "-", "*")
    return Step(sign, int(operand))


def worked_out(exercise: Exercise) -> Iterator[int]:
    """Do the sum here, without the code under test; a product, if any, comes first, so the order is the written one."""
    value = exercise.start
    assert all(one.sign != "*" for one in exercise.steps[1:])
    for one in exercise.steps:
        value = {"+": value + one.operand, "-": value - one.operand, "*": value * one.operand}[one.sign]
        yield value


@pytest.fixture(scope="module")
def training() -> list[Problem]:
    return list(abacus_problems(TRAINING))


@pytest.fixture(scope="module")
def benchmarks() -> dict[str, list[Problem]]:
    return {name: list(abacus_problems(name)) for name in BENCHMARKS}


@given(st.integers(0, 2**63 - 1), st.sampled_from(sorted(LEVELS)))
def test_a_text_states_its_exercise_and_no_number_leaves_the_range(seed: int, name: str) -> None:
    random, level = np.random.default_rng(seed), LEVELS[name]

    exercise = draw_exercise(level, random)

    assert level.steps[0] <= len(exercise.steps) <= level.steps[1]
    assert list(exercise.values()) == list(worked_out(exercise))
    assert all(0 <= value <= LARGEST == 999 for value in (exercise.start, *exercise.values()))
    assert understood(in_words(exercise, random)) == exercise


def test_every_training_answer_is_right_and_no_chain_is_as_long_as_the_long_ones(
    training: list[Problem], benchmarks: dict[str, list[Problem]]
) -> None:
    exercises = [understood(problem.question) for problem in training]

    assert [problem.answer for problem in training] == [str(list(worked_out(one))[-1]) for one in exercises]
    assert {len(one.steps) for one in exercises} == {2, 3, 4, 5}
    assert min(len(understood(problem.question).steps) for problem in benchmarks["abacus-long"]) == 6


FIXED = {
    "abacus": (
        "Think of the number 21. Multiply by 2. Then add 15. Subtract 34. Subtract 15. Which number do you get?",
        *("8", "59c77bc2"),
    ),
    "abacus-short": ("Start with 14. Add 11. Take away 12. What is the result?", "13", "f57bd0f5"),
    "abacus-easy": ("Calculate 29 - 24 + 9 - 9.", "5", "1c13bc7b"),
    "abacus-medium": (
        "Start with 85. Then add 21. Subtract 28. Add 88. Then add 81. Which number do you get?",
        *("247", "2141be62"),
    ),
    "abacus-hard": (
        "A shop has 58 books. Someone brings 66 books. Someone brings 36 books. It sells 72 books. "
        "69 new books arrive. 77 books are lent. How many books are there now?",
        *("80", "ee6aafa4"),
    ),
    "abacus-long": (
        "Start with 62. Then add 74. Add 79. Subtract 22. Take away 95. Subtract 84. Subtract 10. Add 21. "
        "Which number do you get?",
        *("25", "6cdf441c"),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_the_sets_are_fixed(name: str) -> None:
    question, answer, digest = FIXED[name]
    problems = list(abacus_problems(name, limit=200))
    assert problems[0] == Problem(question=question, answer=answer, id=f"{name}/1", source=name)
    assert hashlib.blake2b("\n".join(one.question for one in problems).encode(), digest_size=4).hexdigest() == digest


def test_ids_are_unique_and_benchmarks_hold_no_problem_twice(
    training: list[Problem], benchmarks: dict[str, list[Problem]]
) -> None:
    everything = [*training, *itertools.chain.from_iterable(benchmarks.values())]

    assert len({problem.id for problem in everything}) == len(everything) == 20_800
    assert len({problem.question for each in benchmarks.values() for problem in each}) == 800


def test_the_endless_set_gives_as_many_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [problem.id for problem in itertools.islice(abacus_problems(TRAINING, limit=10**12), 2)] == [
        "abacus/1",
        "abacus/2",
    ]
    monkeypatch.setitem(SETS, TRAINING, replace(SETS[TRAINING], rows=30))
    unlimited, more = load_problems("abacus"), load_problems("abacus", limit=50)

    assert [problem.id for problem in more] == [f"abacus/{number}" for number in range(1, 51)]
    assert unlimited == more[:30] == list(abacus_problems(TRAINING, limit=30))
