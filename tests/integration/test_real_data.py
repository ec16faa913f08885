"""The real data sets, where they are: in `MADA_DATA`, or in `shared/data` beside the repository."""

import json
import os
import random
from pathlib import Path

import pytest

from mada.problems import BENCHMARKS, KNOWN_SETS, find_overlaps, load_problems, remove_copies, split_problems
from mada.problems.contamination import text_key

FOLDER = Path(os.environ.get("MADA_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")

pytestmark = pytest.mark.skipif(
    not (FOLDER / "still3_subset.jsonl").is_file(),
    reason="the data files are not here; set MADA_DATA to their folder",
)

ROWS = {
    "math-500": 500,
    "aime-2024": 30,
    "aime-2025": 30,
    "amc-23": 40,
    "minerva-math": 272,
    "still-3": 25_609,
    "deepscaler": 25_609 + 14_700,
    "math-train": 11_994,
    "gsm8k-train": 7_473,
    "gsm8k": 1_319,
    "svamp": 1_000,
    "asdiv": 2_092,
    "multiarith": 600,
    "addsub": 395,
    "singleeq": 508,
    "singleop": 562,
    "arc-challenge": 1_444,
    "mmlu-stem": 3_018,
}
KNOWN_COPIES = {3977, 5788, 6417, 6593, 6718, 6976, 7141, 7160, 7202}
# True copies that the files' own flags miss, because they are typeset anew ("ax^3" became "a x^{3}").
UNFLAGGED_COPIES = {3004, 3918}


@pytest.mark.parametrize("name", [name for name, known in KNOWN_SETS.items() if known.files])
def test_every_known_set_loads_whole(name: str) -> None:
    problems = load_problems(name, folder=FOLDER)

    assert len(problems) == ROWS[name]
    assert len({problem.id for problem in problems}) == ROWS[name]
    if name == "deepscaler":
        numbers = [int(problem.id.removeprefix("deepscaler/")) for problem in problems]
        assert numbers == sorted(numbers)
        assert (numbers[0], numbers[-1]) == (0, 40_314)


def test_the_benchmarks_hold_no_duplicates_and_word_problems_the_known_ones() -> None:
    names = (*BENCHMARKS, "asdiv", "multiarith", "singleop")
    problems = {name: load_problems(name, folder=FOLDER) for name in names}
    duplicates = {name: len(each) - len({text_key(one.question) for one in each}) for name, each in problems.items()}

    assert duplicates == {**dict.fromkeys(BENCHMARKS, 0), "asdiv": 1, "multiarith": 20, "singleop": 31}


def test_the_papers_split_is_disjoint_and_does_not_depend_on_the_order_of_the_rows(tmp_path: Path) -> None:
    sizes = {"subsets": 3, "subset_size": 7_500, "validation_size": 750, "seed": 0}
    problems = load_problems("still-3", folder=FOLDER)
    split = split_problems(problems, **sizes)
    lines = (FOLDER / "still3_subset.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    (tmp_path / "still3_subset.jsonl").write_text("".join(lines), encoding="utf-8")
    again = split_problems(load_problems("still-3", folder=tmp_path), **sizes)

    assert [len(part.ids) for part in split.parts] == [7_500, 7_500, 7_500, 750]
    key_of = {problem.id: text_key(problem.question) for problem in problems}
    used = [key_of[name] for part in split.parts for name in part.ids]
    assert len(set(used)) == len(used) == 23_250
    assert again == split
    assert split.digest == "cb28796ffc2632a28b43fba937cd14bf"
    assert (split.rows, split.duplicates, split.unused) == (25_609, 815, 1_544)


def test_duplicates_include_every_flagged_one() -> None:
    """The files flag repeats that differ in case and white space; ours also differ in typesetting."""
    flagged, keys = [], {}
    with (FOLDER / "still3_subset.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            keys[row["id"]] = text_key(row["problem"])
            if row.get("dup_of"):
                flagged.append((row["id"], row["dup_of"]))

    within = [(name, other) for name, other in flagged if other in keys]
    assert len(within) > 690
    assert [pair for pair in within if keys[pair[0]] != keys[pair[1]]] == []


@pytest.fixture(scope="module")
def overlaps() -> dict[str, dict[str, str]]:
    """For each training file: the ids that match any benchmark, with the kind of match."""
    benchmarks = {name: load_problems(name, folder=FOLDER) for name in BENCHMARKS}
    found: dict[str, dict[str, str]] = {}
    for file in ("deepscaler_nonstill.jsonl", "still3_subset.jsonl", "math_train_12k.jsonl"):
        results = find_overlaps(load_problems(FOLDER / file), benchmarks)
        found[file] = {match.training: match.kind for one in results.values() for match in one.matches}
    return found


def flagged_overlaps(file: str) -> set[str]:
    with (FOLDER / file).open(encoding="utf-8") as lines:
        return {row["id"] for row in map(json.loads, lines) if row.get("benchmark_overlap")}


def test_the_exact_ones_are_the_nine_known_copies_and_two_more(overlaps: dict[str, dict[str, str]]) -> None:
    copies = {file: {name for name, kind in found.items() if kind == "exact"} for file, found in overlaps.items()}

    assert copies == {
        "deepscaler_nonstill.jsonl": {f"deepscaler/{number}" for number in KNOWN_COPIES | UNFLAGGED_COPIES},
        "still3_subset.jsonl": set(),
        "math_train_12k.jsonl": set(),
    }


def test_matches_of_any_kind_are_the_flagged_rows(overlaps: dict[str, dict[str, str]]) -> None:
    unflagged = {f"deepscaler/{number}" for number in UNFLAGGED_COPIES}

    for file, found in overlaps.items():
        assert set(found) - unflagged == flagged_overlaps(file)


def test_template_siblings_are_not_taken_for_copies(overlaps: dict[str, dict[str, str]]) -> None:
    near = {name for found in overlaps.values() for name, kind in found.items() if kind == "near"}

    # One sibling has the same answer too: "find the shape described by θ = c" and "by z = c", both (C).
    assert near == {"math_train/precalculus/188"}


def test_copies_are_dropped_and_counted() -> None:
    training = load_problems(FOLDER / "deepscaler_nonstill.jsonl")
    clean = remove_copies(training, {name: load_problems(name, folder=FOLDER) for name in BENCHMARKS})

    assert clean.dropped == {"math-500": 11, "aime-2024": 0, "aime-2025": 0, "amc-23": 0, "minerva-math": 0}
    assert len(clean.kept) == 14_689
