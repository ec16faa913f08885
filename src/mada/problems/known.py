"""The data sets known by name: their files, and their version on the Hub. A new one is one row of `KNOWN_SETS`."""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mada.errors import DataError
from mada.problems import abacus

DATA_FOLDER_VARIABLE = "MADA_DATA"
"""The environment variable that names the folder with the local files."""


@dataclass(frozen=True, slots=True)
class KnownSet:
    """One data set, with its size as published (a local file may hold less).

    Several `files` are read as one set, in the order of the numbers their ids end in. `hub` names the Hub's version as
    a source does, with its own columns and answer form; local files have `problem` and `answer`. Built-in sets are
    generated and have neither.
    """

    title: str
    kind: Literal["benchmark", "training", "arithmetic", "science", "built-in"]
    rows: int
    files: tuple[str, ...] = ()
    hub: str | None = None


KNOWN_SETS: dict[str, KnownSet] = {
    "math-500": KnownSet("MATH-500", "benchmark", 500, ("math500.jsonl",), 'HuggingFaceH4/MATH-500{split = "test"}'),
    "aime-2024": KnownSet("AIME 2024", "benchmark", 30, ("aime24.jsonl",), 'HuggingFaceH4/aime_2024{split = "train"}'),
    "aime-2025": KnownSet("AIME 2025", "benchmark", 30, ("aime25.jsonl",), 'yentinglin/aime_2025{split = "train"}'),
    "amc-23": KnownSet("AMC 12 2023", "benchmark", 40, ("amc23.jsonl",), 'knoveleng/AMC-23{split = "train"}'),
    "minerva-math": KnownSet(
        *("Minerva-Math", "benchmark", 272, ("minerva_math.jsonl",)),
        'knoveleng/Minerva-Math{split = "train", answer = "solution", form = "last-boxed"}',
    ),
    "still-3": KnownSet(
        *("STILL-3 RL data", "training", 29_925, ("still3_subset.jsonl",)),
        'RUC-AIBOX/STILL-3-Preview-RL-Data{split = "train"}',
    ),
    "deepscaler": KnownSet(
        *("DeepScaleR-Preview", "training", 40_315, ("deepscaler_nonstill.jsonl", "still3_subset.jsonl")),
        'agentica-org/DeepScaleR-Preview-Dataset{split = "train"}',
    ),
    "math-train": KnownSet(
        "MATH (12,000)", "training", 12_000, ("math_train_12k.jsonl",), 'hiyouga/math12k{split = "train"}'
    ),
    "gsm8k-train": KnownSet(
        *("GSM8K (train)", "training", 7_473, ("gsm8k_train.jsonl",)),
        'openai/gsm8k{config = "main", split = "train", form = "after-hashes"}',
    ),
    "gsm8k": KnownSet(
        *("GSM8K (test)", "arithmetic", 1_319, ("gsm8k_test.jsonl",)),
        'openai/gsm8k{config = "main", split = "test", form = "after-hashes"}',
    ),
    "svamp": KnownSet("SVAMP", "arithmetic", 1_000, ("svamp.jsonl",)),
    "asdiv": KnownSet("ASDiv (numeric)", "arithmetic", 2_092, ("asdiv.jsonl",)),
    "multiarith": KnownSet(
        "MultiArith", "arithmetic", 600, ("multiarith.jsonl",), 'ChilleD/MultiArith{split = "train+test"}'
    ),
    "addsub": KnownSet("AddSub", "arithmetic", 395, ("addsub.jsonl",)),
    "singleeq": KnownSet("SingleEq", "arithmetic", 508, ("singleeq.jsonl",)),
    "singleop": KnownSet("MAWPS SingleOp", "arithmetic", 562, ("singleop.jsonl",)),
    "arc-challenge": KnownSet("ARC-Challenge", "science", 1_444, ("arc_challenge.jsonl",)),
    "mmlu-stem": KnownSet("MMLU (STEM)", "science", 3_018, ("mmlu_stem.jsonl",)),
    **{name: KnownSet(one.title, "built-in", one.rows) for name, one in abacus.SETS.items()},
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
    from_environment = os.environ.get(DATA_FOLDER_VARIABLE, "").strip()
    chosen = folder or (Path(from_environment).expanduser() if from_environment else None)
    if chosen is not None and not os.path.isdir(chosen):
        origin = "" if folder else f" ({DATA_FOLDER_VARIABLE})"
        raise DataError(f"{chosen}{origin}: no such folder; name the one that holds files such as math500.jsonl")
    return chosen


def local_files(name: str, folder: Path) -> list[Path]:
    """A known set's files in a folder, plain or gzipped; a missing one is an error that names it."""
    found: list[Path] = []
    for file in KNOWN_SETS[name].files:
        path = next((path for path in (folder / file, folder / f"{file}.gz") if path.is_file()), None)
        if path is None:
            remedy = "add it: this set has no version on the Hub that can be read as it is"
            if KNOWN_SETS[name].hub:
                remedy = f"add it, or unset {DATA_FOLDER_VARIABLE} and leave the folder out to read {name} from the Hub"
            raise DataError(f"{name}: {folder / file} is missing; {remedy}")
        found.append(path)
    return found
