"""What can be told from a parsed answer before any algebra: that it is hopeless, or that it is another number.

`9^{9^{9^9}}` parses at once and would then be computed until the time limit kills the worker; adding up logarithms
tells that beforehand. And two expressions that differ at a point are not equal: two evaluations tell in a millisecond
what simplification takes thirty to find out. Equality is never decided here.
"""

# pyright: basic
# (SymPy carries no types)
import math
from typing import Any

import mpmath
from sympy import (
    Basic,
    Derivative,
    Expr,
    Float,
    Integral,
    Limit,
    Product,
    Rational,
    Sum,
    Symbol,
    UnevaluatedExpr,
    factorial,
)
from sympy.core.numbers import NumberSymbol

MAX_DIGITS = 1e8  # computing so many takes longer than any sensible time limit
DIFFERENT = 1e-4  # relative; well above the tolerance for decimals

_UNLIKE_NUMBERS = (Integral, Sum, Product, Limit, Derivative, UnevaluatedExpr)


def is_hopeless(expression: object) -> bool:
    """Say whether some power or factorial in an expression has too many digits to be computed."""
    return isinstance(expression, Basic) and _digits(expression) > MAX_DIGITS


def _digits(expression: Basic) -> float:
    """Estimate the most digits any number in an expression needs, along with the expression's own size."""
    return _measure(expression)[1]


def _measure(expression: Basic) -> tuple[float, float]:
    """Return (log10 of the expression's size, most digits of any part); a size of 0 where there is none to tell."""
    if isinstance(expression, Rational):
        size = math.log10(max(abs(expression.p), expression.q, 1))
        return size, size
    if isinstance(expression, NumberSymbol) or not expression.args:
        return 0.0, 0.0
    measured = [_measure(part) for part in expression.args if isinstance(part, Basic)]
    sizes, worst = [size for size, _ in measured], max((digits for _, digits in measured), default=0.0)
    size = 0.0
    if expression.is_Pow:
        size = sizes[0] * _from_log10(sizes[1])
    elif isinstance(expression, factorial):
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
    if not (isinstance(gold, Expr) and isinstance(given, Expr)):
        return False
    if isinstance(gold, Symbol) or isinstance(given, Symbol):  # may be a word, which math-verify spells out
        return False
    if gold.has(*_UNLIKE_NUMBERS) or given.has(*_UNLIKE_NUMBERS):
        return False
    # Positive, so that roots and logarithms stay real; fixed, so that a grade never depends on chance.
    variables = gold.free_symbols | given.free_symbols
    points = {name: 0.4142 + 0.618 * place for place, name in enumerate(sorted(map(str, variables)), start=1)}
    at: Any = {variable: points[str(variable)] for variable in variables}
    one, other = _value(gold, at), _value(given, at)
    if one is None or other is None:
        return False
    return abs(one - other) > DIFFERENT * max(abs(one), abs(other))


def _value(expression: Expr, at: Any) -> Any:
    """Evaluate to a number of any size, or `None` where there is none or all its digits cancelled out."""
    try:
        parts = [Float(part) for part in expression.evalf(15, subs=at).as_real_imag()]
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    if any(part._prec == 1 or not part.is_finite for part in parts):
        return None
    return mpmath.mpc(*[part._to_mpmath(53) for part in parts])
