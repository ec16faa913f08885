import pytest
from pydantic import JsonValue

from mada.difference import ABSENT, Difference, differences, format_differences


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({}, {}, []),
        ({"a": 1, "b": {"c": [1, {"d": 2}]}}, {"b": {"c": [1, {"d": 2}]}, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": None}, {}, [("a", None, ABSENT)]),
        ({}, {"a": None}, [("a", ABSENT, None)]),
        ({"t": {"lr": 1e-6, "steps": 5}}, {"t": {"lr": 1e-5, "steps": 5}}, [("t.lr", 1e-6, 1e-5)]),
        ({"t": {"lr": 1}}, {"t": None}, [("t", {"lr": 1}, None)]),
        ({"s": ["a", "b"]}, {"s": ["a", "c"]}, [("s[1]", "b", "c")]),
        ({"s": ["a"]}, {"s": ["a", "c"]}, [("s", ["a"], ["a", "c"])]),
        ({"s": [{"r": 16}]}, {"s": [{"r": 32}]}, [("s[0].r", 16, 32)]),
        ({"old": 1, "b": 2, "a": 3}, {"a": 4, "b": 5}, [("a", 3, 4), ("b", 2, 5), ("old", 1, ABSENT)]),
    ],
)
def test_differences(
    left: dict[str, JsonValue], right: dict[str, JsonValue], expected: list[tuple[str, object, object]]
) -> None:
    assert differences(left, right) == [Difference(*one) for one in expected]


def test_differences_stand_in_columns() -> None:
    found = [Difference("train.rate", 1e-06, ABSENT), Difference("name", "é\x1b\x9b\n", None)]
    assert format_differences(found).splitlines() == [
        "train.rate  1e-06                   →  (absent)",
        'name        "\\u00e9\\u001b\\u009b\\n"  →  null',
    ]
    assert format_differences([]) == ""


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("x" * 100, 1, ('"' + "x" * 46 + "…", "1")),
        ("a" * 60 + "LEFT", "a" * 60 + "RIGHT", ("…" + "a" * 16 + 'LEFT"', "…" + "a" * 16 + 'RIGHT"')),
        ("a" * 60, "a" * 61, ("…" + "a" * 16 + '"', "…" + "a" * 17 + '"')),
    ],
)
def test_long_values_are_cut_so_that_the_place_where_they_part_shows(left: object, right: object, expected) -> None:
    assert Difference("key", left, right).shown() == expected


def test_a_long_list_is_cut() -> None:
    lines = format_differences(Difference(f"k{number}", 0, 1) for number in range(23)).splitlines()
    assert lines[19:] == ["k19  0  →  1", "and 3 more"]
