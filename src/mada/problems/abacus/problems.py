"""The task's problem sets: an endless stream for training, and four benchmarks, all fixed by their seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from mada.problems.abacus.levels import LEVELS, draw_exercise
from mada.problems.abacus.wording import worded
from mada.problems.problem import Problem
from mada.seeds import rng

SEED = 2026


@dataclass(frozen=True, slots=True)
class AbacusSet:
    """A named set: the levels its problems are drawn from in turn, and how many are read unless more are asked for."""

    title: str
    levels: tuple[str, ...]
    rows: int
    endless: bool = False


SETS: Mapping[str, AbacusSet] = {
    "abacus": AbacusSet("Abacus (endless)", ("easy", "medium", "hard"), rows=20_000, endless=True),
    "abacus-short": AbacusSet("Abacus short (endless)", ("short",), rows=20_000, endless=True),
    "abacus-easy": AbacusSet("Abacus easy", ("easy",), rows=200),
    "abacus-medium": AbacusSet("Abacus medium", ("medium",), rows=200),
    "abacus-hard": AbacusSet("Abacus hard", ("hard",), rows=200),
    "abacus-long": AbacusSet("Abacus long", ("long",), rows=200),
}


def abacus_problems(name: str, *, limit: int | None = None) -> Iterator[Problem]:
    """Yield a set's problems: a benchmark's first `limit`, or as many of the endless set as are asked for.

    Problem number n depends on its set and n alone, so a longer list begins like a shorter one.
    """
    chosen = SETS[name]
    wanted = chosen.rows if limit is None else limit if chosen.endless else min(limit, chosen.rows)
    for number in count(1):
        if number > wanted:
            return
        random = rng(SEED, name, number)
        exercise = draw_exercise(LEVELS[chosen.levels[number % len(chosen.levels)]], random)
        yield Problem(
            question=worded(exercise, random), answer=str(exercise.answer), id=f"{name}/{number}", source=name
        )
