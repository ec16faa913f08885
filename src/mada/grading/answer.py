r"""An answer, read: which of the plain kinds it is, and whether two plain answers agree.

Numbers, numerals in a base, times and ratios, choices and words are decided here, by rules that can be read. Everything
else (expressions, sets, intervals, matrices, equations) is left to computer algebra in `symbolic.py`.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from mada.grading.numerals import MAGNITUDE_WORDS, NUMBER_WORDS, Number, read_number, same_number
from mada.grading.spelling import one_spelling
from mada.grading.units import Unit, split_unit

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_BASE = re.compile(
    r"\(?(?P<digits>-?[0-9A-Z]*\d[0-9A-Z]*)\)?\s*_\s*(?:\{\s*(?P<braced>\d+)\s*\}|(?P<bare>\d+)|\{?\\text\{\s*(?P<word>[a-z]+)\s*\}\}?)"
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}")
_COLON = re.compile(
    r"(?P<parts>\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+)\s*(?:\\text\{)?\s*(?P<half>[ap]\.?\s?m\.?)?\s*\}?",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"(?:\\text\{)?\s*\(?\s*(?P<letter>[A-J])\s*\)?\s*\}?")
_CHOICE_BEFORE_TEXT = re.compile(r"(?:\\text\{)?\s*(?:\(\s*([A-J])\s*\)|([A-J])\s*[.:)])[\s}]")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_PUNCTUATION = re.compile(r"[^\w\s-]")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s-]+[^\W\d_]+)*")
_LOOSE_SPACE = re.compile(r"(?<![a-zA-Z])\s+|\s+(?![a-zA-Z])")


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
    latex = one_spelling(text)
    if colon := _COLON.fullmatch(latex):
        parts = tuple(part.strip() for part in colon["parts"].split(":"))
        return Answer(latex, latex, colon=Colon(parts, colon["half"][0].lower() if colon["half"] else None))
    if choice := _CHOICE.fullmatch(latex):
        return Answer(latex, latex, choice=choice["letter"])
    quantity, unit = split_unit(latex)
    if base := _read_base(quantity):
        return Answer(latex, quantity, unit=unit, base=base)
    if number := read_number(quantity) or _read_number_word(quantity):
        if unit and unit.symbol in MAGNITUDE_WORDS:
            number, unit = Number(number.value * MAGNITUDE_WORDS[unit.symbol], number.decimal), None
        return Answer(latex, quantity, unit=unit, number=number)
    if unit and unit.letter:  # `3x m` is more likely a product than a quantity in metres
        quantity, unit = latex, None
    return Answer(latex, quantity, unit=unit, words=_read_words(latex))


def compare_plainly(gold: Answer, given: Answer) -> bool | None:
    """Decide by the plain readings alone; `None` means that only algebra can tell."""
    if _key(gold.latex) == _key(given.latex):
        return True
    if gold.unit and given.unit and gold.unit.contradicts(given.unit):
        return False
    if gold.base or given.base:
        return gold.base == given.base
    if gold.colon and given.colon:
        return _same_colon(gold.colon, given.colon)
    if gold.choice and (leading := given.choice or _leading_choice(given.latex)):
        return gold.choice == leading
    if gold.unit and gold.unit.letter and not given.unit:
        return None
    if gold.number and given.number:
        return same_number(gold.number, given.number)
    if gold.words and given.words and (gold.words.text == given.words.text or gold.words.certain):
        return gold.words.text == given.words.text
    if gold.words and gold.words.certain and given.number:
        return False
    return None


def algebra_pair(gold: Answer, given: Answer) -> tuple[str, str]:
    """Return what algebra compares: the quantities, but a lone letter of the reference is a variable, not a unit."""
    if gold.unit and gold.unit.letter:
        return gold.latex, given.latex
    if given.unit and given.unit.letter and given.unit.symbol in gold.latex:
        return gold.latex, given.latex
    return gold.quantity, given.quantity


def _key(latex: str) -> str:
    """Drop the spaces that separate nothing; one behind a command (`\\pi x`) stays."""
    return _LOOSE_SPACE.sub("", latex)


def _read_base(latex: str) -> tuple[str, int] | None:
    match = _BASE.fullmatch(latex)
    if match is None:
        return None
    base = int(match["braced"] or match["bare"]) if not match["word"] else int(NUMBER_WORDS.get(match["word"], 0))
    return match["digits"].lstrip("0") or "0", base


def _read_number_word(latex: str) -> Number | None:
    words = _read_words(latex)
    return Number(NUMBER_WORDS[words.text]) if words and words.text in NUMBER_WORDS else None


def _read_words(latex: str) -> Words | None:
    unwrapped = _TEXT.sub(r" \1 ", latex)
    if "\\" in unwrapped or "=" in unwrapped:
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
    if gold.is_clock or given.is_clock or len(gold.parts) != len(given.parts):
        return False
    first, second = ([read_number(part) for part in colon.parts] for colon in (gold, given))
    values = [(one.value, other.value) for one, other in zip(first, second, strict=True) if one and other]
    return all(one * values[0][1] == other * values[0][0] for one, other in values)


def _leading_choice(latex: str) -> str | None:
    match = _CHOICE_BEFORE_TEXT.match(latex)
    return (match[1] or match[2]) if match else None
