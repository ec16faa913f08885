r"""Units behind a quantity: references leave them out, models write them in.

`1.6 \text{ cm}` answers a reference `1.6`. A unit is dropped when one side has none; two measures that are both known
and differ (5 cm against 5 m) contradict each other; anything else (5 apples against 5 pieces) does not.
"""

import re
from dataclasses import dataclass

_NAMES = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "m": "meter metre", "km": "kilometer kilometre",
    "in": "inch inche", "ft": "foot feet", "yd": "yard", "mi": "mile",
    "mg": "milligram", "g": "gram gm", "kg": "kilogram", "lb": "pound", "oz": "ounce",
    "ms": "millisecond", "s": "second sec", "min": "minute", "h": "hour hr", "day": "day", "week": "week",
    "month": "month", "yr": "year",
    "mL": "milliliter millilitre ml", "L": "liter litre l", "gal": "gallon",
    "Hz": "hertz", "N": "newton", "J": "joule", "W": "watt", "V": "volt", "A": "ampere amp", "K": "kelvin",
    "Pa": "pascal", "kPa": "", "eV": "electronvolt", "keV": "", "MeV": "", "kHz": "", "MHz": "", "GHz": "",
    "kJ": "", "kW": "", "mol": "mole",
    "cent": "", "dollar": "usd buck", "nm": "nanometer nanometre", "erg": "", "mph": "", "AU": "", "pc": "parsec",
    "degree": "deg",
}  # fmt: skip
_SYMBOL = {name: symbol for symbol, names in _NAMES.items() for name in (symbol, *names.split())}

_POWER = r"(?:\s*\^\s*(?:\{\s*[-+]?\d+\s*\}|\d))?"
# One way to match every gap, or a long row of units takes exponential time.
_BETWEEN = r"(?:\s*(?:/|\\cdot|\\times|\.|per\b)\s*|\s*)"
_IN_TEXT = r"\\text\{(?:[^{}]|\{[^{}]*\})*\}"
_WRAPPED = rf"(?:\\mu\s*)?(?:{_IN_TEXT}|\\(?:Omega|AA)(?![a-zA-Z])|[MLR]_\{{?\\odot\}}?){_POWER}"
_WRAPPED_TAIL = re.compile(rf"(?P<unit>{_WRAPPED}(?:{_BETWEEN}{_WRAPPED})*)$")
_COUNTS = "units?|points?|people|persons?|students?|ways?|square|cubic|sq|cu|hundred|thousand|million|billion|trillion"
_NAMED = "|".join(sorted((re.escape(name) for name in _SYMBOL if len(name) > 1), key=len, reverse=True))
_BARE = rf"(?:(?:{_COUNTS}|(?:{_NAMED})(?:es|s)?|[mgshLNJWVAK])(?![a-zA-Z])){_POWER}"
_BARE_TAIL = re.compile(rf"(?<=[\d}})%])\s*(?P<unit>{_BARE}(?:{_BETWEEN}{_BARE})*)$")
_LONGEST_TAIL = 100  # characters; looking for units further back would only cost time
_CONNECTIVES = re.compile(r"\b(?:or|and|if|for|where|when|mod|with|is|to|than|base)\b|[=<>]")
_TEXT = re.compile(r"\\text\{((?:[^{}]|\{[^{}]*\})*)\}")
_DEGREES = re.compile(r"°|\\text\{\s*degrees?\s*\}|\s+degrees?\b")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as written, its symbol when it is a measure we know, and whether it may just as well be a variable."""

    symbol: str
    known: bool
    letter: bool = False

    def contradicts(self, other: "Unit") -> bool:
        """Say whether both are known measures, and different ones."""
        return self.known and other.known and self.symbol != other.symbol


def split_unit(latex: str) -> tuple[str, Unit | None]:
    """Split an answer in its one spelling into quantity and unit."""
    if not _TRIGONOMETRY.search(latex):
        latex = _DEGREES.sub(" ", latex).strip() or latex
    start = max(0, len(latex) - _LONGEST_TAIL)
    match = _WRAPPED_TAIL.search(latex, start) or _BARE_TAIL.search(latex, start)
    if match is None:
        return latex, None
    quantity = latex[: match.start()].strip()
    unit = _TEXT.sub(r"\1", match["unit"]).strip()
    if not quantity or quantity.endswith(("_", "{", "^", "=", ",", "(", r"\in")) or _CONNECTIVES.search(unit):
        return latex, None
    return quantity, _read_unit(unit, letter=len(match["unit"].strip()) == 1)


def _read_unit(text: str, *, letter: bool) -> Unit:
    name = " ".join(text.split())
    for spelling in (name, name.casefold(), name.casefold().removesuffix("s")):
        if spelling in _SYMBOL:
            return Unit(_SYMBOL[spelling], known=True, letter=letter)
    return Unit(name.casefold(), known=False, letter=letter)
