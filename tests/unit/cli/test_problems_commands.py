import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mada.cli import app
from mada.problems import Split


@pytest.fixture(autouse=True)
def wide_terminal_and_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two known sets, ten and two problems, one of them in both."""
    training = [{"id": f"still/{n}", "problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(10)]
    training.append({"id": "still/copy", "problem": "what is $0 + 1$", "answer": "2"})
    benchmark = [
        {"id": "m/0", "problem": "What is $3+1?$", "answer": "4"},
        {"id": "m/1", "problem": "[bold]red\x1b[31m[/bold] \u202efish :smile:", "answer": "\r7"},
    ]
    for name, rows in (("still3_subset.jsonl", training), ("math500.jsonl", benchmark)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("MADA_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def mada(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["problems", *arguments])


def printed(*arguments: str) -> str:
    result = mada(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_counts_local_rows_and_names_what_is_missing() -> None:
    lines = [line.split() for line in printed("list").splitlines()]

    assert ["math-500", "MATH-500", "2", "math500.jsonl"] in lines
    assert ["still-3", "STILL-3", "RL", "data", "11", "still3_subset.jsonl"] in lines
    assert ["amc-23", "AMC", "12", "2023", "40", "missing:", "amc23.jsonl"] in lines
    assert ["[benchmark]"] in lines


def test_list_for_programs() -> None:
    by_name = {record["name"]: record for record in json.loads(printed("list", "--json"))}

    assert by_name["still-3"]["rows"] == 29_925
    assert by_name["still-3"]["local_rows"] == 11
    assert by_name["math-500"]["hub"]["name"] == "HuggingFaceH4/MATH-500"
    assert by_name["svamp"]["local_rows"] is None


def test_show_counts_and_samples_the_same_problems_for_the_same_seed() -> None:
    output = printed("show", "still-3", "--sample", "2")

    assert output.startswith("still-3: 11 problems, 1 duplicate\n")
    assert output.count("answer  ") == 2
    assert output == printed("show", "STILL3", "--sample", "2").replace("STILL3", "still-3")
    assert output != printed("show", "still-3", "--sample", "2", "--seed", "1")
    assert printed("show", "still-3", "--sample", "0") == "still-3: 11 problems, 1 duplicate\n"


def test_text_of_a_data_set_cannot_steer_the_terminal() -> None:
    output = printed("show", "math-500", "--id", "m/1")

    assert "[bold]red�[31m[/bold] �fish :smile:" in output
    assert "\x1b" not in output
    assert "\r" not in output


def test_show_with_columns_and_answer_form(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("text,key\n6 * 12?,so 72 #### 72\n")

    columns = ("--column", "problem=text", "--column", "answer=key")
    output = printed("show", str(path), *columns, "--answer-form", "after-hashes")

    assert output.rstrip().endswith("answer  72")


def test_split_prints_sizes_and_writes_the_same_split(tmp_path: Path) -> None:
    file = tmp_path / "out" / "split.json"
    arguments = ["split", "still-3", "--subsets", "2", "--size", "3", "--validation", "2"]

    output = printed(*arguments, "--output", str(file))

    split = Split.from_json(file.read_text())
    assert [line.split() for line in output.splitlines()[:5]] == [
        ["part", "problems"],
        ["subset-1", "3"],
        ["subset-2", "3"],
        ["validation", "2"],
        ["unused", "2"],
    ]
    assert output.splitlines()[5:] == [
        "1 duplicate dropped; 1 problem has copies with other answers",
        f"digest {split.digest}",
    ]
    record = json.loads(printed(*arguments, "--json"))
    assert record["digest"] == split.digest
    assert record["copies_dropped"] == {}


def test_split_drops_copies_of_a_benchmark_first() -> None:
    arguments = ["split", "still-3", "--subsets", "1", "--size", "4", "--validation", "1"]

    assert "1 copy of math-500 dropped\n" in printed(*arguments, "--drop-copies-of", "math-500")
    record = json.loads(printed(*arguments, "--drop-copies-of", "math-500", "--json"))
    assert record["copies_dropped"] == {"math-500": 1}
    assert record["rows"] == 10
    assert all("still/3" not in part["ids"] for part in record["parts"])


def test_overlap_counts_and_lists_pairs() -> None:
    output = printed("overlap", "still-3", "--against", "math-500", "--list")

    assert output.startswith("still-3: 11 problems compared\n")
    assert ["math-500", "2", "1", "0", "0"] in [line.split() for line in output.splitlines()]
    assert "\nexact    1.00  still/3 ~ m/0\n  What is 3 + 1?\n" in output
    record = json.loads(printed("overlap", "still-3", "--against", "math-500", "--json"))
    assert record["math-500"]["counts"] == {"exact": 1, "near": 0, "sibling": 0}
    assert record["math-500"]["matches"][0]["training"] == "still/3"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", "still-3", "--id", "x"], "no problem has the id 'x'; ids look like 'still/0'"),
        (["show", "still-3", "--column", "answer"], "--column answer: wanted ROLE=NAME"),
        (["show", "still-3", "--column", "key=x"], "unknown option 'key'"),
        (["split", "still-3"], "= 23,250 problems are wanted, but of 11 only 10 differ"),
        (["list", "--folder", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(arguments, complaint, refused) -> None:
    assert complaint in refused("problems", *arguments)
