import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.grading.extraction import after_thinking, extract_answer, last_box


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{5}", "5"),
        (r"\boxed{ 5 }", "5"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{3} then \boxed{5}", "5"),
        (r"\boxed{3} then \boxed{5", "3"),
        (r"\boxed{1+\boxed{2}}", r"1+\boxed{2}"),
        (r"\boxed{3} and \boxed{ }", "3"),
        (r"$\boxed{3}$ and $\boxed{5}$", "3, 5"),
        (r"\boxed{1}, x = \boxed{3}, or $x_2=\boxed{5}$", "1, 3, 5"),
        (r"\boxed{1}, then \boxed{3} or \boxed{3}", "3"),
        (r"\boxed{1}\n\boxed{3}", "3"),
        (r"\boxed{1" + "," + " " * 100 + r"\boxed{3}}", "1," + " " * 100 + r"\boxed{3}"),
        (r"\boxed{1}," + " " * 100 + r"\boxed{3}", "3"),
        (r"\\boxed{5}", "5"),
        (r"a \\{ \boxed{5}", "5"),
        (r"} } \boxed{5} }", "5"),
        (r"{ { \boxed{5} ", "5"),
        (r"\boxed 5", None),
        (r"\boxed{}", None),
        ("no box", None),
        ("", None),
    ],
)
def test_last_box(text, expected):
    assert last_box(text) == expected


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("plain", False, "plain"),
        ("<think>a</think>b", False, "b"),
        ("a</think>b</think>c", False, "c"),
        ("<think>a", False, None),
        ("<think>a</think>b<think>c", False, None),
        ("still thinking", True, None),
        ("thought</think>b", True, "b"),
    ],
)
def test_after_thinking(text, opened, expected):
    assert after_thinking(text, thinking_opened=opened) == expected


def test_an_answer_cut_off_while_thinking_is_no_answer_when_the_prompt_opened_the_block():
    reply = r"so it could be \boxed{5}, but"
    assert extract_answer(reply) == "5"
    assert extract_answer(reply, thinking_opened=True) is None


@given(st.text(alphabet="{}\\boxed 1<think>/", max_size=200))
def test_extraction_never_fails_and_returns_part_of_the_text(text):
    answer = extract_answer(text)
    assert answer is None or (answer and all(part in text for part in answer.split(", ")))


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("\\boxed{", None),
        ("{", None),
        ("}", None),
        ("\\boxed{{}", None),
        ("\\\\", None),
        ("<think>", None),
        ("\\boxed{x}", "x"),
        ("\\boxed{x},", "x"),
    ],
)
def test_a_megabyte_of_anything_is_read_in_one_pass(piece, expected):
    assert extract_answer(piece * (1_000_000 // len(piece))) == expected  # hangs, if the pass is quadratic


def test_deeply_nested_boxes_are_read_in_one_pass():
    depth = 60_000
    assert extract_answer("\\boxed{" * depth + "7" + "}" * depth) == "\\boxed{" * (depth - 1) + "7" + "}" * (depth - 1)
