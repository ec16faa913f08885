import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.errors import RunError
from mada.run.json_text import is_json, json_text

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é 日本 😀", '"é 日本 😀"'),
        ("a\nb\r\t\x00", '"a\\nb\\r\\t\\u0000"'),
        ("\u2028\u2029\x85\x7f\x9b", '"\\u2028\\u2029\\u0085\\u007f\\u009b"'),
        ("a\ud800b", '"a\\ud800b"'),
        ("\\\ud800", '"\\\\\\ud800"'),
        ({"b": [1, 2.5, None], "a": True}, '{"b":[1,2.5,null],"a":true}'),
    ],
)
def test_text(value: object, text: str) -> None:
    assert json_text(value, subject="it") == text
    assert json.loads(text) == value


def test_indented_text_is_for_people() -> None:
    assert json_text({"a": [1]}, subject="it", indent=2) == '{\n  "a": [\n    1\n  ]\n}'


@given(plain)
def test_any_value_reads_back_from_one_line_of_utf8(value: object) -> None:
    text = json_text(value, subject="it")
    assert json.loads(text.encode()) == value
    assert text.splitlines() == [text]


def test_two_half_pairs_side_by_side_become_the_character_they_denote() -> None:
    assert json.loads(json_text("\ud83d\ude00", subject="it")) == "😀"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (float("nan"), "it is nan"),
        ({"loss": float("inf")}, "loss is inf"),
        ({"a": {"b": [0.0, {"c": float("-inf")}]}, "d": float("nan")}, "a.b[1].c is -inf, d is nan"),
        ([[float("nan")]], "[0][0] is nan"),
    ],
)
def test_numbers_that_json_lacks_are_refused_by_name(value: object, found: str) -> None:
    with pytest.raises(RunError) as caught:
        json_text(value, subject="a record of scores.jsonl")
    assert str(caught.value) == (
        f"a record of scores.jsonl cannot be stored: {found}; JSON holds finite numbers only. "
        "Store None for a missing value, and look for where the number came from"
    )


def test_a_number_too_long_to_write_is_refused_in_pythons_words() -> None:
    with pytest.raises(RunError, match="Exceeds the limit"):
        json_text({"n": 10**5000}, subject="it")


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        (b'{"a": 1}\n', True),
        (b'"\\ud800"', True),
        (b'{"a": 1', False),
        (b"\n", False),
        (b"\x00\x00", False),
        (b'"\xff"', False),
        (b"[" * 100_000, False),
    ],
)
def test_a_line_is_json_or_not(line: bytes, whole: bool) -> None:
    assert is_json(line) is whole
