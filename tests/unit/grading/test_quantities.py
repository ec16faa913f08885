from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.grading.normalization import normalize
from mada.grading.quantities import Number, read_number, same_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("2.50", Fraction(5, 2)),
        (".25", Fraction(1, 4)),
        ("2.", 2),
        (r"8.7 \times 10^{8}", 870_000_000),
        (r"-1 \cdot 10^{-3}", Fraction(-1, 1000)),
        (r"10^{-5}", Fraction(1, 100_000)),
        (r"-10^{2}", -100),
        (r"\frac{1}{2}", Fraction(1, 2)),
        (r"-\frac{1}{2}", Fraction(-1, 2)),
        (r"\frac{-1}{-2}", Fraction(1, 2)),
        (r"\frac{1.5}{3}", Fraction(1, 2)),
        ("7/2", Fraction(7, 2)),
        (r"3\frac{1}{2}", Fraction(7, 2)),
        (r"-3 \frac{1}{2}", Fraction(-7, 2)),
        ("3 1/2", Fraction(7, 2)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"-.1\overline{6}", Fraction(-1, 6)),
        (r"12.3\overline{45}", Fraction(12345 - 123, 990)),
        (r"0.\overline{9}", 1),
    ],
)
def test_numbers_are_read_exactly(text, value):
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1+1",
        r"\frac{1}{0}",
        "1/0",
        r"10^{99999}",
        r"1 \times 10^{401}",
        "1" * 401,
        "1,2",
        "--5",
        r"3\frac{-1}{2}",
        "٣x",
    ],
)
def test_what_is_no_plain_number_is_left_to_algebra(text):
    assert read_number(text) is None


def test_decimal_and_percent_are_remembered():
    assert read_number("2.5%") == Number(Fraction(5, 2), decimal=True, percent=True)
    assert read_number("2") == Number(Fraction(2))
    assert read_number("2.") == Number(Fraction(2))


@pytest.mark.parametrize(
    ("gold", "given_text", "same"),
    [
        ("1/3", "0.333333", True),
        ("1/3", "0.33333", False),
        ("0.333333", "1/3", True),
        ("1000000.1", "1000000.2", False),
        (r"6.3 \times 10^{-10}", r"7 \times 10^{-10}", False),
        ("0", r"1.0 \times 10^{-8}", False),
        ("50%", "0.5", True),
        ("0.5", "50%", True),
        ("50%", "50", True),
        ("50%", "50%", True),
        ("50%", "0.5%", False),
        ("5", "0.5", False),
        ("1000000000000000000001", "1000000000000000000002", False),
    ],
)
def test_same_number(gold, given_text, same):
    first, second = read_number(gold), read_number(given_text)
    assert first is not None
    assert second is not None
    assert same_number(first, second) is same


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=1000))
def test_every_way_of_writing_a_fraction_reads_as_the_same_value(value):
    top, bottom = value.numerator, value.denominator
    written = [
        f"{top}/{bottom}",
        f"\\frac{{{top}}}{{{bottom}}}",
        f"\\dfrac{{{top}}}{{{bottom}}}",
        f"$\\frac{{{top}}}{{{bottom}}}$",
    ]
    for text in written:
        number = read_number(normalize(text))
        assert number is not None
        assert number.value == value


@given(
    st.decimals(min_value=-(10**6), max_value=10**6, places=4),
    st.decimals(min_value=-(10**6), max_value=10**6, places=4),
)
def test_equality_of_decimals_is_reflexive_and_symmetric(first, second):
    one, other = read_number(f"{first:f}"), read_number(f"{second:f}")
    assert one is not None
    assert other is not None
    assert same_number(one, one)
    assert same_number(one, other) == same_number(other, one)
    assert same_number(one, other) == (first == second)


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_separators_change_nothing(value):
    for separator in (",", r"\,", "{,}", r",\!", " ", r"\;"):
        text = f"{value:,}".replace(",", separator)
        number = read_number(normalize(text))
        assert number is not None
        assert number.value == value
