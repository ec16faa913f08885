r"""Units behind a quantity: references leave them out, models write them in.

`1.6 \text{ cm}` answers a reference `1.6`. A unit is dropped when one side has none; two measures that are both known
and differ (5 cm against 5 m, 5 cm against 5 cm²) contradict each other; anything else (5 apples against 5 pieces) does
not. Letters without `\text` are a unit only behind a number alone, and `5 m` or `2mg` may as well be a product: such
letters count as a unit where the other side has the same one, or where a reply has them and the reference is a number.
"""

import re
from dataclasses import dataclass

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
