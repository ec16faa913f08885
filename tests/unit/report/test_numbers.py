"""Numbers as people read them."""

import pytest

from mada.report import numbers


@pytest.mark.parametrize(
    ("share", "error", "bracketed", "spread"),
    [
        (0.419, 0.003, "41.9(3)", "41.9 ± 0.3"),
        (0.284, 0.013, "28.4(1.3)", "28.4 ± 1.3"),
        (0.8012, 0.1234, "80.1(12.3)", "80.1 ± 12.3"),
        (0.419, 0.0098, "41.9(1.0)", "41.9 ± 1.0"),
        (0.419, 0.002, "41.9(2)", "41.9 ± 0.2"),
        (0.7281, 0.0019, "72.81(19)", "72.81 ± 0.19"),
        (0.5, 0.0, "50.00(0)", "50.00 ± 0.00"),
        (0.535, None, "53.5", "53.5"),
        (-0.052, 0.0131, "−5.2(1.3)", "−5.2 ± 1.3"),
        (-0.0001, 0.01, "0.0(1.0)", "0.0 ± 1.0"),
    ],
)
def test_errors_in_brackets_below_one_count_in_the_last_digit(share, error, bracketed, spread):
    assert numbers.uncertain_text(share, error) == bracketed
    assert numbers.spread_text(share, error) == spread
    if share > 0:
        assert numbers.uncertain_text(share, error, signed=True) == f"+{bracketed}"
        assert numbers.spread_text(share, error, signed=True) == f"+{spread}"


@pytest.mark.parametrize(
    ("form", "given", "texts"),
    [
        (numbers.p_text, (None, 1.0, 0.0499, 0.004, 0.0009, 0.0), "– 1.000 0.050 0.004 <0.001 <0.001"),
        (numbers.share_text, (None, 0.0, 0.7204, 1.0), "– 0.0 72.0 100.0"),
        (numbers.points_text, (-0.0521, 0.02, 0.0, -0.0001), "−5.2 +2.0 +0.0 +0.0"),
        (numbers.count_text, (6.0, 5.94, 1234.0, 10.0), "6 5.9 1,234 10"),
        (numbers.small_text, (None, 0, 0.0041234, 1.5, 99.94, 999.9, 1234.5), "– 0 0.00412 1.5 99.9 1,000 1,234"),
    ],
)
def test_other_numbers(form, given, texts):
    assert [form(number) for number in given] == texts.split()


def test_ranges():
    assert numbers.range_text(-0.01, 0.025) == "−1.0 to +2.5"
    assert numbers.range_text(None, 0.1) == numbers.range_text(0.1, None) == "–"
