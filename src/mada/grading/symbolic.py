"""Symbolic equivalence by math-verify. Only grading workers import this module: it is slow, and it can hang (R1).

math-verify's own extraction is left out on purpose: it merges boxes that stand close together, reads boxes inside
unfinished thinking, strips trailing letters as units, and hands plain text to SymPy's parser, which evaluates it as
Python. Here an answer goes through the LaTeX grammar alone, so nothing a model writes is ever executed.

Two things are decided before any algebra: that an answer is hopeless (`9^{9^{9^9}}` parses at once and is computed
until the time limit; adding up logarithms tells), and that two expressions differ at a point, hence are unequal.
"""

# pyright: basic
# (the three libraries below carry no types)
import logging
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import mpmath
import sympy as sp
from latex2sympy2_extended.latex2sympy2 import (
    ConversionConfig,
    NormalizationConfig,
    latex2sympy,
    normalize_latex,
)
from math_verify import verify
from sympy.core.function import AppliedUndef
from sympy.core.numbers import NumberSymbol
from sympy.core.relational import Relational

Equivalence = Literal["equal", "not equal", "unparsable", "timed out"]

_NORMALISATION = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)

_COMMAND = re.compile(r"\\(?:text\{[^{}]*\}|[a-zA-Z]+)")

# The grammar takes E for Euler's number and then stumbles over its subscript.
_SUBSCRIPTED_E = re.compile(r"(?<![a-zA-Z\\])([eE])(?=\s*_)")

# The grammar drops primes; a primed letter is another variable or function.
_PRIMED = re.compile(r"([a-zA-Z])('+)(?!\s*['_])")
# It also drops a transposition, even of numbers (`2^T`); a power is not dropped.
_TRANSPOSED = re.compile(r"\^\s*\{\s*T\s*\}")
# And it reads `12_{3}` as 12, `1 2` as 12, `30'` as 30, `n!!` as (n!)!, `\gcd(m,n)` as 1 and `1+\ldots+3` as 1+3.
_MISREAD = re.compile(r"\d(?:_\{|\s+\d|')|!!|\\(?:gcd|lcm)\s*\([^()]*[a-zA-Z]|(?:[-+*]|\\(?:cdot|times))\s*\\ldots")

_MEMBERSHIP = re.compile(r"^[a-zA-Z]\s*\\in(?![a-zA-Z])\s*")
_MEMBER_OF = re.compile(r"(?P<name>[a-zA-Z])\s*\\in(?![a-zA-Z])\s*(?P<set>.*)")
_SET_BUILDER = re.compile(
    r"\\\{\s*(?P<name>[a-zA-Z])\s*(?:\\in(?![a-zA-Z])(?P<within>[^:|]*?))?(?:\\mid(?![a-zA-Z])|[:|])(?P<condition>.*)\\\}"
)
_LOGIC = re.compile(r"\\(?:lor|land)(?![a-zA-Z])")
_COMMA = re.compile(r",(?![^(\[{]*[)\]}])")  # outside of brackets
_CUT = re.compile(rf"\\land |{_COMMA.pattern}")
_INEQUALITY = re.compile(r"[<>]|\\(?:le|ge|ne|lt|gt)(?![a-zA-Z])")

MAX_DIGITS = 1e8  # computing so many takes longer than any sensible time limit
DIFFERENT = 1e-4  # relative; well above the tolerance for decimals
FAR_BEHIND = 1_000  # digits that exact numbers are compared with

_UNLIKE_NUMBERS = (sp.Integral, sp.Sum, sp.Product, sp.Limit, sp.Derivative, sp.UnevaluatedExpr)

# Both libraries warn that their own time limits are off. They are: the worker's limit kills the process.
logging.getLogger("math_verify").setLevel(logging.ERROR)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)


def symbolic_equivalence(gold: str, given: str) -> Equivalence:
    """Compare two answers in the one spelling as mathematics."""
    if _is_condition(gold) or _is_condition(given):
        one, other = _solutions(gold), _solutions(given)
        # `x<1, x>2` may be meant either way: without a word, two that nothing satisfies are compared as written.
        undecided = one and other and one.values.is_empty and other.values.is_empty and not _LOGIC.search(gold + given)
        if one and other and not undecided:
            if one.variable and other.variable and one.variable != other.variable:
                return "not equal"
            equal = one.values == other.values or verify(one.values, other.values, timeout_seconds=None)
            return "equal" if equal else "not equal"
    gold_expression, given_expression = _parse(gold), _parse(given)
    if gold_expression is None or given_expression is None:
        return "unparsable"
    if is_hopeless(gold_expression) or is_hopeless(given_expression):
        return "timed out"
    if differ_at_a_point(gold_expression, given_expression):
        return "not equal"
    if _are_in_order(gold_expression, given_expression):
        gold_expression, given_expression = _ordered(gold, gold_expression), _ordered(given, given_expression)
    elif _repeated(gold, gold_expression) != _repeated(given, given_expression):
        return "not equal"
    gold_expression, given_expression = (
        _like(gold_expression, given_expression),
        _like(given_expression, gold_expression),
    )
    return "equal" if _verify(gold_expression, given_expression) else "not equal"


