from collections.abc import Mapping

import pytest

from mada.errors import DataError
from mada.problems import Problem
from mada.problems.rows import Layout, Row, collect_problems, drafts_from_rows, shown


def read(*rows: Mapping[str, object], **layout: object) -> list[Problem]:
    located = [Row(f"p.jsonl:{number}", values) for number, values in enumerate(rows, start=1)]
    return collect_problems(drafts_from_rows(located, Layout("p", **layout)))  # type: ignore[arg-type]


def test_a_row_becomes_a_problem() -> None:
    row = {"id": "a/1", "problem": " 1+1? ", "answer": " 2\n", "source": "hand", "level": 3}

    assert read(row) == [Problem("1+1?", "2", "a/1", "hand")]


@pytest.mark.parametrize(
    "names",
    [
        ("question", "final_answer"),
        ("prompt", "ground_truth"),
        ("Problem", "Answer"),
        ("PROBLEM", "expected_answer"),
    ],
)
def test_well_known_column_names_are_found_in_any_case(names: tuple[str, str]) -> None:
    (problem,) = read({names[0]: "q", names[1]: "a"})

    assert (problem.question, problem.answer, problem.source) == ("q", "a", "p")


def test_problem_is_preferred_to_question_and_a_mapping_to_both() -> None:
    row = {
        "question": "second",
        "problem": "first",
        "text": "third",
        "answer": "1",
        "key": "k",
        "from": "there",
    }

    assert read(row)[0].question == "first"
    (mapped,) = read(row, columns={"problem": "text", "id": "key", "source": "from"})
    assert mapped == Problem("third", "1", "k", "there")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-7, "-7"),
        (27.0, "27"),
        (0.1, "0.1"),
        (2.5e-7, "2.5e-07"),
        (1e300, "1e+300"),
        (10**20, "1" + "0" * 20),
    ],
)
def test_numbers_are_written_as_text(value: float, text: str) -> None:
    assert read({"problem": "q", "answer": value})[0].answer == text


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "'answer' is null"),
        ("", "'answer' is empty"),
        ("  ", "'answer' is empty"),
        (["1"], r"'answer' is a list \(\['1'\]\); wanted the answer as text or a number"),
        (True, r"'answer' is a bool \(True\)"),
        (float("nan"), "'answer' is nan; wanted the answer as text or a finite number"),
        ("2 + 2 = 4 #### 4", "holds a worked solution with '####' .*form = .after-hashes"),
    ],
)
def test_an_answer_that_is_no_answer_is_refused_with_its_place(answer: object, complaint: str) -> None:
    with pytest.raises(DataError, match=rf"^p\.jsonl:2: .*{complaint}"):
        read({"problem": "q", "answer": "1"}, {"problem": "r", "answer": answer})


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        (None, "'problem' is null; wanted the problem as text"),
        (" ", "'problem' is empty; write the problem there or remove the row"),
        ([{"role": "user", "content": "q"}], r"'problem' is a list \(.*\); wanted the problem as text"),
    ],
)
def test_a_question_that_is_no_text_is_refused(question: object, complaint: str) -> None:
    with pytest.raises(DataError, match=rf"^p\.jsonl:1: {complaint}"):
        read({"problem": question, "answer": "1"})


def test_a_missing_field_names_the_place_and_what_every_row_needs() -> None:
    with pytest.raises(DataError) as raised:
        read({"problem": "q", "answer": "1"}, {"problem": "r"})
    assert str(raised.value) == (
        "p.jsonl:2: 'answer' is missing; every row needs 'problem' and 'answer' (see docs/data.md)"
    )


def test_an_unknown_layout_lists_the_columns() -> None:
    with pytest.raises(DataError) as raised:
        read({"body": "q", "answer": "1"})
    assert str(raised.value) == (
        "p.jsonl:1: no column for the problem (looked for problem or question or prompt); "
        "the columns are 'body', 'answer'; name it behind the source, p{problem = \"NAME\"} (see docs/data.md)"
    )
    with pytest.raises(DataError, match=r"no column for the answer \(looked for 'key'\); the columns are 'problem'"):
        read({"problem": "q"}, columns={"answer": "key"})
    with pytest.raises(DataError, match="the columns are none"):
        read({})


def test_mistakes_in_the_layout_itself() -> None:
    with pytest.raises(DataError, match="no column role 'query'; the roles are problem, answer, id, source"):
        Layout("p", columns={"query": "q"})
    with pytest.raises(DataError, match="no answer form 'boxed'; the forms are text, after-hashes, last-boxed"):
        Layout("p", answer_form="boxed")


def test_other_answer_forms() -> None:
    assert read({"problem": "q", "answer": "x #### 1,200"}, answer_form="after-hashes")[0].answer == "1200"
    with pytest.raises(DataError, match=r"p\.jsonl:1: 'answer' has no answer in the form 'last-boxed'; got '7'"):
        read({"problem": "q", "answer": "7"}, answer_form="last-boxed")


def test_ids_may_be_integers_and_must_differ() -> None:
    assert [problem.id for problem in read(*({"id": n, "problem": "q", "answer": "1"} for n in (60, 61)))] == [
        "60",
        "61",
    ]
    with pytest.raises(
        DataError, match=r"p\.jsonl:2: the id '7' was already used at p\.jsonl:1; give every row its own"
    ):
        read({"id": "7", "problem": "q", "answer": "1"}, {"id": 7, "problem": "r", "answer": "2"})
    with pytest.raises(DataError, match=r"'id' is a float \(1\.5\); wanted the id as text or an integer"):
        read({"id": 1.5, "problem": "q", "answer": "1"})


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


def test_a_source_that_is_no_text_gives_way_to_the_sources_name() -> None:
    assert read({"problem": "q", "answer": "1", "source": ["a"]})[0].source == "p"
    assert read({"problem": "q", "answer": "1", "source": " "})[0].source == "p"


def test_half_a_character_is_located() -> None:
    with pytest.raises(DataError, match=r"^p\.jsonl:1: a problem's question holds half of a character"):
        read({"problem": "\ud800", "answer": "1"})


def test_values_in_messages_are_short_and_cannot_steer_a_terminal() -> None:
    assert shown("\x1b[31mred") == r"'\x1b[31mred'"
    assert shown("é") == "'é'"
    assert len(shown("x" * 500)) == 60
