import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mada.errors import DataError
from mada.problems import Problem, load_problems

Write = Callable[..., Path]

MODULE = """
from mada.problems import Problem, load_problems

CONSTANT = 3

def ready():
    return [Problem("q1", "1", "a", "made"), Problem("q2", "2", "b", "made")]

def rows():
    yield {"question": "q1", "answer": 1}
    yield {"question": "q2", "answer": 2}

def endless():
    number = 0
    while True:
        number += 1
        yield {"problem": f"q{number}", "answer": number}

def broken():
    yield {"question": "q1", "answer": 1}
    raise KeyError("lost")

def nothing():
    return None

def empty():
    return []

def strange():
    return [3]

def incomplete():
    return [{"question": "q1"}]

def twice():
    return [Problem("q1", "1", "a", "made"), Problem("q2", "2", "a", "made")]

def nested():
    return load_problems("nowhere.jsonl")
"""


@pytest.fixture
def made_module(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write("made_problems.py", MODULE)
    write("broken_module.py", "1 / 0")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    assert sys.path == before
    sys.modules.pop("made_problems", None)


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_file(write: Write) -> None:
    path = write("p.jsonl", lines({"problem": "q1", "answer": "1"}, {"problem": "q2", "answer": "2", "id": "b"}))

    first, second = load_problems(path)

    assert (first.question, first.answer, first.source) == ("q1", "1", "p.jsonl")
    assert second == Problem("q2", "2", "b", "p.jsonl")
    assert load_problems(str(path), limit=1) == [first]


def test_a_known_set_in_a_folder(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("aime24.jsonl", lines({"id": "aime24/00", "problem": "q", "answer": "7"}))

    expected = [Problem("q", "7", "aime24/00", "aime-2024")]
    assert load_problems("AIME24", folder=tmp_path) == expected
    monkeypatch.setenv("MADA_DATA", str(tmp_path))
    assert load_problems("aime-2024") == expected


def test_a_known_set_of_two_files_is_joined_by_the_numbers_in_its_ids(write: Write, tmp_path: Path) -> None:
    def row(name: str) -> dict[str, object]:
        return {"id": name, "problem": f"q {name}", "answer": "1"}

    write("deepscaler_nonstill.jsonl", lines(row("deepscaler/0"), row("deepscaler/10"), row("unnumbered")))
    write("still3_subset.jsonl", lines(row("deepscaler/2"), row("deepscaler/9")))

    ids = [problem.id for problem in load_problems("deepscaler", folder=tmp_path)]

    assert ids == ["deepscaler/0", "deepscaler/2", "deepscaler/9", "deepscaler/10", "unnumbered"]


def test_a_set_without_a_hub_version_needs_its_file() -> None:
    with pytest.raises(DataError, match=r"svamp: only known as a local file; set MADA_DATA .* with svamp\.jsonl"):
        load_problems("svamp")


@pytest.mark.parametrize("choice", ["config", "split", "revision"])
def test_hub_choices_are_refused_elsewhere_rather_than_ignored(choice: str, write: Write, tmp_path: Path) -> None:
    path = write("aime24.jsonl", lines({"problem": "q", "answer": "7"}))

    for source in (str(path), "aime-2024", "made_problems:ready"):
        with pytest.raises(DataError, match="config, split and revision choose within a Hub data set"):
            load_problems(source, folder=tmp_path, **{choice: "x"})  # type: ignore[arg-type]


@pytest.mark.usefixtures("made_module")
def test_a_callable_may_return_problems_or_rows() -> None:
    assert load_problems("made_problems:ready") == [
        Problem("q1", "1", "a", "made"),
        Problem("q2", "2", "b", "made"),
    ]
    made = load_problems("made_problems:rows")
    assert [(problem.question, problem.answer) for problem in made] == [("q1", "1"), ("q2", "2")]
    assert made[0].source == "made_problems:rows"
    assert [problem.answer for problem in load_problems("made_problems:endless", limit=3)] == ["1", "2", "3"]


@pytest.mark.usefixtures("made_module")
@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            "made_problems:broken",
            r"raised KeyError: 'lost' \(at .*made_problems\.py:21\); run it by itself to see more",
        ),
        ("made_problems:nothing", "returned None; wanted problems or rows one after the other"),
        ("made_problems:empty", "holds no problems; wanted at least one row"),
        ("made_problems:strange", "item 1: wanted a Problem or a mapping, got 3"),
        ("made_problems:incomplete", "item 1: no column for the answer"),
        ("made_problems:twice", "item 2: the id 'a' was already used at made_problems:twice: item 1"),
        ("made_problems:CONSTANT", "is 3, not something that can be called"),
        ("made_problems:absent", "raised AttributeError: .*no attribute 'absent'"),
        ("absent_module:make", "raised ModuleNotFoundError: No module named 'absent_module'"),
        ("broken_module:make", r"raised ZeroDivisionError: division by zero \(at .*broken_module\.py:1\)"),
    ],
)
def test_what_goes_wrong_in_a_callable_is_reported_with_its_name(source: str, complaint: str) -> None:
    with pytest.raises(DataError, match=f"^{source}: {complaint}"):
        load_problems(source)


