"""A problem, and how rows become problems."""

import dataclasses
from collections.abc import Mapping

import pytest

from mada.errors import DataError
from mada.problems import Problem
from mada.problems.problem import ANSWER_FORMS, Row, read_problems, with_unique_ids


def read(*rows: Mapping[str, object], skipped: list[str] | None = None, **options: str) -> list[Problem]:
    located = [Row(f"p.jsonl:{number}", values) for number, values in enumerate(rows, start=1)]
    return with_unique_ids(read_problems(located, "p", options, skipped=skipped))


def test_a_problem_is_a_frozen_value_of_four_texts() -> None:
    problem = Problem(question="1 + 1?", answer="2", id="a/1", source="hand")
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.answer = "3"  # type: ignore[misc]
    for field in ("question", "answer", "id", "source"):
        with pytest.raises(DataError, match=f"{field} is empty"):
            dataclasses.replace(problem, **{field: " \n"})
        with pytest.raises(DataError, match=f"{field} is int"):
            dataclasses.replace(problem, **{field: 7})
    with pytest.raises(DataError, match=r"half of a character \('x\\ud800'\)"):
        Problem("x\ud800", "1", "i", "s")
    assert Problem("x𝔸", "1", "i", "s").question == "x𝔸"


@pytest.mark.parametrize(
    "names",
    [("question", "final_answer"), ("prompt", "ground_truth"), ("Problem", "Answer"), ("PROBLEM", "expected_answer")],
)
def test_well_known_column_names_are_found_in_any_case(names: tuple[str, str]) -> None:
    (problem,) = read({names[0]: "q", names[1]: "a"})
    assert (problem.question, problem.answer, problem.source) == ("q", "a", "p")


def test_problem_is_preferred_to_question_and_a_mapping_to_both() -> None:
    row = {"question": "second", "problem": "first", "text": "third", "answer": "1", "key": "k", "from": "there"}
    assert read(row)[0].question == "first"
    (mapped,) = read(row, problem="text", id="key", source="from")
    assert mapped == Problem("third", "1", "k", "there")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3, "3"), (-7, "-7"), (27.0, "27"), (0.1, "0.1"), (2.5e-7, "2.5e-07"), (1e300, "1e+300")),
        (10**20, "1" + "0" * 20),
    ],
)
def test_numbers_are_written_as_text(value: float, text: str) -> None:
    assert read({"problem": "q", "answer": value})[0].answer == text


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"answer": None}, "'answer' is empty"),
        ({"answer": "  "}, "'answer' is empty"),
        ({"answer": ["1"]}, r"'answer' is \['1'\]"),
        ({"answer": True}, r"'answer' is True"),
        ({"answer": float("nan")}, "'answer' is nan.* finite"),
        ({"answer": "2 + 2 = 4 #### 4"}, "'####' .*form = .after-hashes"),
        ({"problem": None}, "'problem' is empty"),
        ({"problem": " "}, "'problem' is empty"),
        ({"problem": [{"role": "user", "content": "q"}]}, "'problem' is \\["),
        ({"problem": "\ud800"}, "a problem's question holds half of a character"),
        ({"id": 1.5}, r"'id' is 1\.5"),
        ({"id": "x"}, r"the id 'x' was already used at p\.jsonl:1"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_location(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(DataError, match=rf"^p\.jsonl:2: .*{complaint}"):
        read({"problem": "q", "answer": "1", "id": "x"}, {"problem": "r", "answer": "1", "id": "y", **values})


def test_a_missing_column_or_field_names_the_location_and_what_is_there() -> None:
    with pytest.raises(DataError, match=r"^p\.jsonl:2: 'answer' is missing; every row needs 'problem' and 'answer'"):
        read({"problem": "q", "answer": "1"}, {"problem": "r"})
    with pytest.raises(DataError, match=r"question or prompt.* 'body', 'answer'; .* p\{problem = \"NAME\"\}"):
        read({"body": "q", "answer": "1"})
    with pytest.raises(DataError, match=r"answer \(looked for 'key'\); the columns are 'problem'"):
        read({"problem": "q"}, answer="key")
    with pytest.raises(DataError, match="the columns are none"):
        read({})


def test_rows_without_an_id_are_named_by_their_content_whatever_their_order() -> None:
    rows: list[dict[str, object]] = [
        {"problem": "q", "answer": "1"},
        {"problem": "q", "answer": "2", "id": None},
        {"problem": "q", "answer": "1", "id": " "},
    ]
    ids = [problem.id for problem in read(*rows)]
    assert ids[0] == "text-4a80498e843e674b"
    assert ids[2] == f"{ids[0]}-2"
    assert len(set(ids)) == 3
    assert sorted(problem.id for problem in read(*reversed(rows))) == sorted(ids)


def test_rows_without_an_answer_are_skipped_where_the_caller_collects_them() -> None:
    skipped: list[str] = []
    rows = ({"problem": f"q{number}", "answer": answer} for number, answer in enumerate(("1", "", None)))
    assert [one.answer for one in read(*rows, skipped=skipped)] == ["1"]
    assert skipped == ["p.jsonl:2", "p.jsonl:3"]


@pytest.mark.parametrize(
    ("form", "text", "answer"),
    [
        ("text", " 72 ", "72"),
        ("text", "  ", None),
        ("after-hashes", "48/2 = 24\n#### 72", "72"),
        ("after-hashes", "#### 1,200 ", "1200"),
        ("after-hashes", "one #### 1\n#### 2", "2"),
        ("after-hashes", "72", None),
        ("after-hashes", "72 ####", None),
        ("last-boxed", r"so $\boxed{3}$", "3"),
        ("last-boxed", r"\boxed{1} then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("last-boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("last-boxed", r"\fbox{9}", "9"),
        ("last-boxed", r"is $\boxed 7$.", "7"),
        ("last-boxed", r"\boxed{5} and \boxed{6", "5"),
        ("last-boxed", r"\boxed{5} and \boxed{}", "5"),
        ("last-boxed", r"5 is not boxed: \boxed", None),
        ("last-boxed", "5", None),
    ],
)
def test_the_final_answer_is_found_where_the_form_says(form: str, text: str, answer: str | None) -> None:
    assert ANSWER_FORMS[form](text) == answer
