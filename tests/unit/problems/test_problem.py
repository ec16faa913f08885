import dataclasses

import pytest

from mada.errors import DataError
from mada.problems import Problem


def test_a_problem_is_a_frozen_value() -> None:
    problem = Problem(question="1 + 1?", answer="2", id="a/1", source="hand")

    assert problem == Problem("1 + 1?", "2", "a/1", "hand")
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.answer = "3"  # type: ignore[misc]


@pytest.mark.parametrize("field", ["question", "answer", "id", "source"])
def test_no_field_may_be_empty_or_something_else_than_text(field: str) -> None:
    fields: dict[str, str] = {"question": "q", "answer": "a", "id": "i", "source": "s"}

    with pytest.raises(DataError, match=f"a problem's {field} is empty; wanted text"):
        Problem(**{**fields, field: " \n"})
    with pytest.raises(DataError, match=f"a problem's {field} is int; wanted text"):
        Problem(**{**fields, field: 7})  # type: ignore[arg-type]


def test_half_a_character_is_refused_because_it_cannot_be_written_out() -> None:
    with pytest.raises(DataError, match=r"question holds half of a character \('x\\ud800'\)"):
        Problem("x\ud800", "1", "i", "s")
    assert Problem("x𝔸", "1", "i", "s").question == "x𝔸"
