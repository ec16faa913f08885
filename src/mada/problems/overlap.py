"""Contamination: which training problems are also benchmark problems.

Three kinds of match, strongest first:

exact    equal once typesetting is left out (`mada.problems.text`): a true copy, which `remove_copies` drops
near     the sets of word n-grams overlap, |A ∩ B| / |A ∪ B| ≥ threshold (Jaccard), and the answers are equal:
         most likely a copy, reworded
sibling  the same overlap, but another answer: a template filled in anew, another question about one figure

The benchmark's n-grams are indexed, so a training row is only compared with rows it shares an n-gram with.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mada.errors import DataError
from mada.problems.problem import Problem
from mada.problems.text import statement_key, text_key, tokens, words

MatchKind = Literal["exact", "near", "sibling"]
KINDS: tuple[MatchKind, ...] = ("exact", "near", "sibling")


@dataclass(frozen=True, slots=True)
class Match:
    """A training problem and the benchmark problem it resembles most, by id."""

    training: str
    benchmark: str
    kind: MatchKind
    similarity: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """The training problems that resemble a benchmark's: one match each, exact ones first."""

    matches: tuple[Match, ...]
    training_rows: int
    benchmark_rows: int

    def of_kind(self, kind: MatchKind) -> tuple[Match, ...]:
        """The matches of one kind."""
        return tuple(match for match in self.matches if match.kind == kind)


@dataclass(frozen=True, slots=True)
class Decontaminated:
    """The training problems that are in no benchmark, and how many copies of each benchmark were dropped."""

    kept: tuple[Problem, ...]
    dropped: Mapping[str, int]


def remove_copies(problems: Sequence[Problem], benchmarks: Mapping[str, Sequence[Problem]]) -> Decontaminated:
    """Drop the problems that equal a benchmark problem once typesetting is left out."""
    if not benchmarks:
        return Decontaminated(kept=tuple(problems), dropped={})
    benchmark_of: dict[str, str] = {}
    for name, members in benchmarks.items():
        for problem in members:
            benchmark_of.setdefault(text_key(problem.question), name)
    found_in = [benchmark_of.get(text_key(problem.question)) for problem in problems]
    counts = Counter(found_in)
    return Decontaminated(
        kept=tuple(problem for problem, name in zip(problems, found_in, strict=True) if name is None),
        dropped={name: counts[name] for name in benchmarks},
    )


def find_overlap(
    training: Sequence[Problem], benchmark: Sequence[Problem], *, n: int = 6, threshold: float = 0.6
) -> Overlap:
    """Compare every training problem with one benchmark."""
    return find_overlaps(training, {"benchmark": benchmark}, n=n, threshold=threshold)["benchmark"]


def find_overlaps(
    training: Sequence[Problem],
    benchmarks: Mapping[str, Sequence[Problem]],
    *,
    n: int = 6,
    threshold: float = 0.6,
) -> dict[str, Overlap]:
    """Compare every training problem with several benchmarks, reading each training text once."""
    if n < 1 or not 0 < threshold <= 1:
        raise DataError(f"n is {n} and the threshold {threshold}; wanted n ≥ 1 and 0 < threshold ≤ 1")
    indexes = {name: _Index(members, n=n, threshold=threshold) for name, members in benchmarks.items()}
    found: dict[str, list[Match]] = {name: [] for name in benchmarks}
    for problem in training:
        statement = tokens(problem.question)
        key, grams = statement_key(statement), _grams(statement, n)
        for name, index in indexes.items():
            match = index.best_match(problem, key=key, grams=grams)
            if match is not None:
                found[name].append(match)
    return {
        name: Overlap(
            matches=tuple(sorted(found[name], key=_strongest_first)),
            training_rows=len(training),
            benchmark_rows=len(members),
        )
        for name, members in benchmarks.items()
    }


class _Index:
    """A benchmark's texts and n-grams, ready to be looked up."""

    def __init__(self, benchmark: Sequence[Problem], *, n: int, threshold: float) -> None:
        self._problems = benchmark
        self._threshold = threshold
        self._by_key: dict[str, Problem] = {}
        self._sizes: list[int] = []
        self._holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, problem in enumerate(benchmark):
            statement = tokens(problem.question)
            self._by_key.setdefault(statement_key(statement), problem)
            grams = _grams(statement, n)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(number)

    def best_match(self, problem: Problem, *, key: str, grams: set[tuple[str, ...]]) -> Match | None:
        copy = self._by_key.get(key)
        if copy is not None:
            return Match(problem.id, copy.id, "exact", 1.0)
        shared = Counter(number for gram in grams for number in self._holders.get(gram, ()))
        similar = [
            Match(problem.id, other.id, "near" if _same_answer(problem, other) else "sibling", similarity)
            for number, count in shared.items()
            if (similarity := count / (len(grams) + self._sizes[number] - count)) >= self._threshold
            for other in [self._problems[number]]
        ]
        return min(similar, key=_strongest_first, default=None)


def _strongest_first(match: Match) -> tuple[int, float, str, str]:
    return KINDS.index(match.kind), -match.similarity, match.training, match.benchmark


def _same_answer(problem: Problem, other: Problem) -> bool:
    return text_key(problem.answer) == text_key(other.answer)


def _grams(statement: tuple[str, ...], n: int) -> set[tuple[str, ...]]:
    """All runs of n words of a statement; a shorter text is one run."""
    spoken = words(statement)
    return {spoken[start : start + n] for start in range(max(1, len(spoken) - n + 1))}
