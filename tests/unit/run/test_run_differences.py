import pytest
from pydantic import JsonValue

from mada.run import ABSENT, Difference, differences
from mada.run.differences import listed


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
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
    stored: dict[str, JsonValue], given: dict[str, JsonValue], expected: list[tuple[str, object, object]]
) -> None:
    assert differences(stored, given) == tuple(Difference(*one) for one in expected)


def test_a_difference_is_one_readable_line() -> None:
    assert str(Difference("train.rate", 1e-06, ABSENT)) == "train.rate: stored 1e-06, given (absent)"
    assert str(Difference("prompt", "é\n", None)) == 'prompt: stored "\\u00e9\\n", given null'
    assert str(Difference("p", "x" * 100, 1)) == f'p: stored "{"x" * 58}…, given 1'


def test_a_long_list_is_cut() -> None:
    found = [Difference(f"k{number}", 0, 1) for number in range(23)]
    lines = listed(found).splitlines()
    assert lines[0] == "  k0: stored 0, given 1"
    assert lines[19] == "  k19: stored 0, given 1"
    assert lines[20:] == ["  and 3 more"]
    assert listed(found[:20]).splitlines() == lines[:20]
