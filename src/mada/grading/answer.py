r"""An answer, read: which of the plain kinds it is, and whether two plain answers agree.

Numbers, numerals in a base, times and ratios, choices and words are decided here, by rules that can be read. Everything
else (expressions, sets, intervals, matrices, equations) is left to computer algebra in `symbolic.py`.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from mada.grading.normalization import normalize
from mada.grading.quantities import Number, Unit, read_number, read_number_words, same_number, split_unit

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_BASE = re.compile(
    r"(?:[a-zA-Z](?:_\{\w+\})?\s*=\s*)?\(?(?P<digits>-?[0-9A-Z]*\d[0-9A-Z]*(?:\.[0-9A-Z]+)?)\)?"
    r"\s*(?:_\s*|(?=\\text\{\s*(?:in )?base|(?:in )?base))(?P<base>[\w\s{}()\\]{1,40})"
)
_BASE_NAME = re.compile(r"(?:in )?(?:base)?\s*(?:(?P<digits>\d{1,3})|(?P<word>[a-z]+))")
_CLOCK = re.compile(r"\d{1,2}:\d{2}")
_CLOCK_WITH_SECONDS = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_COLON = re.compile(
    r"(?:\\text\{)?\s*(?P<parts>\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)*)\s*"
    r"(?:\\text\{)?\s*(?P<half>[ap]\.?\s?m\.?|noon|midnight)?\s*\}?",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"(?:\\text\{)?\s*\(?\s*(?P<letter>[A-J])\s*\)?\s*\}?")
# A choice and what it says; not a calculation with a letter, and not several choices.
_CHOICE_BEFORE_TEXT = re.compile(
    r"(?:\\text\{)?\s*(?:\(\s*([A-J])\s*\)|([A-J])\s*[.:)])"
    r"[\s}](?!\s*(?:[+*/^=<>,;_]|-\s|\\(?:times|cdot|pm|mp|cup|cap)(?![a-zA-Z])))"
)
_ANOTHER_CHOICE = re.compile(r"(?<![a-zA-Z])(?:\(\s*[A-J]\s*\)|[A-J]\s*[.:)])|^\W*[A-J]\W*$")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_PUNCTUATION = re.compile(r"[^\w\s-]")
# `ab-cd` and `fg'` are mathematics; the hyphen of a longer word (`three-quarters`) is part of it.
_OPERATOR = re.compile(r"[+*/^=<>|!'_]|(?<![a-zA-Z]{4})-(?![a-zA-Z]{4})")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s-]+[^\W\d_]+)*")
_LOOSE_SPACE = re.compile(r"(?<![a-zA-Z])\s+(?!\d)|(?<!\d)\s+(?![a-zA-Z])")
_GOES_ON = re.compile(r",\s*\\ldots")


@dataclass(frozen=True, slots=True)
class Words:
    r"""An answer in words. Bare letters side by side (`abcd`) may be a product; `\text{Evelyn}` is certainly a word."""

    text: str
    certain: bool


@dataclass(frozen=True, slots=True)
class Colon:
    """Numbers with colons between them: a time of day or a ratio."""

    parts: tuple[str, ...]
    half_of_day: str | None

    @property
    def is_clock(self) -> bool:
        """Whether this can only be, or may well be, a time: times do not scale as ratios do."""
        return self.half_of_day is not None or _CLOCK.fullmatch(":".join(self.parts)) is not None

    @property
    def seconds(self) -> int | None:
        """The time of day in seconds, or `None` if this is none; without a half of the day, as on a 24-hour clock."""
        text = ":".join(self.parts if len(self.parts) > 1 else (*self.parts, "00"))
        if not (_CLOCK.fullmatch(text) or _CLOCK_WITH_SECONDS.fullmatch(text)):
            return None
        hours, minutes, *seconds = map(int, text.split(":"))
        if hours > (12 if self.half_of_day else 24) or max(minutes, *seconds, 0) > 59:
            return None
        if self.half_of_day:
            hours = hours % 12 + 12 * (self.half_of_day == "p")
        return 3600 * hours + 60 * minutes + sum(seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its one spelling; the quantity without its unit; and the one plain reading it has, if any."""

    latex: str
    quantity: str
    unit: Unit | None = None
    number: Number | None = None
    base: tuple[str, int] | None = None
    colon: Colon | None = None
    choice: str | None = None
    words: Words | None = None


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Answer:
    """Read an answer: its unit apart, and the plain kind it is, if it is one."""
    if _INTEGER.fullmatch(text):  # the most common answer by far, and none of the rest applies to it
        return Answer(text, text, number=Number(Fraction(text)))
    latex = normalize(text)
    if colon := _read_colon(latex):
        hour = read_number(colon.parts[0]) if len(colon.parts) == 1 else None  # `7 p.m.`: its unit may be left out
        return Answer(latex, latex, number=hour, colon=colon)
    if choice := _CHOICE.fullmatch(latex):
        return Answer(latex, latex, choice=choice["letter"])
    quantity, unit = split_unit(latex)
    if base := _read_base(quantity):
        return Answer(latex, quantity, unit=unit, base=base)
    if number := read_number(quantity) or _read_number_word(quantity):
        return Answer(latex, quantity, unit=unit, number=number)
    return Answer(latex, quantity, unit=unit, words=_read_words(latex))


