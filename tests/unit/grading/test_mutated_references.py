r"""Near misses: a reference with one sign, digit, exponent, operator or entry changed is never accepted.

A change may leave the value as it is (`(x-1)^2` and `(1-x)^2`), so SymPy is shown each accepted one, through a reading
of its own: the LaTeX parsed as written, then values at points, or structure where there are no values.
"""

# pyright: basic
import json
import random
import re
from typing import Any

import pytest
from latex2sympy2_extended import latex2sympy
from sympy import Expr, FiniteSet, Float, MatrixBase, Tuple
from sympy.core.relational import Relational

from mada.grading import Grader

REFERENCES = [
    "17", "-3.25", r"\frac{7}{12}", r"-\frac{3}{4}", "12.5%", r"3\frac{1}{2}", r"6.02 \times 10^{23}", "1,234", "8.7e8",
    "3s^2", "x^2-4m^2", "2mgh", "5 m/s", r"15\text{ cm}^2", r"864 \mbox{ inches}^2", "300分钟",
    "2516_8", r"220110_{\text{base }3}",
    "4:30", r"8:34 \text{ p.m.}", "20:34:15", "3:4:5", "twenty five", "ab+cd", "(D) Alina",
    r"5 \text{ or } 7", "1,-2", "3, 5, 7", r"\{-2, 1, 4\}", r"\{1\pm\sqrt{5},-2\}", r"1 \pm \sqrt{19}",
    "(3,4]", r"(-\infty,1)\cup(2,\infty)", r"x<1 \text{ or } x>2", r"\{x \mid 1 \le x < 5\}",
    r"x \in [-2,7]", r"-2 \le x \le 7",
    "(6,31,-1)", r"\left(3,\frac{\pi}{2}\right)", r"\langle1,2,3\rangle", r"\begin{pmatrix}-2\\14\\-7\end{pmatrix}",
    r"\begin{pmatrix}1&-2\\3&4\end{pmatrix}",
    "y=2x+3", "f(x)=x^2-3x", "5x-7y+11z+4=0", r"\frac{dx}{dt}=kx-a", "x=5", "x=1,y=-2",
    "6-5i", "(1+2i)^3", r"\frac{5}{2-i}", r"e^{i\pi/3}", r"\sin 30^\circ", r"2\cos 20^\circ-1",
    "x^2+2x+1", r"(x-3)(x^2+5)", r"\sqrt{ab}-2", r"\ln\frac{a}{b}", r"\frac{x^2-1}{x+2}", r"11\sqrt{2}+3\pi",
    r"2^{10}-1", r"\log_2 9",
    r"\frac{1}{2a}(e^{at}-e^{-at})", r"\binom{9}{4}", "7!-2", r"\frac{n(n+1)}{2}", r"|x-3|+2", r"\lg 5", r"\max f = 5",
]  # fmt: skip


def sign(text: str, generator: random.Random) -> str:
    return text[1:] if text.startswith("-") else f"-{text}"


def digit(text: str, generator: random.Random) -> str:
    return _replaced(text, r"\d", generator, lambda old: str((int(old) + generator.randrange(1, 10)) % 10))


def exponent(text: str, generator: random.Random) -> str:
    return _replaced(text, r"(?<=\^)\d|(?<=\^\{)-?\d+(?=\})", generator, lambda old: str(int(old) + 1))


def operator(text: str, generator: random.Random) -> str:
    swaps = {"+": "-", "<": ">", "[": "(", "]": ")", r"\cup": r"\cap", r"\sin": r"\cos"}
    other = swaps | {new: old for old, new in swaps.items()}
    names = "|".join(map(re.escape, other))
    return _replaced(text, rf"(?<=[\w)}}\s])(?:{names})|^(?:[\[(]|\\sin|\\cos)", generator, lambda old: other[old])


def entries(text: str, generator: random.Random) -> str:
    """Swap two neighbours: entries of a list or a point, or what stands on both sides of a minus or a stroke."""
    separator = generator.choice(
        [separator for separator in (",", "&", r"\\", "-", "/", "}{", ":") if separator in text] or [","]
    )
    return _replaced(
        text,
        rf"[\w.]+\s*{re.escape(separator)}\s*-?[\w.]+",
        generator,
        lambda old: separator.join(reversed(old.split(separator, 1))),
    )


