"""Hostile and merely strange titles as letters in a figure."""

import pytest

from mada.report.figures.drawing import UNKNOWN, plain, shortened, wrapped


def test_a_dollar_is_a_dollar():
    assert plain(r"$\frac{1}{2}$") == r"\$\frac{1}{2}\$"


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("a\nb\tc\x00\x1b[2J", "a b c [2J"),
        ("模型 7B", f"{UNKNOWN}{UNKNOWN} 7B"),
        ("\u202eright to left", "right to left"),
        ("half a pair \ud800", f"half a pair {UNKNOWN}"),
        ("ünïcödé −5 … ★", "ünïcödé −5 … ★"),
        ("", ""),
    ],
)
def test_letters_that_cannot_be_drawn_or_do_something(text, letters):
    assert plain(text) == letters


def test_shortened_to_a_width():
    assert shortened("twelve chars", 12) == "twelve chars"
    assert shortened("twelve chars more", 12) == "twelve char…"
    assert shortened("a $ at the end", 4) == r"a \$…"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one agent", "one agent"),
        ("trained vote at MADA's tokens", "trained vote at\nMADA's tokens"),
        ("generators, trained", "generators,\ntrained"),
        ("x" * 50, "x" * 17 + "…"),
        ("one two three four five six seven eight nine", "one two three four\nfive six seven…"),
        ("", ""),
    ],
)
def test_wrapped_into_lines_of_like_length(text, lines):
    assert wrapped(text, 18) == lines
