import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.problems.text import text_key, tokens, words

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


def test_tokens_and_words_of_a_statement() -> None:
    statement = tokens(r"What is $2^{10} - \sqrt{3.5}$?")

    assert statement == ("what", "is", "2", "^", "10", "-", "sqrt", "3.5")
    assert words(statement) == ("what", "is", "2", "10", "sqrt", "3.5")


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_every_text_has_a_key_and_white_space_around_it_does_not_matter(text: str) -> None:
    assert text_key(text)
    assert text_key(f"  {text}\n") == text_key(text)
