"""Untrusted text in LaTeX: every character stands for itself, and what pdflatex cannot typeset becomes a question mark.

The commands are those of LaTeX itself, so they work with any font encoding and without further packages.
"""

import unicodedata

from mada.text import printable

UNKNOWN = "?"

# Braces around a character keep it from being an argument or a star of the command before it (`\\[`, `\\*`).
_ASCII = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": r"\symbol{96}",
    "*": "{*}",
    "[": "{[}",
    "]": "{]}",
}
_PUNCTUATION = {
    "–": "--",
    "—": "---",
    "‐": "-",
    "‑": "-",
    "“": "``",
    "”": "''",
    "‘": "{`}",
    "’": "{'}",
    "„": "\\symbol{34}",
    "«": "\\symbol{34}",
    "»": "\\symbol{34}",
    "…": r"\dots{}",
    "•": r"\textbullet{}",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "©": r"\copyright{}",
    "£": r"\pounds{}",
    "\N{NO-BREAK SPACE}": "~",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{THIN SPACE}": r"\,",
}
_LETTERS = {
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
}
_MATHEMATICS = {
    "−": "-",
    "±": r"\pm",
    "×": r"\times",
    "·": r"\cdot",
    "÷": r"\div",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "≡": r"\equiv",
    "→": r"\rightarrow",
    "←": r"\leftarrow",
    "↔": r"\leftrightarrow",
    "⇒": r"\Rightarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "∞": r"\infty",
    "∈": r"\in",
    "∑": r"\sum",
    "√": r"\surd",
    "°": r"^{\circ}",
    "′": r"^{\prime}",
    "¬": r"\neg",
    "∂": r"\partial",
    "ℓ": r"\ell",
    "µ": r"\mu",
}
# The Greek letters that have names of their own in LaTeX; the others look like Latin ones.
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi pi rho sigma tau upsilon phi chi psi"
_CAPITAL_GREEK = "Gamma Delta Theta Lamda Xi Pi Sigma Upsilon Phi Psi Omega"
# Accents by their combining characters.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
# Two of these beside each other are one character to the font: a dash, a quotation mark.
_LIGATURES = "-',"


def latex_text(text: str) -> str:
    """Return text on one line for LaTeX."""
    written = ""
    last = ""
    for character in unicodedata.normalize("NFC", printable(text)):
        if character == last and character in _LIGATURES:
            written += "{}"
        written += _ESCAPES.get(character) or _other(character)
        last = character
    return written


def _other(character: str) -> str:
    if character.isascii():
        return character
    marks = unicodedata.normalize("NFD", character)
    if len(marks) == 2 and marks[0].isascii() and marks[0].isalpha() and marks[1] in _ACCENTS:
        return f"\\{_ACCENTS[marks[1]]}{{{marks[0]}}}"
    kind, _, plain = unicodedata.decomposition(character).partition(" ")
    if kind in ("<super>", "<sub>") and len(plain) == 4 and (digit := chr(int(plain, 16))).isascii():
        return f"\\ensuremath{{{'^' if kind == '<super>' else '_'}{{{digit}}}}}" if digit.isalnum() else UNKNOWN
    return UNKNOWN


def _greek() -> dict[str, str]:
    commands = {"lamda": "lambda", "Lamda": "Lambda", "epsilon": "varepsilon"}
    small = {unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}"): name for name in [*_GREEK.split(), "omega"]}
    capital = {unicodedata.lookup(f"GREEK CAPITAL LETTER {name.upper()}"): name for name in _CAPITAL_GREEK.split()}
    return {letter: f"\\{commands.get(name, name)}" for letter, name in (small | capital).items()}


_ESCAPES = (
    _ASCII
    | _PUNCTUATION
    | _LETTERS
    | {character: f"\\ensuremath{{{command}}}" for character, command in (_MATHEMATICS | _greek()).items()}
)
