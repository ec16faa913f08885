r"""Plain numbers, read exactly and compared without a computer algebra system.

Most answers are numbers. Reading them as exact fractions is a hundred times cheaper than symbolic algebra, and more
careful: rounding to six places, as math-verify does, makes 6.3e-10 equal to 7e-10.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

# How far a decimal may be from the value it stands for: 0.333333 is a third, 0.3333 is not.
TOLERANCE = Fraction(1, 10**6)
MAX_DIGITS = 400
MAX_EXPONENT = 400

_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_PLAIN = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<number>{_DECIMAL})"
    r"(?:\s*(?:\\times|\\cdot)\s*10\s*\^\s*\{?(?P<exponent>[+-]?\d+)\}?)?"
)
_REPEATING = re.compile(r"(?P<sign>[+-]?)\s*(?P<whole>\d*)\.(?P<fixed>\d*)\\overline\s*\{(?P<period>\d+)\}")
_POWER_OF_TEN = re.compile(r"(?P<sign>[+-]?)\s*10\s*\^\s*\{(?P<exponent>[+-]?\d+)\}")
_FRACTION = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<whole>\d+\s*)?\\frac\s*\{{\s*(?P<top>[+-]?{_DECIMAL})\s*\}}\s*\{{\s*(?P<bottom>[+-]?{_DECIMAL})\s*\}}"
)
_QUOTIENT = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?P<whole>\d+)\s+)?(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>[+-]?{_DECIMAL})"
)

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_ONES.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_MAGNITUDES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


@dataclass(frozen=True, slots=True)
class Number:
    """An exact value, and whether it was written as a decimal (which may be rounded) or as a percentage."""

    value: Fraction
    decimal: bool = False
    percent: bool = False


def read_number(text: str) -> Number | None:
    """Read a number in the one spelling: an integer, decimal, power of ten, fraction, mixed number, or percentage."""
    body = text.removesuffix("%").strip()
    percent = body != text.strip()
    if len(body) > MAX_DIGITS:
        return None
    number = _read_decimal(body) or _read_fraction(body) or _read_repeating(body)
    return None if number is None else Number(number.value, number.decimal, percent)


def _read_decimal(text: str) -> Number | None:
    match = _PLAIN.fullmatch(text) or _POWER_OF_TEN.fullmatch(text)
    if match is None:
        return None
    groups = match.groupdict(default="")
    digits = groups.get("number") or "1"
    exponent = int(groups["exponent"] or 0) if len(groups["exponent"]) <= 5 else MAX_EXPONENT + 1
    if abs(exponent) > MAX_EXPONENT:
        return None
    value = Fraction(digits.rstrip(".")) * Fraction(10) ** exponent
    return Number(-value if match["sign"] == "-" else value, decimal="." in digits.rstrip("."))


def _read_repeating(text: str) -> Number | None:
    r"""Read `0.1\overline{6}` as 1/6."""
    match = _REPEATING.fullmatch(text)
    if match is None:
        return None
    fixed, period = match["fixed"], match["period"]
    value = Fraction(f"{match['whole'] or 0}.{fixed or 0}")
    value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))
    return Number(-value if match["sign"] == "-" else value)


def _read_fraction(text: str) -> Number | None:
    match = _FRACTION.fullmatch(text) or _QUOTIENT.fullmatch(text)
    if match is None:
        return None
    top, bottom = (Fraction(match[part].rstrip(".")) for part in ("top", "bottom"))
    if bottom == 0 or (match["whole"] and top * bottom < 0):
        return None
    value = Fraction(match["whole"] or 0) + top / bottom
    return Number(-value if match["sign"] == "-" else value)


def read_number_words(words: str) -> int | None:
    """Read a number in words below a million, small letters and no hyphens: `one thousand two hundred and five`."""
    sign, _, unsigned = words.partition(" ")
    if sign in ("minus", "negative"):
        value = read_number_words(unsigned)
        return None if value is None else -value
    total = group = 0
    last = None  # the value of the word before: what may follow depends on it
    for word in words.split():
        value = _SMALL.get(word, _MAGNITUDES.get(word))
        if word == "and" and last in (100, 1000):
            continue
        if value is None or value > 1000:
            return None
        if value == 1000 and group > 0 and total == 0:
            total, group = 1000 * group, 0
        elif value == 100 and 0 < group < 100 and last is not None and last < 100:
            group *= 100
        elif value < 100 and (last in (None, 100, 1000) or (last in range(20, 100) and 0 < value < 10)):
            group += value
        else:
            return None
        last = value
    return None if last is None or words.endswith(" and") else total + group


def same_number(gold: Number, given: Number) -> bool:
    """Compare two numbers: exactly, or within `TOLERANCE` when one of them is a decimal.

    A percentage equals both its value and the number in front of the sign, because questions that ask "what percent"
    have references of both kinds: `50%` equals `0.5` and `50`.
    """
    if gold.percent == given.percent:
        return _close(gold.value, given.value, decimal=gold.decimal or given.decimal)
    percentage, plain = (gold, given) if gold.percent else (given, gold)
    decimal = gold.decimal or given.decimal
    return _close(percentage.value, plain.value, decimal=decimal) or _close(
        percentage.value / 100, plain.value, decimal=decimal
    )


def _close(gold: Fraction, given: Fraction, *, decimal: bool) -> bool:
    if gold == given:
        return True
    # The smaller of an absolute and a relative bound: neither 6.3e-10 and 7e-10 nor 1000000.1 and 1000000.2 agree.
    return decimal and abs(gold - given) <= TOLERANCE * min(1, max(abs(gold), abs(given)))