def compare_plainly(gold: Answer, given: Answer) -> bool | None:
    """Decide by the plain readings alone; `None` means that only algebra can tell."""
    if _key(gold.latex) == _key(given.latex):
        return True
    if bool(_GOES_ON.search(gold.latex)) != bool(_GOES_ON.search(given.latex)):
        return False
    if (units := _units(gold, given)) == "contradict":
        return False
    if gold.base or given.base:
        return gold.base == given.base
    if gold.colon and given.colon:
        return _same_colon(gold.colon, given.colon)
    if gold.choice or given.choice:
        one, other = (answer.choice or _leading_choice(answer.latex) for answer in (gold, given))
        if one and other:
            return one == other
    if units == "variables":
        return None
    if gold.number and given.number:
        return same_number(gold.number, given.number)
    if gold.words and given.words and (gold.words.text == given.words.text or gold.words.certain):
        return gold.words.text == given.words.text
    if gold.words and gold.words.certain and given.number:
        return False
    return None


def algebra_pair(gold: Answer, given: Answer) -> tuple[str, str]:
    """Return what algebra compares: the quantities, or all of both where their units may be variables."""
    if _units(gold, given) == "variables":
        return gold.latex, given.latex
    return gold.quantity, given.quantity


def _units(gold: Answer, given: Answer) -> Literal["agree", "contradict", "variables"]:
    """Say whether the units of two answers agree, contradict each other, or are variables of an expression."""
    one, other = gold.unit, given.unit
    if one and other:
        if one.symbol == other.symbol:
            return "agree"
        if one.letter or other.letter:
            return "variables"
        return "contradict" if one.contradicts(other) else "agree"
    if one and one.letter:
        return "variables"
    if other and other.letter:
        return "agree" if gold.number and other.simple else "variables"
    return "agree"


def _key(latex: str) -> str:
    """Drop the spaces that separate nothing; those between letters (`\\pi x`) and between digits (`2 1/2`) stay."""
    return _LOOSE_SPACE.sub("", latex)


def _read_colon(latex: str) -> Colon | None:
    match = _COLON.fullmatch(latex)
    if match is None or not (":" in match["parts"] or match["half"]):
        return None
    half = {"n": "p", "m": "a"}.get(match["half"][0].lower(), match["half"][0].lower()) if match["half"] else None
    return Colon(tuple(part.strip() for part in match["parts"].split(":")), half)


def _read_base(latex: str) -> tuple[str, int] | None:
    match = _BASE.fullmatch(latex)
    if match is None:
        return None
    name = _BASE_NAME.fullmatch(" ".join(re.sub(r"\\text|[{}()]", " ", match["base"]).split()))
    if name is None:
        return None
    base = int(name["digits"]) if name["digits"] else read_number_words(name["word"])
    return (match["digits"].lstrip("0") or "0", base) if base else None


def _read_number_word(latex: str) -> Number | None:
    words = _read_words(latex)
    value = read_number_words(words.text) if words else None
    return None if value is None else Number(Fraction(value))


def _read_words(latex: str) -> Words | None:
    unwrapped = _TEXT.sub(r" \1 ", latex)
    if "\\" in unwrapped or _OPERATOR.search(_TEXT.sub("", latex)):
        return None
    plain = " ".join(_PUNCTUATION.sub(" ", unwrapped).split())
    if not _WORDS.fullmatch(plain):
        return None
    return Words(plain.casefold().replace("-", " "), certain=unwrapped != latex or " " in plain)


def _same_colon(gold: Colon, given: Colon) -> bool:
    """Compare times (the half of the day counts when both name it) and ratios (which may be scaled)."""
    if gold.half_of_day and given.half_of_day and gold.half_of_day != given.half_of_day:
        return False
    if gold.parts == given.parts:
        return True
    if gold.seconds is not None and given.seconds is not None:
        if gold.half_of_day and given.half_of_day:
            return gold.seconds == given.seconds
        if gold.half_of_day or given.half_of_day:  # `4:30` may be either; `20:34` is in the evening
            return gold.seconds == given.seconds or _face(gold) == _face(given)
        if gold.is_clock or given.is_clock:
            return gold.seconds == given.seconds
    if gold.is_clock or given.is_clock or len(gold.parts) != len(given.parts):
        return False
    first, second = ([read_number(part) for part in colon.parts] for colon in (gold, given))
    values = [(one.value, other.value) for one, other in zip(first, second, strict=True) if one and other]
    return all(one * values[0][1] == other * values[0][0] for one, other in values)


def _face(time: Colon) -> int | None:
    """Return what a clock of twelve hours shows, in seconds; `None` for a time that only 24 hours have."""
    return None if time.seconds is None or int(time.parts[0]) not in range(1, 13) else time.seconds % 43_200


def _leading_choice(latex: str) -> str | None:
    match = _CHOICE_BEFORE_TEXT.match(latex)
    return (match[1] or match[2]) if match and not _ANOTHER_CHOICE.search(latex[match.end() :]) else None