def _verify(gold: Any, given: Any) -> bool:
    """Ask math-verify; then again with positive variables, if roots or logarithms have any: √(ab) is √a·√b."""
    if _are_other_names(gold, given):
        return False
    # of a set and a point, math-verify compares the entries
    if any(_is_point(one) and isinstance(other, sp.FiniteSet) for one, other in ((gold, given), (given, gold))):
        return False
    rounding = _decimals(gold, given)
    if verify(gold, given, float_rounding=rounding, allow_set_relation_comp=True, timeout_seconds=None):
        return not (isinstance(gold, sp.Eq) and isinstance(given, sp.Eq)) or _are_one_equation(gold, given)
    if not all(isinstance(one, sp.Basic) and not one.has(sp.Abs) for one in (gold, given)):
        return False
    parts = [part for one in (gold, given) for part in one.atoms(sp.Pow, sp.log)]
    if not any(part.free_symbols for part in parts if isinstance(part, sp.log) or part.exp.is_integer is False):
        return False
    positive = {name: sp.Symbol(str(name), positive=True) for name in gold.free_symbols | given.free_symbols}
    gold, given = gold.xreplace(positive), given.xreplace(positive)
    return bool(verify(gold, given, float_rounding=rounding, allow_set_relation_comp=True, timeout_seconds=None))


def _are_other_names(gold: Any, given: Any) -> bool:
    """Say whether two variables differ in case, which math-verify ignores: `E_1` is not `e_1`, nor E Euler's number."""
    if sp.E in (gold, given):
        return any(isinstance(one, sp.Symbol) and str(one) == "E" for one in (gold, given))
    return isinstance(gold, sp.Symbol) and isinstance(given, sp.Symbol) and gold != given


def _decimals(gold: Any, given: Any) -> int:
    """Return how many decimals count: six, and more behind the zeros of a small one."""
    parts = [part for one in (gold, given) if isinstance(one, sp.Basic) for part in one.atoms(sp.Float)]
    smallest = min((abs(float(part)) for part in parts if part), default=1.0)
    return 6 + max(0, -math.ceil(math.log10(smallest))) if 0 < smallest < 1 else 6


def _are_one_equation(gold: sp.Eq, given: sp.Eq) -> bool:
    """Say whether two equations that math-verify calls equal are: to it any two without a solution are."""
    try:
        one, other = gold.lhs - gold.rhs, given.lhs - given.rhs  # type: ignore[operator]
        return any(verify(one, side, timeout_seconds=None) for side in (other, -other)) or bool(
            sp.solve(gold, gold.free_symbols)
        )
    except (TypeError, NotImplementedError):  # points have no difference
        return True


def _is_point(answer: Any) -> bool:
    if isinstance(answer, sp.Interval):
        return bool(answer.left_open and answer.right_open)
    return isinstance(answer, sp.Tuple)


def _are_in_order(gold: Any, given: Any) -> bool:
    """Say whether the order of two lists matters: one is a point, or one names a variable for each entry."""
    if _is_point(gold) or _is_point(given):
        return True
    both = isinstance(gold, sp.FiniteSet) and isinstance(given, sp.FiniteSet)
    return both and _names_variables(gold) != _names_variables(given)


def _names_variables(answer: sp.FiniteSet) -> bool:
    """Say whether a list is one of `x=1, y=2`; the entries of `x=1, x=2` and `x_1=1, x_2=2` are solutions."""
    names = {str(entry.lhs).partition("_")[0] for entry in answer if isinstance(entry, sp.Eq)}
    return 1 < len(names) == len(answer)


def _ordered(latex: str, answer: Any) -> Any:
    """Read a list without brackets as a point; a set of one entry is that entry."""
    if not isinstance(answer, sp.FiniteSet):
        return answer
    point = _list_without_brackets(latex)
    return answer.args[0] if point is None and len(answer) == 1 else point or answer


def _list_without_brackets(latex: str) -> sp.Tuple | None:
    point = _parse(f"({latex})") if "," in latex and not latex.startswith(r"\{") else None
    if isinstance(point, sp.Interval):
        return sp.Tuple(point.start, point.end)
    return point if isinstance(point, sp.Tuple) else None


