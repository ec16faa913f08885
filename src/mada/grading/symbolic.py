"""Symbolic equivalence by math-verify. Only grading workers import this module: it is slow, and it can hang (R1).

math-verify's own extraction is left out on purpose: it merges boxes that stand close together, reads boxes inside
unfinished thinking, strips trailing letters as units, and hands plain text to SymPy's parser, which evaluates it as
Python. Here an answer goes through the LaTeX grammar alone, so nothing a model writes is ever executed.
"""

# pyright: basic
# (the three libraries below carry no types)
import logging
import re
from functools import lru_cache
from typing import Any, Literal

from latex2sympy2_extended.latex2sympy2 import (
    ConversionConfig,
    NormalizationConfig,
    latex2sympy,
    normalize_latex,
)
from math_verify import verify
from math_verify.grader import should_treat_as_complex
from sympy import Basic, Derivative, Symbol

from mada.grading.magnitude import differ_at_a_point, is_hopeless

Equivalence = Literal["equal", "not equal", "unparsable", "timed out"]

_NORMALISATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)

_COMMAND = re.compile(r"\\(?:text\{[^{}]*\}|[a-zA-Z]+)")

# The grammar takes E for Euler's number and then stumbles over its subscript.
_SUBSCRIPTED_E = re.compile(r"(?<![a-zA-Z\\])([eE])(?=\s*_)")

_MEMBERSHIP = re.compile(r"^[a-zA-Z]\s*\\in(?![a-zA-Z])\s*")

# Both libraries warn that their own time limits are off. They are: the worker's limit kills the process.
logging.getLogger("math_verify").setLevel(logging.ERROR)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)


def symbolic_equivalence(gold: str, given: str) -> Equivalence:
    """Compare two answers in the one spelling as mathematics."""
    fold_case = not (_has_both_cases(gold) or _has_both_cases(given))
    gold_expression, given_expression = _parse(gold, fold_case=fold_case), _parse(given, fold_case=fold_case)
    if gold_expression is None or given_expression is None:
        return "unparsable"
    if is_hopeless(gold_expression) or is_hopeless(given_expression):
        return "timed out"
    if differ_at_a_point(gold_expression, given_expression):
        return "not equal"
    equal = verify(gold_expression, given_expression, allow_set_relation_comp=True, timeout_seconds=None)
    return "equal" if equal else "not equal"


@lru_cache(maxsize=4096)
def _parse(latex: str, *, fold_case: bool) -> Any:
    """Parse one answer into a SymPy object, or `None`. Kept, because the responses of a group share a reference."""
    latex = latex.replace("°", r"^{\circ}").replace("%", r"\%").replace(r"_{\odot}", r"_{\text{sun}}")
    latex = _MEMBERSHIP.sub("", latex)
    latex = normalize_latex(_SUBSCRIPTED_E.sub(r"\\text{\1}", latex), _NORMALISATION)
    for candidate in dict.fromkeys((latex, _last_side(latex))):
        try:
            expression = latex2sympy(
                candidate,
                is_real=not should_treat_as_complex(candidate),
                convert_degrees=False,
                normalization_config=None,
                conversion_config=ConversionConfig(lowercase_symbols=fold_case),
            )
            return _name_derivatives(expression)
        except Exception:  # the grammar raises bare `Exception` for whatever it cannot read
            continue
    return None


def _name_derivatives(expression: Any) -> Any:
    """Make a name of every derivative: SymPy takes dM/dt of a plain symbol M for 0, and any two equations agree."""
    if not isinstance(expression, Basic) or not expression.has(Derivative):
        return expression
    return expression.replace(lambda part: isinstance(part, Derivative), lambda part: Symbol(f"[{part}]", real=True))


def _has_both_cases(latex: str) -> bool:
    r"""Say whether a letter is there in both cases: `m/M` must not become `m/m`, though `3R` may answer `3r`."""
    letters = set(_COMMAND.sub("", latex))
    return any(letter.islower() and letter.upper() in letters for letter in letters)


def _last_side(latex: str) -> str:
    """Return what stands behind the last `=` of a chain (`x = 2 + 3 = 5`); lists of equations stay whole."""
    if latex.count("=") < 2 or "," in latex or ";" in latex:
        return latex
    return latex.rpartition("=")[2]
