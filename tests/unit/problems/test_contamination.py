"""Copies: which texts are the same statement, and which training problems resemble a benchmark's."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.problems import Match, Problem, find_overlaps, remove_copies
from mada.problems.contamination import Overlap, text_key

Make = Callable[..., Problem]

COPIES = [
    ("Find  $x$.", "find x"),
    ("Let $f(x)=|x-p|$, where $0 < p < 15$.", "Let $f(x) = |x - p|,$ where $0<p<15.$"),
    (r"\( \alpha_{1}, \alpha_{2} \)", r"$\alpha_1,$ $\alpha_2$"),
    (r"x^{4}+2 x^{3}+2=0", r"$x^4+2x^3+2=0$"),
    (r"\left\{\frac{1}{4}, \dfrac{1}{8}, \dots \right\}", r"\{\frac14,\tfrac 1 8,\cdots\}"),
    (r"\begin{align*}x&=1,\\ y&=2\end{align*}", r"$x=1$, $y=2$"),
    (r"\left\{\begin{array}{l} x=1 \\ y=2 \end{array}\right.", r"\begin{cases} x=1 \\ y=2 \end{cases}"),
    (r"\overline{r_1}", r"\overline{r}_1"),
    (r"$x \leq 3$", "x ≤ 3"),
    (r"1,000 and 2,\!500", "1000 and 2500"),
    ("1, 2, ..., n", r"$1,2,\ldots,n$"),
    ("x² + y¹⁰", "x^2 + y^{10}"),
    ("ｘ＝３", "x=3"),
    ("5 − 3", "5 - 3"),
    (".5 m", "0.5 m"),
    ("He said “yes”", 'he said "yes"'),
    (r"n^{\text{th}}", r"n^{th}"),
    (r"square \(A B C D\) of side 13", "square $ABCD$ of side 13"),
]
DIFFERENT = [
    ("z^4 - z^2 + 1", "z^4 + z^2 + 1"),
    (r"\frac{1}{12}", r"\frac{11}{2}"),
    ("divided by 8", "divided by 9"),
    ("2³", "23"),
    ("2.5", "25"),
    ("1 2", "12"),
    ("(2x-y)^2", "2x-y^2"),
    ("x < 3", "x > 3"),
    ("f'(2)", "f(2)"),
    ("5!", "5"),
    ("A ∪ B", "A ∩ B"),
    ("???", "!!!"),
    (".", ":"),
]


@pytest.mark.parametrize(("one", "other"), COPIES)
def test_typesetting_does_not_make_a_new_problem(one: str, other: str) -> None:
    assert text_key(one) == text_key(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_numbers_and_operators_do(one: str, other: str) -> None:
    assert text_key(one) != text_key(other)


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_every_text_has_a_key_and_white_space_around_it_does_not_matter(text: str) -> None:
    assert text_key(text)
    assert text_key(f"  {text}\n") == text_key(text)


ONE_TO_TEN = "What is the remainder when $1 + 2 + 3 + 4 + \\dots + 9 + 10$ is divided by"


def overlap(training: list[Problem], benchmark: list[Problem], **settings: float) -> Overlap:
    return find_overlaps(training, {"benchmark": benchmark}, **settings)["benchmark"]  # type: ignore[arg-type]


def test_the_three_kinds_of_match_strongest_first(problem: Make) -> None:
    benchmark = [problem(f"{ONE_TO_TEN} 9?", "1", "b/9"), problem("Find $x$ if $x + 1 = 3$.", "2", "b/x")]
    training = [
        problem(f"{ONE_TO_TEN} 8?", "7", "t/sibling"),
        problem("Something else altogether, about seven green bottles on a wall.", "7", "t/other"),
        problem(f"Please tell: {ONE_TO_TEN} 9?", "1", "t/near"),
        problem("find x if x+1=3", "5", "t/exact"),
    ]

    found = overlap(training, benchmark)

    # 16 words make 11 runs of six; two words in front add two runs, one other word at the end replaces one.
    assert found.matches == (
        Match("t/exact", "b/x", "exact", 1.0),
        Match("t/near", "b/9", "near", 11 / 13),
        Match("t/sibling", "b/9", "sibling", 10 / 12),
    )
    assert (found.training_rows, found.benchmark_rows) == (4, 2)


def test_copies_are_removed_and_counted_by_benchmark(problem: Make) -> None:
    training = [problem("Find $x$", name="t/1"), problem("keep", name="t/2"), problem("find x.", name="t/3")]
    training += [problem("Both", name="t/4")]
    benchmarks = {
        "one": [problem("find x", name="b"), problem("both")],
        "two": [problem("both")],
        "three": [],
    }

    clean = remove_copies(training, benchmarks)

    assert [kept.id for kept in clean.kept] == ["t/2"]
    assert clean.dropped == {"one": 3, "two": 0, "three": 0}
    assert remove_copies(training, {}).kept == tuple(training)
