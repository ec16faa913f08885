"""Numbers as people read them."""

import pytest

from mada.evaluation.statistics import Comparison
from mada.report.numbers import (
    count_text,
    counted,
    duration,
    p_text,
    points_text,
    range_text,
    share_text,
    small_text,
    starred,
)


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "–"), (1.0, "1.000"), (0.0499, "0.050"), (0.004, "0.004"), (0.0009, "<0.001"), (0.0, "<0.001")],
)
def test_p_values(p, text):
    assert p_text(p) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "−5.2"), (0.05, "−5.2"), (0.0499, "−5.2 *"), (0.0099, "−5.2 **"), (0.0009, "−5.2 ***")],
)
def test_stars_follow_the_difference(p, text):
    assert starred(Comparison(-0.0521, 0.1, 0.0, 0.2, p)) == text


def test_shares():
    assert [share_text(share) for share in (None, 0.0, 0.7204, 1.0)] == ["–", "0.0", "72.0", "100.0"]


def test_differences_have_their_sign_and_zero_has_none_of_minus():
    assert [points_text(share) for share in (-0.0521, 0.02, 0.0, -0.0001)] == ["−5.2", "+2.0", "+0.0", "+0.0"]


def test_ranges():
    assert range_text(-0.01, 0.025) == "−1.0 to +2.5"
    assert range_text(None, 0.1) == range_text(0.1, None) == "–"


def test_counts():
    assert [count_text(number) for number in (6.0, 5.94, 1234.0, 10.0)] == ["6", "5.9", "1,234", "10"]
    assert [counted(1, "seed"), counted(1000, "seed")] == ["1 seed", "1,000 seeds"]


def test_small_numbers_keep_three_digits():
    assert [small_text(number) for number in (None, 0, 0.0041234, 1.5, 99.94, 999.9, 1234.5)] == [
        *("–", "0", "0.00412", "1.5", "99.9", "1,000", "1,234")
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (7620, "2 h 7 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