def _replaced(text, pattern, generator, change) -> str:
    """Change one place where the pattern matches; a text without any stays as it is."""
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    place = generator.choice(places)
    return text[: place.start()] + change(place[0]) + text[place.end() :]


MUTATIONS = (sign, digit, exponent, operator, entries)


def near_misses(references: list[str], *, seed: int, count: int = 1) -> list[tuple[str, str]]:
    generator = random.Random(seed)
    pairs = [
        (mutation(reference, generator), reference)
        for reference in references
        for mutation in MUTATIONS
        for _ in range(count)
    ]
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]


def sympy_calls_equal(one: str, other: str) -> bool:
    """Say whether SymPy finds two answers equal; one that it cannot read is not."""
    try:
        return _same(*(latex2sympy(text.replace(r"\ ", " ")) for text in (one, other)))
    except Exception:  # the grammar raises bare `Exception`
        return False


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Relational) and isinstance(other, Relational):
        ratios = [a / b for a, b in zip(*(_values(side.lhs - side.rhs) for side in (one, other)), strict=True)]  # type: ignore[operator]
        return type(one) is type(other) and all(abs(ratio - ratios[0]) < 1e-6 for ratio in ratios)
    if isinstance(one, FiniteSet) and isinstance(other, FiniteSet):
        return len(one) == len(other) and all(any(_same(a, b) for b in other) for a in one)
    if isinstance(one, MatrixBase) and isinstance(other, MatrixBase):
        return one.shape == other.shape and all(map(_same, one.flat(), other.flat()))
    if isinstance(one, (Tuple, tuple, list)) and isinstance(other, type(one)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Expr) and isinstance(other, Expr):
        return all(abs(a - b) <= 1e-6 * max(1, abs(a)) for a, b in zip(_values(one), _values(other), strict=True))
    return one == other


def _values(expression) -> list[complex]:
    names = sorted(expression.free_symbols, key=str)
    points = [{name: Float(0.31 + 0.73 * (place + shift)) for place, name in enumerate(names)} for shift in (0, 1, 2)]
    return [complex(expression.evalf(subs=point)) for point in points]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("2-2x", "-2x+2", True),
        ("(5-3y)^2", "(3y-5)^2", True),
        ("|3-x|+2", "|x-3|+2", True),
        ("16,2", "2,16", True),
        ("y=2x", "2y=4x", True),
        ("2-2x", "2+2x", False),
        ("1,-2", "1,2", False),
        ("(1,2)", "(2,1)", False),
        ("x<1", "x>1", False),
        ("y=2x", "y=3x", False),
        ("[1,2]", "(1,2]", False),
    ],
)
def test_sympy_is_asked_the_right_question(one, other, equal):
    assert sympy_calls_equal(one, other) is equal


def wrongly_accepted(references: list[str], *, seed: int) -> list[tuple[str, str]]:
    pairs = near_misses(references, seed=seed)
    assert len(pairs) > 1.5 * len(references)
    with Grader(time_limit=2.0) as grader:
        grades = grader.compare(pairs)
    accepted = [pair for pair, grade in zip(pairs, grades, strict=True) if grade.correct]
    return [pair for pair in accepted if not sympy_calls_equal(*pair)]


def test_no_near_miss_of_any_kind_of_reference_is_accepted():
    assert wrongly_accepted(REFERENCES, seed=0) == []


def test_no_near_miss_of_a_real_reference_is_accepted(data_folder):
    lines = [
        line
        for name in ("math500", "minerva_math", "math_train_12k")
        for line in (data_folder / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    answers = dict.fromkeys(json.loads(line)["answer"] for line in lines)
    formulas = [answer for answer in answers if not re.fullmatch(r"-?[\d.]+", answer) and len(answer) < 100]
    assert wrongly_accepted(random.Random(0).sample(formulas, 80), seed=1) == []
