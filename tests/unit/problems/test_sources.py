"""Problems from names, files, callables and the Hub: `datasets` reads a folder on disk, no test reaches the network."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mada.errors import DataError
from mada.problems import BENCHMARKS, KNOWN_SETS, Problem, abacus, load_problems
from mada.problems.known import data_folder, known_name, local_files
from mada.problems.sources import parse_sources, read_hub_rows

Write = Callable[..., Path]
BUILT_IN = tuple(name for name, known in KNOWN_SETS.items() if known.kind == "built-in")

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


def lines(*rows: Mapping[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


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


@pytest.mark.parametrize("option", ["config", "split", "revision"])
def test_hub_options_are_refused_elsewhere_rather_than_ignored(option: str, write: Write, tmp_path: Path) -> None:
    path = write("aime24.jsonl", lines({"problem": "q", "answer": "7"}))
    for source in (str(path), "aime-2024", "made_problems:ready", "abacus"):
        with pytest.raises(DataError, match="config, split, revision"):
            load_problems(source, folder=tmp_path, options={option: "x"})


@pytest.mark.usefixtures("made_module")
def test_a_callable_may_return_problems_or_rows() -> None:
    assert load_problems("made_problems:ready") == [Problem("q1", "1", "a", "made"), Problem("q2", "2", "b", "made")]
    made = load_problems("made_problems:rows")
    assert [(problem.question, problem.answer) for problem in made] == [("q1", "1"), ("q2", "2")]
    assert made[0].source == "made_problems:rows"
    assert [problem.answer for problem in load_problems("made_problems:endless", limit=3)] == ["1", "2", "3"]


@pytest.mark.usefixtures("made_module")
@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("made_problems:broken", r"KeyError: 'lost' \(at .*made_problems\.py:21\)"),
        ("made_problems:nothing", "returned None"),
        ("made_problems:empty", "holds no problems"),
        ("made_problems:strange", "item 1: .*got 3"),
        ("made_problems:incomplete", "item 1: no column for the answer"),
        ("made_problems:twice", "item 2: the id 'a' was already used at made_problems:twice: item 1"),
        ("made_problems:CONSTANT", "is 3"),
        ("made_problems:absent", "AttributeError: .*no attribute 'absent'"),
        ("absent_module:make", "ModuleNotFoundError: No module named 'absent_module'"),
        ("broken_module:make", r"ZeroDivisionError: division by zero \(at .*broken_module\.py:1\)"),
    ],
)
def test_what_goes_wrong_in_a_callable_is_reported_with_its_name(source: str, complaint: str) -> None:
    with pytest.raises(DataError, match=f"^{source}: .*{complaint}"):
        load_problems(source)


def test_an_unknown_source_suggests_the_nearest_name(tmp_path: Path, write: Write) -> None:
    with pytest.raises(DataError, match=r"^mth-500: not a known name, .*; did you mean math-500 or math-train\?"):
        load_problems("mth-500")
    with pytest.raises(DataError, match=r"^zzz: not a known name, .*; `mada problems list`"):
        load_problems("zzz")
    with pytest.raises(DataError, match=r"^z+: not a known name"):  # longer than any file's name may be
        load_problems("z" * 300)
    with pytest.raises(DataError, match=r"z+\.csv: no such file"):
        load_problems("z" * 300 + ".csv")
    with pytest.raises(DataError, match="is a folder"):
        load_problems(tmp_path)
    with pytest.raises(DataError, match=r"no such file"):
        load_problems(tmp_path / "p.csv")
    with pytest.raises(DataError, match=r"p\.jsonl: holds no problems"):
        load_problems(write("p.jsonl", "\n"))
    with pytest.raises(DataError, match="limit is 0"):
        load_problems("abacus", limit=0)


def test_every_source_of_a_sum_has_its_own_options(tmp_path: Path, write: Write, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("a.csv", "task,reply\n1 + 1?,so #### 2\n")
    write("b.csv", "Frage,die Antwort\n2 + 2?,4\n")
    first = 'a.csv{problem = "task", answer = "reply", form = "after-hashes"}'
    text = first + ' + b.csv{problem="Frage", answer="die Antwort"}'
    expected = [("1 + 1?", "2"), ("2 + 2?", "4")]
    assert [(one.question, one.answer) for one in load_problems(text)] == expected
    assert [str(one) for one in parse_sources(text)] == [first, 'b.csv{problem = "Frage", answer = "die Antwort"}']
    shared = load_problems(
        'a.csv{problem = "task"} + b.csv{problem = "Frage", answer = "die Antwort"}',
        options={"answer": "reply", "form": "after-hashes", "problem": "not this one"},
        limit=1,
    )
    assert [(one.question, one.answer) for one in shared] == expected[:1]
    for wrong, complaint in {
        'a.csv{problem = "task"}': "no column for the answer.*'reply'",
        'a.csv{colour = "red"}': "colour",
        'a.csv{form = "boxed"}': "form 'boxed'; choose from text, after-hashes, last-boxed",
        "a.csv{problem = task}": "TOML",
        "a.csv{problem = 3}": "problem is 3; wanted text",
        'abacus{problem = "task"}': "it is generated",
    }.items():
        with pytest.raises(DataError, match=complaint):
            load_problems(wrong)


@pytest.mark.parametrize("name", ["a + b.csv", 'a{problem = "x"}.csv'])
def test_a_file_may_be_named_like_a_sum_or_a_source_with_options(name: str, tmp_path: Path, write, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(name, "problem,answer\n1 + 1?,2\n")
    assert [problem.answer for problem in load_problems(name)] == ["2"]


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


# Known sets.


def test_the_known_sets() -> None:
    assert BENCHMARKS == ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math")
    benchmarks = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")
    assert BUILT_IN == ("abacus", "abacus-short", *benchmarks) == tuple(abacus.SETS)
    for name, known in KNOWN_SETS.items():
        assert known_name(name) == name
        assert all(file.endswith(".jsonl") for file in known.files)
        assert (not known.files) == (name in BUILT_IN)
        assert known.hub is None or len(parse_sources(known.hub)) == 1  # its options are valid
    for name in BUILT_IN:
        assert (KNOWN_SETS[name].rows, KNOWN_SETS[name].hub) == (200 if name in benchmarks else 20_000, None)


def test_the_folder_argument_beats_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_folder(None) is None
    monkeypatch.setenv("MADA_DATA", str(tmp_path / "gone"))
    assert data_folder(tmp_path) == tmp_path
    with pytest.raises(DataError, match=r"gone \(MADA_DATA\): no such folder"):
        data_folder(None)
    with pytest.raises(DataError, match=r"other: no such folder"):
        data_folder(tmp_path / "other")
    monkeypatch.setenv("MADA_DATA", f" {tmp_path} ")
    assert data_folder(None) == tmp_path


def test_files_are_found_plain_or_gzipped_and_missed_by_name(write: Write, tmp_path: Path) -> None:
    gzipped = write("math500.jsonl.gz", b"")
    assert local_files("math-500", tmp_path) == [gzipped]
    plain = write("math500.jsonl", "")
    assert local_files("math-500", tmp_path) == [plain]
    with pytest.raises(DataError, match=r"aime-2024: .*aime24\.jsonl is missing; add it, or unset MADA_DATA"):
        local_files("aime-2024", tmp_path)
    with pytest.raises(DataError, match=r"svamp\.jsonl is missing; add it: .* no version on the Hub"):
        local_files("svamp", tmp_path)
    with pytest.raises(DataError, match=r"svamp: only known as a local file; set MADA_DATA .* svamp\.jsonl"):
        load_problems("svamp")


# The Hub.


@pytest.fixture
def hub_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set in the GSM8K layout, with two splits, and no way to the network."""
    import datasets.config
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    made = tmp_path / "tiny"
    made.mkdir()
    for split, count in (("train", 3), ("test", 1)):
        rows = [{"question": f"{split} {n}?", "answer": f"so {n}\n#### {n},000"} for n in range(count)]
        (made / f"{split}.jsonl").write_text(lines(*rows))
    return made