def _repeated(latex: str, answer: Any) -> dict[Any, int]:
    """Return the entries that a list without brackets has several times, and how often."""
    if not isinstance(answer, sp.FiniteSet) or len(answer) > latex.count(","):
        return {}
    return {entry: count for entry, count in Counter(_list_without_brackets(latex) or ()).items() if count > 1}


def _like(answer: Any, other: Any) -> Any:
    """Give an answer the other's form: a column becomes a tuple, `(1,2)` a point, intervals a union, `f(x) = …` y."""
    if isinstance(other, sp.Union) and isinstance(answer, sp.FiniteSet):
        return sp.Union(*answer.args) if all(isinstance(entry, sp.Interval) for entry in answer) else answer
    if isinstance(answer, sp.MatrixBase) and answer.cols == 1 and isinstance(other, (sp.Tuple, sp.Interval)):
        return sp.Tuple(*answer)
    if isinstance(answer, sp.Interval) and isinstance(other, sp.MatrixBase) and answer.left_open and answer.right_open:
        return sp.Tuple(answer.start, answer.end)
    if not (isinstance(answer, sp.Eq) and isinstance(other, sp.Eq) and other.lhs == sp.Symbol("y", real=True)):
        return answer
    left = answer.lhs
    of_x = isinstance(left, AppliedUndef) and len(left.args) == 1 and isinstance(left.args[0], sp.Symbol)
    names_y = of_x and "_" not in str(left.func) and answer.rhs.free_symbols <= set(left.args)
    return sp.Eq(other.lhs, answer.rhs, evaluate=False) if names_y else answer


@dataclass(frozen=True, slots=True)
class _Solutions:
    """Where a condition holds, and the variable it is about; a set and a set-builder are about none."""

    values: sp.Set
    variable: str | None = None


def _is_condition(latex: str) -> bool:
    if _LOGIC.search(latex) or _SET_BUILDER.fullmatch(latex) or _MEMBER_OF.fullmatch(latex):
        return True
    several = len(_INEQUALITY.findall(latex)) > 1
    return several and all(_INEQUALITY.search(part) for part in _COMMA.split(latex))


def _solutions(latex: str) -> _Solutions | None:
    """Return the set that a set-builder, a condition on one variable, or a set stands for; else `None`."""
    builder = _SET_BUILDER.fullmatch(latex)
    if builder:
        inner = _condition(builder["condition"], builder["name"])
        if inner is None:
            return None
        within = _parse(builder["within"]) if builder["within"] else inner.values
        return _Solutions(sp.Intersection(within, inner.values)) if isinstance(within, sp.Set) else None
    parsed = None if _LOGIC.search(latex) else _parse(latex)
    if isinstance(parsed, sp.Set) and not parsed.atoms(Relational):
        member = _MEMBER_OF.fullmatch(latex)
        return _Solutions(parsed, member["name"] if member else None)
    return _condition(latex, None)


def _condition(latex: str, name: str | None) -> _Solutions | None:
    """Return where a condition on one variable holds: `or` joins, `and` and commas cut."""
    united: list[sp.Set] = []
    for alternative in latex.split(r"\lor "):
        cut: list[sp.Set] = []
        for atom in _CUT.split(alternative):
            member = _MEMBER_OF.fullmatch(atom.strip())
            relation = _parse(member["set"] if member else atom.strip())
            names = {member["name"]} if member else {str(one) for one in getattr(relation, "free_symbols", ())}
            if len(names) != 1 or (name is not None and {name} != names):
                return None
            name = names.pop()
            try:
                cut.append(relation if isinstance(relation, sp.Set) else relation.as_set())
            except Exception:  # SymPy raises all kinds of errors for relations that it cannot solve
                return None
        united.append(sp.Intersection(*cut))
    return _Solutions(sp.Union(*united), name)


@lru_cache(maxsize=4096)
def _parse(latex: str) -> Any:
    """Parse one answer into a SymPy object, or `None`. Kept, because the responses of a group share a reference."""
    latex = latex.replace("°", r"^{\circ}").replace("%", r"\%").replace(r"_{\odot}", r"_{\text{sun}}")
    if _MISREAD.search(latex):
        return None
    latex = _TRANSPOSED.sub("^{(T)}", _MEMBERSHIP.sub("", latex))
    latex = _PRIMED.sub(lambda match: f"{match[1]}_{{{'p' * len(match[2])}}}", latex)
    latex = normalize_latex(_SUBSCRIPTED_E.sub(r"\\text{\1}", latex), _NORMALISATION)
    for candidate in dict.fromkeys((latex, _last_side(latex))):
        try:
            expression = latex2sympy(
                candidate,
                is_real=True,
                convert_degrees=True,
                normalization_config=None,
                conversion_config=ConversionConfig(lowercase_symbols=False),
            )
            return _imaginary(_name_derivatives(expression), latex)
        except Exception:  # the grammar raises bare `Exception` for whatever it cannot read
            continue
    return None


