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


_NAMES = {
    "mm": "millimeter millimetre 毫米", "cm": "centimeter centimetre 厘米", "m": "meter metre 米",
    "km": "kilometer kilometre 千米 公里",
    "in": "inch inche", "ft": "foot feet", "yd": "yard", "mi": "mile",
    "mg": "milligram", "g": "gram gm 克", "kg": "kilogram 千克 公斤", "lb": "pound", "oz": "ounce",
    "ms": "millisecond", "s": "second sec 秒", "min": "minute 分钟", "h": "hour hr 小时", "day": "天",
    "week": "周",
    "month": "", "yr": "year 年",
    "mL": "milliliter millilitre ml 毫升", "L": "liter litre l 升", "gal": "gallon",
    "Hz": "hertz", "N": "newton", "J": "joule", "W": "watt", "V": "volt", "A": "ampere amp", "K": "kelvin",
    "Pa": "pascal", "kPa": "", "eV": "electronvolt", "keV": "", "MeV": "", "kHz": "", "MHz": "", "GHz": "",
    "kJ": "", "kW": "", "mol": "mole",
    "cent": "", "dollar": "usd buck", "nm": "nanometer nanometre", "erg": "", "mph": "", "AU": "", "pc": "parsec",
    "degree": "deg", "rad": "radian", "yuan": "元", "Å": "angstrom ångström", "Ω": "ohm",
    "μm": "micrometer micrometre micron",
}  # fmt: skip
_NAMED_UNITS = {name: symbol for symbol, names in _NAMES.items() for name in (symbol, *names.split())}
_WITH_PREFIXES = ("m", "g", "s", "L", "Hz", "N", "J", "W", "V", "A", "Pa", "eV", "B", "T", "F", "C", "Ω", "H", "Wh")
_PREFIXED_UNITS = {prefix + unit: prefix + unit for prefix in "pnμmckMGT" for unit in _WITH_PREFIXES}
_SYMBOL = _PREFIXED_UNITS | _NAMED_UNITS

# Symbols that are as often products of variables. A lone letter is a unit only when written as one (`\text{m}`).
_PRODUCTS = frozenset(["mg", "ms", "pc", "eV", "mi", "gm", "Pa", "nm"])
_LETTERS = "mgshlLNJWVAK"

