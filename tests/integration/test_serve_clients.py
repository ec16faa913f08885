"""lm-eval and inspect-ai, as their users type them, ask `mada serve`, and come to the verdicts of `mada evaluate`.

`make clients` installs them apart and runs this. At temperature 0 there is nothing to draw, so all three say the same.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from factories import save_trained_run
from mada import evaluate
from mada.evaluation.scores import SCORES, Score
from mada.problems import load_problems
from mada_server import Served, serving

CLIENTS = os.environ.get("MADA_CLIENTS")
pytestmark = pytest.mark.skipif(
    CLIENTS is None, reason="MADA_CLIENTS names no folder with lm-eval; `make clients` does"
)

TASKS = Path(__file__).resolve().parents[1] / "clients"
PROBLEMS = 8
MAX_TOKENS = 256
KEY = "a-key"
DATA = Path(os.environ.get("MADA_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
GSM8K = DATA / "gsm8k_test.jsonl"
SOURCES = {"abacus": "abacus-easy", **({"gsm8k_slice": str(GSM8K)} if GSM8K.is_file() else {})}
"""Tasks by their names in both harnesses."""
FILTERS = {"abacus": "boxed", "gsm8k_slice": "flexible-extract"}
QUESTIONS = {"abacus": "{}", "gsm8k_slice": "Question: {}\nAnswer:"}
SLICE = """
include: {stock}
task: gsm8k_slice
dataset_path: json
dataset_name: null
dataset_kwargs:
  data_files:
    train: gsm8k_slice.jsonl
    test: gsm8k_slice.jsonl
num_fewshot: 0
"""
"""lm-eval's own GSM8K, on problems that are here: its prompt, its filters, its metric."""


@dataclass(frozen=True)
class Asked:
    """A served team, the folder with files of problems, and which verdicts are right, by file and problem."""

    server: Served
    folder: Path
    right: Mapping[str, Mapping[str, bool]]
    tokens: int

    @property
    def accuracy(self) -> dict[str, float]:
        return {name: sum(own.values()) / len(own) for name, own in self.right.items()}

    def run(self, program: str, *words: object) -> None:
        assert CLIENTS is not None
        environment = os.environ | {
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(self.folder / "hub"),
            "HOME": str(self.folder),
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": KEY,
            "MADA_API_KEY": KEY,
            "MADA_BASE_URL": f"{self.server.url}/v1",
        }
        command = [str(Path(CLIENTS) / program), *map(str, words)]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    for name, source in SOURCES.items():
        problems = load_problems(source, limit=PROBLEMS)
        rows = [
            {
                "id": one.id,
                "problem": QUESTIONS[name].format(one.question),
                "question": one.question,
                "answer": one.answer,
            }
            for one in problems
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copytree(TASKS, folder, dirs_exist_ok=True)
    assert CLIENTS is not None
    [stock] = Path(CLIENTS).parent.glob("lib/python*/site-packages/lm_eval/tasks/gsm8k/gsm8k.yaml")
    (folder / "gsm8k_slice.yaml").write_text(SLICE.format(stock=stock))
    trained = save_trained_run(folder / "trained", scale=0.01)
    agents = {one.name: {"model": "mada-nano", "adapter": str(one)} for one in (trained / "adapters").iterdir()}
    team = {"kind": "debate", "agents": ["generator-1", "generator-2"], "critics": ["critic-1"]}
    run = evaluate(
        {
            "benchmarks": [str(folder / f"{name}.jsonl") for name in SOURCES],
            "seeds": 1,
            "inference": {"temperature": 0, "max_new_tokens": MAX_TOKENS},
            "grading": {"workers": 1},
            "agents": agents,
            "systems": [team],
        },
        folder / "evaluated",
    )
    right: dict[str, dict[str, bool]] = {name: {} for name in SOURCES}
    tokens = 0
    for score in run.records(SCORES, Score):
        right[Path(score.benchmark).stem][score.problem] = score.verdict_correct
        tokens += sum(map(sum, score.tokens))
    with serving(folder / "log", trained, "--no-store", MADA_SERVE_KEYS=KEY) as server:
        yield Asked(server, folder, right, tokens)


def test_the_team_is_right_now_and_then(asked):
    assert {len(own) for own in asked.right.values()} == {PROBLEMS}
    assert 0.25 <= asked.accuracy["abacus"] < 1


def test_lm_eval_scores_what_mada_evaluates(asked):
    asked.run(
        "lm-eval",
        *("run", "--model", "local-chat-completions", "--apply_chat_template"),
        *("--model_args", f"model=mada,base_url={asked.server.url}/v1/chat/completions,num_concurrent=8"),
        *("--include_path", ".", "--tasks", ",".join(SOURCES), "--output_path", "out", "--log_samples"),
    )
    [path] = asked.folder.glob("out/**/results_*.json")
    results = json.loads(path.read_text())["results"]
    assert {name: results[name][f"exact_match,{FILTERS[name]}"] for name in SOURCES} == asked.accuracy
    for name in SOURCES:
        [path] = asked.folder.glob(f"out/**/samples_{name}_*.jsonl")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        own = [one for one in samples if one["filter"] == FILTERS[name]]
        assert {one["doc"]["id"]: one["exact_match"] == 1 for one in own} == asked.right[name]


def test_inspect_scores_what_mada_evaluates(asked):
    asked.run(
        "inspect",
        *("eval", *(f"inspect_tasks.py@{name}" for name in SOURCES), "--model", "openai-api/mada/mada"),
        *("--temperature", 0, "--max-tokens", MAX_TOKENS, "--display", "none"),
        *("--log-dir", "logs", "--log-format", "json"),
    )
    logs = {log["eval"]["task"]: log for log in (json.loads(path.read_text()) for path in asked.folder.glob("logs/*"))}
    assert {log["status"] for log in logs.values()} == {"success"}
    scored = {name: log["results"]["scores"][0] for name, log in logs.items()}
    assert {name: one["metrics"]["accuracy"]["value"] for name, one in scored.items()} == asked.accuracy
    for name, log in logs.items():
        found = {one["id"]: one["scores"]["pattern"]["value"] == "C" for one in log["samples"]}
        assert found == asked.right[name]
    # The usage of a debate is that of all its turns, and what its agents said is its reasoning.
    usages = [usage for log in logs.values() for usage in log["stats"]["model_usage"].values()]
    assert sum(usage["output_tokens"] for usage in usages) == asked.tokens
    content = logs["abacus"]["samples"][0]["output"]["choices"][0]["message"]["content"]
    [reasoning] = [part["reasoning"] for part in content if part["type"] == "reasoning"]
    assert reasoning.startswith("[round 1, generator-1]\n")
    assert "[round 2, critic-1]\n" in reasoning