@pytest.mark.usefixtures("made_module")
def test_a_data_error_inside_a_callable_stays_as_it_is() -> None:
    with pytest.raises(DataError, match=r"^nowhere\.jsonl: no such file"):
        load_problems("made_problems:nested")


def test_an_unknown_source_suggests_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^mth-500: not a known name, .*; did you mean math-500 or math-train\?"):
        load_problems("mth-500")
    with pytest.raises(DataError, match=r"^zzz: not a known name, a file, module:function or hub:owner/name; `mada"):
        load_problems("zzz")
    with pytest.raises(DataError, match="is a folder; name one file in it"):
        load_problems(tmp_path)
    with pytest.raises(DataError, match=r"no such file"):
        load_problems(tmp_path / "p.csv")


def test_an_empty_file_and_a_limit_of_nothing(write: Write) -> None:
    path = write("p.jsonl", "\n")

    with pytest.raises(DataError, match=r"p\.jsonl: holds no problems"):
        load_problems(path)
    with pytest.raises(DataError, match="the limit is 0; wanted at least one problem"):
        load_problems(path, limit=0)


def test_several_sources_one_after_the_other(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"id": "x", "problem": "1 + 1", "answer": "2"}\n')
    second.write_text('{"id": "y", "problem": "2 + 2", "answer": "4"}\n')
    both = load_problems(f"{first} + {second} + abacus-easy", limit=3)
    assert [problem.id for problem in both] == ["x", "y", "abacus-easy/1"]
    assert len(load_problems(f"{first}  +  {second}")) == 2
    with pytest.raises(DataError, match="nothing-here: not a known name"):
        load_problems(f"{first} + nothing-here")
    with pytest.raises(DataError, match="the id 'x' was already used"):
        load_problems(f"{first} + {first}")


def test_a_plus_in_a_files_name_is_a_letter(tmp_path):
    odd = tmp_path / "a + b.jsonl"
    odd.write_text('{"problem": "1 + 1", "answer": "2"}\n')
    assert [problem.answer for problem in load_problems(odd)] == ["2"]


def test_python_files_beside_the_data_are_not_executed(write: Write, tmp_path: Path) -> None:
    """A data folder from elsewhere may hold a file named like a library that mada imports."""
    pq.write_table(pa.table({"problem": ["1 + 1"], "answer": ["2"]}), tmp_path / "p.parquet")
    for name in ("pyarrow.py", "zlib.py", "datasets.py", "json.py"):
        write(name, "open('executed', 'w').close()")
    write("mine.py", "import json\ndef rows(): return [{'problem': json.loads('\"q\"'), 'answer': 1}]")
    code = (
        "import sys; sys.path.remove('')\n"
        "from mada.problems import load_problems\n"
        "print(load_problems('p.parquet')[0].answer, load_problems('mine:rows')[0].question, '' in sys.path)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["2", "q", "False"]
    assert not (tmp_path / "executed").exists()


def test_every_source_of_a_sum_has_its_own_columns_and_answer_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("task,reply\n1 + 1?,so #### 2\n")
    Path("b.csv").write_text("Frage,die Antwort\n2 + 2?,4\n")
    first = 'a.csv{problem = "task", answer = "reply", form = "after-hashes"}'
    text = first + ' + b.csv{problem="Frage", answer="die Antwort"}'
    assert [(one.question, one.answer) for one in load_problems(text)] == [("1 + 1?", "2"), ("2 + 2?", "4")]
    with pytest.raises(DataError, match="'reply'"):
        load_problems('a.csv{problem = "task"}', columns={"answer": "nothing"})
    with pytest.raises(DataError, match="colour"):
        load_problems('a.csv{colour = "red"}')
    with pytest.raises(DataError, match="TOML"):
        load_problems("a.csv{problem = task}")


def test_a_file_may_be_named_like_a_source_with_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('a{problem = "x"}.csv').write_text("problem,answer\n1 + 1?,2\n")
    assert len(load_problems('a{problem = "x"}.csv')) == 1
