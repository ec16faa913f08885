r"""When two problem statements are the same.

Data sets copy each other and set the mathematics anew on the way: `$x_1,$` becomes `\( x_{1} \),`, `\dots`
becomes `\cdots`, a display becomes inline. So a statement is read as a sequence of tokens (words, numbers,
operators), and what only concerns typesetting is left out: case, white space, dollar signs, braces,
punctuation, fonts, spacing commands. Operators and numbers stay: `z^4 - z^2 + 1` and `z^4 + z^2 + 1` make two
problems.
"""

import re
import unicodedata

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
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "leq": "le",
    "leqslant": "le",
    "≤": "le",
    "⩽": "le",
    "geq": "ge",
    "geqslant": "ge",
    "≥": "ge",
    "⩾": "ge",
    "neq": "ne",
    "≠": "ne",
    "ldots": "dots",
    "cdots": "dots",
    "dotsc": "dots",
    "dotsb": "dots",
    "×": "times",
    "·": "cdot",
    "÷": "div",
    "√": "sqrt",
    "π": "pi",
    "°": "circ",
    "∞": "infty",
    "−": "-",
    "–": "-",
    "—": "-",
    "⁄": "/",
}


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
    return tuple([_SPELLINGS.get(token, token) for token in found]) or tuple(as_written.casefold().split())


def text_key(text: str) -> str:
    """A key that two statements share exactly when they are copies of each other."""
    return statement_key(tokens(text))


def statement_key(statement: tuple[str, ...]) -> str:
    """The same for tokens already read. `A B` is `AB` to geometers, so only two numbers are kept apart."""
    return _SPACE_BESIDE_OTHERS.sub("", " ".join(statement))


def words(statement: tuple[str, ...]) -> tuple[str, ...]:
    """The words and numbers among a statement's tokens: what near-copies are measured by."""
    return tuple(token for token in statement if token[0].isalnum())
