from collections.abc import Callable
from pathlib import Path

import pytest

from mada.errors import DataError
from mada.problems import BENCHMARKS, KNOWN_SETS, abacus, load_problems
from mada.problems.answers import ANSWER_FORMS
from mada.problems.known import data_folder, find_file, known_name, local_files, nearest_names
from mada.problems.rows import ROLES


def test_the_five_benchmarks_of_the_paper_in_its_order() -> None:
    assert BENCHMARKS == ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math")


BUILT_IN = tuple(name for name, known in KNOWN_SETS.items() if known.kind == "built-in")


@pytest.mark.parametrize("name", [name for name in KNOWN_SETS if name not in BUILT_IN])
def test_every_known_set_can_be_read(name: str) -> None:
    known = KNOWN_SETS[name]

    assert known_name(name) == name
    assert known.files
    assert all(file.endswith(".jsonl") for file in known.files)
    assert known.answer_form in ANSWER_FORMS
    assert set(known.columns) <= set(ROLES)
    assert (known.hub is None) == (not known.columns)


def test_the_built_in_sets_are_those_of_the_task() -> None:
    benchmarks = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")
    assert BUILT_IN == ("abacus", "abacus-short", *benchmarks) == tuple(abacus.SETS)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_set_is_made_without_files_or_hub(name: str) -> None:
    known = KNOWN_SETS[name]

    assert known_name(name) == name
    assert (known.files, known.hub, dict(known.columns), known.answer_form) == ((), None, {}, "text")
    assert known.rows == (20_000 if name in ("abacus", "abacus-short") else 200)
    assert len(load_problems(name, limit=200)) == 200


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("MATH500", "math-500"),
        ("math_500", "math-500"),
        ("AIME 2024", "aime-2024"),
        ("aime24", "aime-2024"),
        ("Minerva", "minerva-math"),
        ("STILL3", "still-3"),
        ("math", "math-train"),
        ("gsm8k-test", "gsm8k"),
        ("Abacus_Easy", "abacus-easy"),
        ("imo", None),
    ],
)
def test_names_are_recognised_however_they_are_written(written: str, name: str | None) -> None:
    assert known_name(written) == name


def test_a_misspelled_name_finds_its_neighbours() -> None:
    assert nearest_names("mth-500")[0] == "math-500"
    assert nearest_names("deepscalar") == ["deepscaler"]
    assert nearest_names("zzz") == []


def test_the_folder_argument_beats_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_folder(None) is None
    monkeypatch.setenv("MADA_DATA", str(tmp_path / "gone"))
    assert data_folder(tmp_path) == tmp_path
    with pytest.raises(DataError, match=r"gone \(MADA_DATA\): no such folder; name the one that holds files such as"):
        data_folder(None)
    with pytest.raises(DataError, match=r"other: no such folder"):
        data_folder(tmp_path / "other")
    monkeypatch.setenv("MADA_DATA", f" {tmp_path} ")
    assert data_folder(None) == tmp_path


def test_files_are_found_plain_or_gzipped_and_missed_by_name(write: Callable[..., Path], tmp_path: Path) -> None:
    gzipped = write("math500.jsonl.gz", b"")

    assert local_files("math-500", tmp_path) == (gzipped,)
    plain = write("math500.jsonl", "")
    assert find_file(tmp_path, "math500.jsonl") == plain
    with pytest.raises(DataError, match=r"aime-2024: .*aime24\.jsonl is missing; add it, or unset MADA_DATA"):
        local_files("aime-2024", tmp_path)
    with pytest.raises(DataError, match=r"svamp\.jsonl is missing; add it: this set has no version on the Hub"):
        local_files("svamp", tmp_path)
