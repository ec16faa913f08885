r"""When two problem statements are the same, and which training problems a benchmark also holds.

Data sets copy each other and set the mathematics anew: `$x_1,$` becomes `\( x_{1} \),`, `\dots` becomes `\cdots`. So a
statement is read as tokens (words, numbers, operators) without its typesetting: case, white space, dollar signs,
braces, punctuation, fonts, spacing commands. `z^4 - z^2 + 1` and `z^4 + z^2 + 1` stay two problems.

Three kinds of match, strongest first:

exact    equal once typesetting is left out: a true copy, which `remove_copies` drops
near     the sets of word n-grams overlap, |A ∩ B| / |A ∪ B| ≥ threshold (Jaccard), and the answers are equal:
         most likely a copy, reworded
sibling  the same overlap, but another answer: a template filled in anew, another question about one figure
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mada.errors import DataError
from mada.problems.problem import Problem

_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_PLAIN_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\{(?:align|aligned|array|cases|center|equation|gather|gathered|split|tabular)\*?\}(?:\{[lcr|]*\})?"
)
_DIGIT_FRACTION = re.compile(r"(\\[dtc]?frac)(\d)(\d)")
# `\[ \] \( \)` open and close mathematics, `\{ \}` are braces, the others are spaces and line breaks.
_TYPESETTING_PAIR = re.compile(r"\\[\[\](){},;:\\\s]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BARE_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
_SPACE_BESIDE_OTHERS = re.compile(r"(?<=\D) | (?=\D)")
_TOKEN = re.compile(
    r"""
      \d+(?:\.\d+)?                          # a number
    | \\[a-z]+                               # a command
    | [^\W\d_]+                              # a word
    | ['′’]+(?=\()                           # a derivative's prime, not an apostrophe
    | [^\s\w\\${}&~"“”„«»‘’'`.,;:?。、]      # an operator or another symbol
    """,
    re.VERBOSE,
)
_LAYOUT_COMMAND = re.compile(
    r"\\(?:left|right|big[lr]?|bigg[lr]?|displaystyle|textstyle|q?quad|(?:no)?limits|hfill"
    r"|text(?:bf|it|rm)?|math(?:rm|bf|it|sf)|boldsymbol|operatorname|rm|bf|it)(?![a-z])"
)
_SPELLINGS = {
    "frac": "dfrac tfrac cfrac", "le": "leq leqslant ≤ ⩽", "ge": "geq geqslant ≥ ⩾", "ne": "neq ≠",
    "dots": "ldots cdots dotsc dotsb", "times": "×", "cdot": "·", "div": "÷", "sqrt": "√", "pi": "π", "circ": "°",
    "infty": "∞", "-": "− – —", "/": "⁄",
}  # fmt: skip
_ONE_SPELLING = {other: token for token, others in _SPELLINGS.items() for other in others.split()}


def tokens(text: str) -> tuple[str, ...]:
    """The words, numbers and operators of a statement, in order, without its typesetting.

    A text of punctuation alone is split at its spaces, so that no text is without tokens.
    """
    as_written = text
    if not text.isascii():
        # Compatibility forms are folded (full-width letters, ligatures), but 2³ must not become 23.
        text = _SUPERSCRIPTS.sub(lambda match: "^" + match[0].translate(_PLAIN_DIGITS), text)
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().replace("...", " dots ")
    if "\\" in text:
        text = _ENVIRONMENT.sub(" ", text)
        text = _DIGIT_FRACTION.sub(r"\1 \2 \3", text)
        text = _LAYOUT_COMMAND.sub(" ", text).replace("\\!", "")
        text = _TYPESETTING_PAIR.sub(" ", text)
    text = _BARE_POINT.sub("0.", _THOUSANDS.sub("", text))
    found: list[str] = [token.lstrip("\\") for token in _TOKEN.findall(text)]
    return tuple([_ONE_SPELLING.get(token, token) for token in found]) or tuple(as_written.casefold().split())


def text_key(text: str) -> str:
    """A key that two statements share exactly when they are copies of each other."""
    return _key(tokens(text))


def _key(statement: tuple[str, ...]) -> str:
    # `A B` is `AB` to geometers, so only two numbers are kept apart.
    return _SPACE_BESIDE_OTHERS.sub("", " ".join(statement))


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


@dataclass(frozen=True, slots=True)
class Decontaminated:
    """The training problems that are in no benchmark, and how many copies of each benchmark were dropped."""

    kept: tuple[Problem, ...]
    dropped: Mapping[str, int]


def remove_copies(problems: Sequence[Problem], benchmarks: Mapping[str, Sequence[Problem]]) -> Decontaminated:
    """Drop the problems that equal a benchmark problem once typesetting is left out."""
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


def find_overlaps(
    training: Sequence[Problem], benchmarks: Mapping[str, Sequence[Problem]], *, n: int = 6, threshold: float = 0.6
) -> dict[str, Overlap]:
    """Compare every training problem with several benchmarks, reading each training text once."""
    if n < 1 or not 0 < threshold <= 1:
        raise DataError(f"n is {n} and the threshold {threshold}; wanted n ≥ 1 and 0 < threshold ≤ 1")
    indexes = {name: _Index(members, n=n, threshold=threshold) for name, members in benchmarks.items()}
    found: dict[str, list[Match]] = {name: [] for name in benchmarks}
    for problem in training:
        statement = tokens(problem.question)
        key, grams = _key(statement), _n_grams(statement, n)
        for name, index in indexes.items():
            match = index.best_match(problem, key=key, grams=grams)
            if match is not None:
                found[name].append(match)
    return {
        name: Overlap(tuple(sorted(found[name], key=_strongest_first)), len(training), len(members))
        for name, members in benchmarks.items()
    }


class _Index:
    """A benchmark's keys and n-grams: a training row is only compared with problems it shares an n-gram with."""

    def __init__(self, benchmark: Sequence[Problem], *, n: int, threshold: float) -> None:
        self._problems = benchmark
        self._threshold = threshold
        self._by_key: dict[str, Problem] = {}
        self._sizes: list[int] = []
        self._holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, problem in enumerate(benchmark):
            statement = tokens(problem.question)
            self._by_key.setdefault(_key(statement), problem)
            grams = _n_grams(statement, n)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(number)

    def best_match(self, problem: Problem, *, key: str, grams: set[tuple[str, ...]]) -> Match | None:
        copy = self._by_key.get(key)
        if copy is not None:
            return Match(problem.id, copy.id, "exact", 1.0)
        shared = Counter(number for gram in grams for number in self._holders.get(gram, ()))
        similar: list[Match] = []
        for number, count in shared.items():
            similarity = count / (len(grams) + self._sizes[number] - count)
            if similarity >= self._threshold:
                other = self._problems[number]
                kind = "near" if text_key(problem.answer) == text_key(other.answer) else "sibling"
                similar.append(Match(problem.id, other.id, kind, similarity))
        return min(similar, key=_strongest_first, default=None)


def _strongest_first(match: Match) -> tuple[int, float, str, str]:
    return KINDS.index(match.kind), -match.similarity, match.training, match.benchmark


def _n_grams(statement: tuple[str, ...], n: int) -> set[tuple[str, ...]]:
    """All runs of n words (and numbers) of a statement; a shorter text is one run."""
    words = tuple(token for token in statement if token[0].isalnum())
    return {words[start : start + n] for start in range(max(1, len(words) - n + 1))}
