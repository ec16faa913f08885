"""Numbers as people read them."""

import pytest

from mada.report.numbers import (
    count_text,
    p_text,
    points_text,
    range_text,
    share_text,
    small_text,
    spread_text,
    uncertain_text,
)


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "–"), (1.0, "1.000"), (0.0499, "0.050"), (0.004, "0.004"), (0.0009, "<0.001"), (0.0, "<0.001")],
)
def test_p_values(p, text):
    assert p_text(p) == text


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.419, 0.003, "41.9(3)"),
        (0.284, 0.013, "28.4(1.3)"),
        (0.8012, 0.1234, "80.1(12.3)"),
        (0.419, 0.0098, "41.9(1.0)"),
        (0.419, 0.002, "41.9(2)"),
        (0.7281, 0.0019, "72.81(19)"),
        (0.5, 0.0, "50.00(0)"),
        (0.535, None, "53.5"),
        (-0.052, 0.005, "−5.2(5)"),
        (-0.0001, 0.01, "0.0(1.0)"),
    ],
)
def test_errors_below_one_count_in_the_last_digit(share, error, text):
    assert uncertain_text(share, error) == text
    if share > 0:
        assert uncertain_text(share, error, signed=True) == f"+{text}"


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.419, 0.003, "41.9 ± 0.3"),
        (0.7281, 0.0019, "72.81 ± 0.19"),
        (0.5, 0.0, "50.00 ± 0.00"),
        (0.535, None, "53.5"),
        (-0.052, 0.0131, "−5.2 ± 1.3"),
    ],
)
def test_errors_behind_a_sign_are_in_points(share, error, text):
    assert spread_text(share, error) == text
    if share > 0:
        assert spread_text(share, error, signed=True) == f"+{text}"


def test_shares():
    assert [share_text(share) for share in (None, 0.0, 0.7204, 1.0)] == ["–", "0.0", "72.0", "100.0"]


def test_differences_have_their_sign_and_zero_has_none_of_minus():
    assert [points_text(share) for share in (-0.0521, 0.02, 0.0, -0.0001)] == ["−5.2", "+2.0", "+0.0", "+0.0"]


def test_ranges():
    assert range_text(-0.01, 0.025) == "−1.0 to +2.5"
    assert range_text(None, 0.1) == range_text(0.1, None) == "–"


def test_counts():
    assert [count_text(number) for number in (6.0, 5.94, 1234.0, 10.0)] == ["6", "5.9", "1,234", "10"]


def test_small_numbers_keep_three_digits():
    assert [small_text(number) for number in (None, 0, 0.0041234, 1.5, 99.94, 999.9, 1234.5)] == [
        *("–", "0", "0.00412", "1.5", "99.9", "1,000", "1,234")
    ]
