import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mada.grading.answer import Colon, Words, algebra_pair, compare_plainly, read_answer
from mada.grading.normalization import normalize
from mada.grading.quantities import Unit, split_unit

LATEX = st.text(alphabet=r"\{}()[]$.,:;!%°^_=+-*/ 0123456789abexyzABC~'&πé√²½", max_size=60)


@pytest.mark.parametrize(
    ("written", "spelling"),
    [
        (r"\dfrac 12", r"\frac{1}{2}"),
        ("½", r"\frac{1}{2}"),
        (r"$\frac43$.", r"\frac{4}{3}"),
        (r"\[ 5 \]", "5"),
        (r"\( x \)", "x"),
        (r"11,\! 111,\! 111,\! 100", "11111111100"),
        (r"\{100,200\}", r"\{100,200\}"),
        ("100,200", "100200"),
        ("1,2,3", "1,2,3"),
        ("np.arcsin(10/13)", r"\arcsin(10/13)"),
        ("math.sqrt(2)/2", r"\sqrt{2}/2"),
        ("2**3", "2^{3}"),
        ("2**(n+1)", "2^{n+1}"),
        ("8.7e8", r"8.7 \times 10^{8}"),
        ("2e", "2e"),
        ("x_1^2", "x_{1}^{2}"),
        ("x₁²", "x_{1}^{2}"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"( 3, \frac{\pi}{2} )"),
        (r"1 \\ 2", r"1 \\ 2"),
        (r"5\%", "5%"),
        ("5 percent", "5 %"),
        (r"90^{\circ}", "90°"),
        (r"\mathrm{~cm}", r"\text{ cm}"),
        (r"\approx 8.24", "8.24"),
        (r"\operatorname{arcsin}(x)", r"\arcsin (x)"),
        ("a * b", r"a \cdot b"),
        ("3 x 10^8", r"3 \times 10^{8}"),
        ("10!", "10!"),
        ("5\x00\u200b\u202e", "5"),
        ("√(2)", r"\sqrt{2}"),
        ("(" * 300 + "x+1" + ")" * 300, "(x+1)"),
        ("((a)+(b))", "((a)+(b))"),
        ("((1+x)", "((1+x)"),
        ("(()", "(()"),
    ],
)
def test_one_spelling(written, spelling):
    assert normalize(written) == spelling


@given(LATEX)
@example("$$5$$")
@example("**5**.")
def test_reading_never_fails_and_every_answer_equals_itself(text):
    assert compare_plainly(read_answer(text), read_answer(text)) is True


@given(LATEX, LATEX)
def test_plain_comparison_never_fails(first, second):
    assert compare_plainly(read_answer(first), read_answer(second)) in (True, False, None)


@pytest.mark.parametrize(
    "piece",
    [
        "m",
        "mm ",
        "m/",
        r"\text{m}",
        r"\text{m} ",
        "1,000",
        "1 000 ",
        "$",
        "((",
        "{",
        r"\boxed{",
        "**(",
        "a ",
        "A:",
        "1:",
        "~",
        r"\!",
        "cm per ",
    ],
)
def test_reading_a_long_repetition_does_not_hang(piece):
    repeated = "5" + piece * (2_000 // len(piece)) + "?"
    assert compare_plainly(read_answer(repeated), read_answer(repeated)) is True


@pytest.mark.parametrize(
    ("latex", "quantity", "unit"),
    [
        (r"5 \text{ cm}", "5", Unit("cm", known=True)),
        ("5 cm", "5", Unit("cm", known=True)),
        ("5 m", "5", Unit("m", known=True, letter=True)),
        (r"5 \text{ m}", "5", Unit("m", known=True)),
        ("5 inches", "5", Unit("in", known=True)),
        ("5 feet", "5", Unit("ft", known=True)),
        (r"5 \text{ apples}", "5", Unit("apples", known=False)),
        (r"15\text{ cm}^{2}", "15", Unit("cm^2", known=True)),
        (r"12\sqrt{13}\text{ feet}", r"12\sqrt{13}", Unit("ft", known=True)),
        ("90°", "90", Unit("degree", known=True)),
        (r"\text{Evelyn}", r"\text{Evelyn}", None),
        (r"\lambda_{\text{red}}", r"\lambda_{\text{red}}", None),
        (r"x = 3 \text{ or } 4", r"x = 3 \text{ or } 4", None),
        (r"5 \text{ if } x", r"5 \text{ if } x", None),
        (r"3 \text{ or}", r"3 \text{ or}", None),
        (r"\cos 60°", r"\cos 60°", None),
        ("3c", "3c", None),
        ("mm", "mm", None),
    ],
)
def test_split_unit(latex, quantity, unit):
    assert split_unit(latex) == (quantity, unit)


def test_what_an_answer_is_read_as():
    assert read_answer("2516_8").base == ("2516", 8)
    assert read_answer(r"1A_{16}").base == ("1A", 16)
    assert read_answer("4:30 p.m.").colon == Colon(("4", "30"), "p")
    assert read_answer(r"\text{(C)}").choice == "C"
    assert read_answer(r"\text{two lines}").words == Words("two lines", certain=True)
    assert read_answer("abcd").words == Words("abcd", certain=False)
    assert read_answer("x_1").base is None
    assert read_answer("x+1").words is None


def test_a_lone_letter_behind_a_number_is_a_unit_only_where_the_reference_has_no_such_variable():
    gold, metres = read_answer(r"\frac{37}{4} m"), read_answer("9 m")
    assert algebra_pair(gold, read_answer("9.25")) == (r"\frac{37}{4} m", "9.25")
    assert algebra_pair(read_answer("x+m"), metres) == ("x+m", "9 m")
    assert algebra_pair(read_answer("x+1"), metres) == ("x+1", "9 m")
    assert compare_plainly(read_answer("9"), metres) is True