_POWER = r"(?:\s*\^\s*(?:\{\s*[-+]?\d+\s*\}|\d))?"
# One way to match every gap, or a long row of units takes exponential time.
_BETWEEN = r"(?:\s*(?:/|\\cdot|\\times|\.|per\b)\s*|\s*)"
_IN_TEXT = r"\\text\{(?:[^{}]|\{[^{}]*\})*\}"
_WRAPPED = rf"(?:\\mu\s*)?(?:{_IN_TEXT}|\\(?:Omega|AA)(?![a-zA-Z])|[MLR]_\{{?\\odot\}}?){_POWER}"
_WRAPPED_TAIL = re.compile(rf"(?P<unit>{_WRAPPED}(?:{_BETWEEN}{_WRAPPED})*)$")
_COUNTS = "units?|points?|people|persons?|students?|ways?|square|cubic|sq|cu"
_NAMED = "|".join(sorted((re.escape(name) for name in _NAMED_UNITS if len(name) > 1), key=len, reverse=True))
_BARE = rf"(?:(?:{_COUNTS}|(?:{_NAMED})(?:es|s)?|[{_LETTERS}])(?![a-zA-Z])){_POWER}"
_BARE_TAIL = re.compile(rf"(?:(?<=[\d}})%])\s*|(?<=\\pi)\s+)(?P<unit>{_BARE}(?:{_BETWEEN}{_BARE})*)$")
_LONGEST_TAIL = 100  # characters; looking for units further back would only cost time
_CONNECTIVES = re.compile(
    r"\b(?:or|and|if|for|where|when|mod|with|is|to|than|base|not?|least|most|plus|minus|factorial|halves"
    r"|(?:ten|hundred|thousand|million)ths?)\b|^(?:squared|cubed)\b|[=<>+]"
)
_TEXT = re.compile(r"\\text\{((?:[^{}]|\{[^{}]*\})*)\}")
_DEGREES = re.compile(r"°|\s+degrees?\b")
_TEMPERATURE = re.compile(r"\s*(?:\\text\{\s*)?°\s*(?:\\text\{\s*)?(?P<scale>[CF])\s*\}?$")
_LETTERS_BY_COMMAND = {r"\mu": "μ", r"\AA": "Å", r"\Omega": "Ω"}
_LETTER_COMMAND = re.compile(r"(\\(?:mu|AA|Omega))(?![a-zA-Z])\s*")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")
_NUMBER_ALONE = re.compile(r"[+-]?(?:[\d./%\s{}()^]|(?<=\{)[+-]|\\(?:frac|sqrt|pi|times|cdot)(?![a-zA-Z]))+")
_FACTOR = re.compile(r"(?P<over>/|\bper\b)?[\s.]*(?P<name>[^\W\d_]+)\s*(?:\^\s*\{?\s*(?P<power>[-+]?\d+)\s*\}?)?")
_FACTOR_GAP = re.compile(r"\\(?:cdot|times)(?![a-zA-Z])")
_OPPOSITES = (
    ("left", "right"), ("up", "down"), ("above", "below"), ("north", "south"), ("east", "west"), ("before", "after"),
    ("increase", "decrease"), ("profit", "loss"), ("bc", "ad"), ("clockwise", "counterclockwise"),
)  # fmt: skip
_NO_LETTER, _NO_DIGIT = re.compile(r"[^a-z]"), re.compile(r"[^\d-]")
_POWER_WORDS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as written, its symbol when it is a measure we know, and whether it may just as well be variables."""

    symbol: str
    known: bool
    letter: bool = False

    @property
    def simple(self) -> bool:
        """Whether it is one name without an exponent."""
        return self.symbol.isalpha()

    def contradicts(self, other: "Unit") -> bool:
        """Say whether both are known measures and different ones, or they name other powers or opposites."""
        if self.known and other.known:
            return self.symbol != other.symbol
        if _NO_LETTER.sub("", self.symbol) == _NO_LETTER.sub("", other.symbol):
            return _NO_DIGIT.sub("", self.symbol) != _NO_DIGIT.sub("", other.symbol)
        words, others = set(self.symbol.split()), set(other.symbol.split())
        return any({one, two} <= words ^ others and (one in words) != (two in words) for one, two in _OPPOSITES)


def split_unit(latex: str) -> tuple[str, Unit | None]:
    """Split an answer in its one spelling into quantity and unit."""
    if (temperature := _TEMPERATURE.search(latex)) and _NUMBER_ALONE.fullmatch(latex[: temperature.start()]):
        return latex[: temperature.start()], Unit("°" + temperature["scale"], known=True)
    if not _TRIGONOMETRY.search(latex):
        angle = latex.endswith("°")
        latex = _DEGREES.sub(" ", latex).strip() or latex
        if angle and _NUMBER_ALONE.fullmatch(latex):
            return latex, Unit("degree", known=True)
    start = max(0, len(latex) - _LONGEST_TAIL)
    wrapped = _WRAPPED_TAIL.search(latex, start)
    match = wrapped or _BARE_TAIL.search(latex, start)
    if match is None:
        return latex, None
    quantity = latex[: match.start()].strip()
    unit = _LETTER_COMMAND.sub(lambda command: _LETTERS_BY_COMMAND[command[1]], match["unit"])
    unit = _TEXT.sub(r"\1", unit).strip()
    if not quantity or quantity.endswith(("_", "{", "^", "=", ",", "(", r"\in")) or _CONNECTIVES.search(unit):
        return latex, None
    alone = _NUMBER_ALONE.fullmatch(quantity) is not None
    if not alone and (wrapped is None or len(re.sub(r"[^a-zA-Z]", "", unit)) < 2):
        return latex, None  # `x^2-4m^2`, `2x\text{m}`: part of an expression
    spaced = match["unit"] != latex[len(quantity) :]
    # `5 m/s` is a speed; `5m`, `5 m` and `5m/s` may be products of variables.
    read = _read_unit(unit, doubtful=wrapped is None and not (spaced and "/" in unit))
    if len(read.symbol) == 1 and not read.known and read.symbol.isascii():
        return latex, None  # `2\mathrm{e}`, `3\text{x}`
    return quantity, read


def _read_unit(text: str, *, doubtful: bool) -> Unit:
    """Write a unit as its factors in order (`erg/s` and `erg s^{-1}` are one); it is known if all of them are."""
    powers: dict[str, int] = {}
    names: list[str] = []
    known, next_power, end = True, 1, 0
    factors = _FACTOR_GAP.sub(" ", text)
    for factor in _FACTOR.finditer(factors):
        known = known and not factors[end : factor.start()].strip(" .")
        end = factor.end()
        name = factor["name"]
        if name in _POWER_WORDS:
            next_power *= _POWER_WORDS[name]
            continue
        spellings = (name, name.casefold(), name.casefold().removesuffix("s"), name.casefold().removesuffix("es"))
        symbol = next((_SYMBOL[spelling] for spelling in spellings if spelling in _SYMBOL), None)
        known = known and symbol is not None
        symbol = symbol or name.casefold()
        names.append(name)
        powers[symbol] = powers.get(symbol, 0) + int(factor["power"] or 1) * next_power * (-1 if factor["over"] else 1)
        next_power = 1
    known = known and bool(names) and not factors[end:].strip()
    if not known:
        return Unit(" ".join(text.casefold().split()), known=False)
    symbol = " ".join(
        name if power == 1 else f"{name}^{power}" for name, power in sorted(powers.items(), key=lambda one: one[0])
    )
    letter = doubtful and all(len(name) == 1 or name in _PRODUCTS for name in names)
    return Unit(symbol, known=True, letter=letter)