def test_rows_of_a_split_with_their_locations_and_no_progress_bars(hub_folder: Path, capfd) -> None:
    rows = list(read_hub_rows(str(hub_folder), split="train"))
    assert [row.values["question"] for row in rows] == ["train 0?", "train 1?", "train 2?"]
    assert rows[2].location == f"{hub_folder} (train): row 3"
    assert capfd.readouterr() == ("", "")


def test_what_the_hub_does_not_have_is_named(hub_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r'cannot be loaded \(ValueError: Unknown split "dev"'):
        load_problems(f"hub:{hub_folder}", options={"split": "dev"})
    with pytest.raises(DataError, match=r"\(test\): row 1: no column for the answer \(looked for 'key'\)"):
        load_problems(f"hub:{hub_folder}", options={"split": "test", "answer": "key"})
    with pytest.raises(DataError, match=r"^hub:HuggingFaceH4/MATH-500 \(test, abc\): .*ConnectionError.* MADA_DATA"):
        load_problems("math-500", options={"revision": "abc"})

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("datasets.load_dataset", fail)
    with pytest.raises(DataError, match=r"cannot be loaded \(RuntimeError: no reason given\)"):
        load_problems("hub:someone/something")


def test_the_hubs_layout_of_known_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "openai/gsm8k": {"question": "q", "answer": "6 * 12 #### 72"},
        "knoveleng/Minerva-Math": {"problem": "q", "solution": r"so $\boxed{72}$"},
        "knoveleng/AMC-23": {"problem": "q", "answer": 72.0, "id": 0},
        "RUC-AIBOX/STILL-3-Preview-RL-Data": {"question": "q", "answer": "72"},
        "ChilleD/MultiArith": {"question": "q", "final_ans": "72"},
        "HuggingFaceH4/MATH-500": {"problem": "q", "solution": "s", "answer": "72", "unique_id": "test/1"},
    }
    asked: list[tuple[object, ...]] = []

    def load(name: str, config: str | None, *, split: str, revision: str | None) -> list[dict[str, object]]:
        asked.append((name, config, split, revision))
        return [rows[name]]

    monkeypatch.setattr("datasets.load_dataset", load)
    for name in ("gsm8k", "minerva-math", "amc-23", "still-3", "multiarith", "math-500"):
        (problem,) = load_problems(name)
        assert (problem.answer, problem.source) == ("72", name)
    assert problem.id == "test/1"
    assert asked[0] == ("openai/gsm8k", "main", "test", None)
    assert asked[3] == ("RUC-AIBOX/STILL-3-Preview-RL-Data", None, "train", None)
    load_problems("gsm8k", options={"split": "train", "config": "socratic"})
    assert asked[-1] == ("openai/gsm8k", "socratic", "train", None)