def _imaginary(expression: Any, latex: str) -> Any:
    """Make the letter i the imaginary unit, unless it counts the terms of a sum."""
    letters = _COMMAND.sub("", latex)
    if "i" not in letters or "I" in letters or is_hopeless(expression):
        return expression
    if not isinstance(expression, (sp.Basic, sp.MatrixBase)) or expression.has(sp.Sum, sp.Product):
        return expression
    return expression.xreplace({name: sp.I for name in expression.free_symbols if str(name) == "i"})


def _name_derivatives(expression: Any) -> Any:
    """Make a name of every derivative: SymPy takes dM/dt of a plain symbol M for 0, and any two equations agree."""
    if not isinstance(expression, sp.Basic) or not expression.has(sp.Derivative):
        return expression
    return expression.replace(
        lambda part: isinstance(part, sp.Derivative), lambda part: sp.Symbol(f"[{part}]", real=True)
    )


def _last_side(latex: str) -> str:
    """Return what follows the last `=` of a chain (`x = 2 + 3 = 5`); lists of equations stay whole."""
    if latex.count("=") < 2 or "," in latex or ";" in latex:
        return latex
    return latex.rpartition("=")[2]


def is_hopeless(expression: object) -> bool:
    """Say whether some power or factorial in an expression has too many digits to be computed."""
    return isinstance(expression, sp.Basic) and _measure(expression)[1] > MAX_DIGITS


def _measure(expression: sp.Basic) -> tuple[float, float]:
    """Return (log10 of the expression's size, most digits of any part); a size of 0 where there is none to tell."""
    if isinstance(expression, sp.Rational):
        size = math.log10(max(abs(expression.p), expression.q, 1))
        return size, size
    if isinstance(expression, NumberSymbol) or not expression.args:
        return 0.0, 0.0
    measured = [_measure(part) for part in expression.args if isinstance(part, sp.Basic)]
    sizes, worst = [size for size, _ in measured], max((digits for _, digits in measured), default=0.0)
    size = 0.0
    if expression.is_Pow:
        size = sizes[0] * _from_log10(sizes[1])
    elif isinstance(expression, sp.factorial):
        size = _from_log10(sizes[0]) * max(sizes[0] - 0.434, 0.0)
    elif expression.is_Mul:
        size = sum(sizes)
    elif expression.is_Add:
        size = max(sizes, default=0.0)
    return size, max(worst, size)


def _from_log10(size: float) -> float:
    return 10.0**size if size < 300 else math.inf


def differ_at_a_point(gold: object, given: object) -> bool:
    """Say whether two expressions have clearly different values at some point; variables go by their names."""
    if not (isinstance(gold, sp.Expr) and isinstance(given, sp.Expr)):
        return False
    if isinstance(gold, sp.Symbol) or isinstance(given, sp.Symbol):  # may be a word, which math-verify spells out
        return False
    if gold.has(*_UNLIKE_NUMBERS) or given.has(*_UNLIKE_NUMBERS):
        return False
    # Positive, so that roots and logarithms stay real; fixed, so that a grade never depends on chance.
    variables = gold.free_symbols | given.free_symbols
    points = {name: 0.4142 + 0.618 * index for index, name in enumerate(sorted(map(str, variables)), start=1)}
    at: Any = {variable: points[str(variable)] for variable in variables}
    one, other = _value(gold, at), _value(given, at)
    if one is None or other is None:
        return False
    return abs(one - other) > DIFFERENT * max(abs(one), abs(other)) or _differ_far_behind(gold, given)


def _differ_far_behind(gold: sp.Expr, given: sp.Expr) -> bool:
    """Say whether two exact numbers have a difference that math-verify rounds away, as 3 - 3⁻⁹⁹ and 3 - 3⁻⁹⁸ have."""
    if gold.free_symbols or given.free_symbols or gold.has(sp.Float) or given.has(sp.Float):
        return False
    difference = sp.Add(gold, sp.Mul(-1, given)).doit()
    if isinstance(difference, sp.Rational):
        return difference != 0
    value = _value(difference, {}, most_digits=FAR_BEHIND)
    return value is not None and value != 0


def _value(expression: sp.Expr, at: Any, *, most_digits: int = 100) -> Any:
    """Evaluate to a number of any size, or `None` where there is none or all its digits cancelled out."""
    try:
        parts = [sp.Float(part) for part in expression.evalf(15, subs=at, maxn=most_digits).as_real_imag()]
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    if any(part._prec == 1 or not part.is_finite for part in parts):
        return None
    return mpmath.mpc(*[part._to_mpmath(53) for part in parts])
