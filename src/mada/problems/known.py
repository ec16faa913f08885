"""The data sets known by name: where the Hub keeps them, how to read them, and which local files hold them.

A new one is one row of `KNOWN_SETS`.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from mada.errors import DataError
from mada.problems import abacus
from mada.problems.hub import HubName

DATA_FOLDER_VARIABLE = "MADA_DATA"
"""The environment variable that names the folder with the local files."""


@dataclass(frozen=True, slots=True)
class KnownSet:
    """One data set, with its size as published (a local file may hold less).

    `columns` and `answer_form` concern the Hub's version; local files have `problem` and `answer`.
    Several `files` are read as one set, in the order of the numbers their ids end in. A built-in set has no files: its
    problems are made where they are needed.
    """

    title: str
    kind: Literal["benchmark", "training", "arithmetic", "science", "built-in"]
    rows: int
    files: tuple[str, ...]
    hub: HubName | None = None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    answer_form: str = "text"


_PROBLEM_AND_ANSWER = {"problem": "problem", "answer": "answer"}
_QUESTION_AND_ANSWER = {"problem": "question", "answer": "answer"}

KNOWN_SETS: dict[str, KnownSet] = {
    "math-500": KnownSet(
        title="MATH-500",
        kind="benchmark",
        rows=500,
        files=("math500.jsonl",),
        hub=HubName("HuggingFaceH4/MATH-500", split="test"),
        columns={**_PROBLEM_AND_ANSWER, "id": "unique_id"},
    ),
    "aime-2024": KnownSet(
        title="AIME 2024",
        kind="benchmark",
        rows=30,
        files=("aime24.jsonl",),
        hub=HubName("HuggingFaceH4/aime_2024", split="train"),
        columns=_PROBLEM_AND_ANSWER,
    ),
    "aime-2025": KnownSet(
        title="AIME 2025",
        kind="benchmark",
        rows=30,
        files=("aime25.jsonl",),
        hub=HubName("yentinglin/aime_2025", split="train"),
        columns=_PROBLEM_AND_ANSWER,
    ),
    "amc-23": KnownSet(
        title="AMC 12 2023",
        kind="benchmark",
        rows=40,
        files=("amc23.jsonl",),
        hub=HubName("knoveleng/AMC-23", split="train"),
        columns=_PROBLEM_AND_ANSWER,
    ),
    "minerva-math": KnownSet(
        title="Minerva-Math",
        kind="benchmark",
        rows=272,
        files=("minerva_math.jsonl",),
        hub=HubName("knoveleng/Minerva-Math", split="train"),
        columns={"problem": "problem", "answer": "solution"},
        answer_form="last-boxed",
    ),
    "still-3": KnownSet(
        title="STILL-3 RL data",
        kind="training",
        rows=29_925,
        files=("still3_subset.jsonl",),
        hub=HubName("RUC-AIBOX/STILL-3-Preview-RL-Data", split="train"),
        columns=_QUESTION_AND_ANSWER,
    ),
    "deepscaler": KnownSet(
        title="DeepScaleR-Preview",
        kind="training",
        rows=40_315,
        files=("deepscaler_nonstill.jsonl", "still3_subset.jsonl"),
        hub=HubName("agentica-org/DeepScaleR-Preview-Dataset", split="train"),
        columns=_PROBLEM_AND_ANSWER,
    ),
    "math-train": KnownSet(
        title="MATH (12,000)",
        kind="training",
        rows=12_000,
        files=("math_train_12k.jsonl",),
        hub=HubName("hiyouga/math12k", split="train"),
        columns=_PROBLEM_AND_ANSWER,
    ),
    "gsm8k-train": KnownSet(
        title="GSM8K (train)",
        kind="training",
        rows=7_473,
        files=("gsm8k_train.jsonl",),
        hub=HubName("openai/gsm8k", config="main", split="train"),
        columns=_QUESTION_AND_ANSWER,
        answer_form="after-hashes",
    ),
    "gsm8k": KnownSet(
        title="GSM8K (test)",
        kind="arithmetic",
        rows=1_319,
        files=("gsm8k_test.jsonl",),
        hub=HubName("openai/gsm8k", config="main", split="test"),
        columns=_QUESTION_AND_ANSWER,
        answer_form="after-hashes",
    ),
    "svamp": KnownSet("SVAMP", "arithmetic", 1_000, ("svamp.jsonl",)),
    "asdiv": KnownSet("ASDiv (numeric)", "arithmetic", 2_092, ("asdiv.jsonl",)),
    "multiarith": KnownSet(
        title="MultiArith",
        kind="arithmetic",
        rows=600,
        files=("multiarith.jsonl",),
        hub=HubName("ChilleD/MultiArith", split="train+test"),
        columns={"problem": "question", "answer": "final_ans"},
    ),
    "addsub": KnownSet("AddSub", "arithmetic", 395, ("addsub.jsonl",)),
    "singleeq": KnownSet("SingleEq", "arithmetic", 508, ("singleeq.jsonl",)),
    "singleop": KnownSet("MAWPS SingleOp", "arithmetic", 562, ("singleop.jsonl",)),
    "arc-challenge": KnownSet("ARC-Challenge", "science", 1_444, ("arc_challenge.jsonl",)),
    "mmlu-stem": KnownSet("MMLU (STEM)", "science", 3_018, ("mmlu_stem.jsonl",)),
    **{name: KnownSet(made.title, "built-in", made.rows, ()) for name, made in abacus.SETS.items()},
}

BENCHMARKS: tuple[str, ...] = tuple(name for name, known in KNOWN_SETS.items() if known.kind == "benchmark")
"""The five benchmarks of the paper, in its order."""

_OTHER_NAMES = {
    "aime24": "aime-2024",
    "aime25": "aime-2025",
    "amc": "amc-23",
    "minerva": "minerva-math",
    "deepscaler-preview": "deepscaler",
    "math": "math-train",
    "math-12k": "math-train",
    "gsm8k-test": "gsm8k",
    "arc-c": "arc-challenge",
}


def _bare(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.casefold())


_BY_BARE_NAME = {_bare(name): name for name in KNOWN_SETS} | {_bare(key): name for key, name in _OTHER_NAMES.items()}


def known_name(name: str) -> str | None:
    """The proper name of a known set, however it is written (`MATH500`, `math_500`), or `None`."""
    return _BY_BARE_NAME.get(_bare(name))


def nearest_names(name: str) -> list[str]:
    """Known names that look like a misspelled one, best first."""
    close = difflib.get_close_matches(_bare(name), _BY_BARE_NAME, n=3, cutoff=0.6)
    return list(dict.fromkeys(_BY_BARE_NAME[match] for match in close))


def data_folder(folder: Path | None) -> Path | None:
    """The folder to read known sets from: the argument, else `MADA_DATA`, else `None` (read from the Hub)."""
    named_by_environment = os.environ.get(DATA_FOLDER_VARIABLE, "").strip()
    chosen = folder or (Path(named_by_environment).expanduser() if named_by_environment else None)
    if chosen is not None and not chosen.is_dir():
        origin = "" if folder else f" ({DATA_FOLDER_VARIABLE})"
        raise DataError(f"{chosen}{origin}: no such folder; name the one that holds files such as math500.jsonl")
    return chosen


def local_files(name: str, folder: Path) -> tuple[Path, ...]:
    """A known set's files in a folder, plain or gzipped; a missing one is an error that names it."""
    return tuple(find_file(folder, file) or _missing(name, folder / file) for file in KNOWN_SETS[name].files)


def find_file(folder: Path, name: str) -> Path | None:
    """The file of this name, or its gzipped form, or `None`."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _missing(name: str, path: Path) -> NoReturn:
    if KNOWN_SETS[name].hub is None:
        remedy = "add it: this set has no version on the Hub that can be read as it is"
    else:
        remedy = f"add it, or unset {DATA_FOLDER_VARIABLE} and leave the folder out to read {name} from the Hub"
    raise DataError(f"{name}: {path} is missing; {remedy}")
