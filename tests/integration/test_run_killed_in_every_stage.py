"""A run that is killed in every stage, and started again each time, ends like one that was left alone (T7)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

RECIPE = """
name = "tiny"
seed = 2
[model]
name = "mada-nano"
window = 512
[data]
train = "slow_source:problems"
subset_size = 6
screen = 8
validation_size = 4
decontaminate = ["abacus-easy"]
[team]
generators = 2
critics = 2
[lora]
rank = 4
alpha = 8
[grading]
workers = 1
[training]
batch_size = 8
group_size = 4
learning_rate = 1e-2
warmup_ratio = 0
schedule = "constant"
temperature = 1.4  # replies of all sorts, so that every step has something to learn
max_new_tokens = 64
steps = 2
validate_every = 2
checkpoint_every = 1
[engine]
rows = 16
[inference]
max_new_tokens = 96
[evaluation]
benchmarks = ["abacus-easy", "abacus-medium"]
seeds = 2
problems = 1
prompt_price = 0.1  # two runs measure two prices
"""
# Reading the problems takes a second, so that a kill can land in the stage that is over first.
SOURCE = """
import pathlib, time
from mada.problems import load_problems

def problems():
    if pathlib.Path("killed/manifest.json").exists():  # before that it is the preflight that reads
        pathlib.Path("reading").touch()
    time.sleep(1.0)
    return [{"problem": one.question, "answer": one.answer} for one in load_problems("abacus", limit=60)]
"""
WORDS = ("tiny.toml", "--run", "killed")
STAGES = ("split", "screen", "generators", "critic-data", "critics", "evaluate", "report")
TIMINGS = ("rollout_tokens_per_second", "learn_tokens_per_second")


class Runs:
    """Starts `mada run` in other processes, in a folder that has the recipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tiny.toml").write_text(RECIPE)
        (folder / "slow_source.py").write_text(SOURCE)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "mada", "run", *words],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a group of its own, which Ctrl-C reaches as a whole
        )

    def finish(self, *words: str) -> str:
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=600)
        finally:
            process.kill()
        assert process.returncode == 0, out + err
        return out

    def stop_when(self, moment: Callable[[], bool], *words: str, by: signal.Signals) -> tuple[int, str]:
        """Start a run, send it and its helpers a signal at a moment, and return its exit code and what it said."""
        process = self.start(*words)
        try:
            while not moment() and not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                time.sleep(0.001)
        finally:
            # Reaped by nobody yet, so that the group is still this process's.
            os.killpg(process.pid, by)
        out, err = process.communicate(timeout=300)
        return process.returncode, out + err


def done(run: Path) -> list[str]:
    return [name for name in STAGES if (run / "stages" / f"{name}.json").exists()]


def count(run: Path, name: str) -> int:
    path = run / "records" / f"{name}.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def records(run: Path, name: str) -> list[bytes]:
    return sorted((run / "records" / f"{name}.jsonl").read_bytes().splitlines())


def trained(run: Path, *folders: str) -> dict[str, bytes]:
    """All files of the trainings, with timings taken out of the metrics."""
    files = {
        path.relative_to(run).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((run / folder).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
    for name in [name for name in files if name.endswith("metrics.jsonl")]:
        rows: list[dict[str, Any]] = [json.loads(line) for line in files[name].splitlines()]
        steady = [{key: value for key, value in row.items() if key not in TIMINGS} for row in rows]
        files[name] = json.dumps(steady, indent=1).encode()
    return files


def report_of(run: Path) -> str:
    """The report's tables and debates, without times, and without what names the folder, the day and the machine."""
    text = (run / "report.md").read_text()
    after_costs = text.index("## ", text.index("## Costs") + 1)
    return text[text.index("## Results") : text.index("## Costs")] + text[after_costs : text.index("## How it was run")]


def test_a_run_killed_in_every_stage_ends_like_one_that_was_left_alone(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    alone, run = tmp_path / "alone", tmp_path / "killed"
    runs.finish("tiny.toml", "--run", "alone")

    kill(runs, (tmp_path / "reading").exists, before=[])
    kill(runs, lambda: count(run, "screenings") >= 3, before=STAGES[:1])
    assert count(run, "screenings") < 12
    stop_politely(runs, (run / "generators" / "checkpoints" / "step-000000").exists)
    kill(runs, (run / "generators" / "checkpoints" / "step-000001").exists, before=STAGES[:2])
    kill(runs, lambda: count(run, "critic-examples") >= 3, before=STAGES[:3])
    assert count(run, "critic-examples") <= 16
    kill(runs, (run / "critics" / "checkpoints" / "step-000001").exists, before=STAGES[:4])
    kill(runs, lambda: count(run, "scores") >= 6, before=STAGES[:5])
    assert count(run, "scores") < 24
    kill_while_reporting(runs)
    runs.finish(*WORDS)

    assert done(run) == done(alone) == list(STAGES)
    for name in ("split.json", "evaluation.json", "records/problems.jsonl"):
        assert (run / name).read_bytes() == (alone / name).read_bytes()
    restarted, whole = (trained(folder, "adapters", "generators", "critics") for folder in (run, alone))
    assert restarted.keys() == whole.keys()
    assert [name for name in whole if restarted[name] != whole[name]] == []
    for name in ("screenings", "critic-examples", "scores", "transcripts"):
        assert records(run, name) == records(alone, name)
    assert report_of(run) == report_of(alone)
    for role in ("generators", "critics"):
        learnt = {row["step"] for row in json.loads(whole[f"{role}/metrics.jsonl"]) if row["gradient_norm"] > 0}
        assert learnt == {1, 2}, "a step without anything to learn would be the same after any kill"


def kill(runs: Runs, moment: Callable[[], bool], *, before: Sequence[str]) -> None:
    """Go on with the run, and kill it in the stage that follows the finished ones."""
    code, said = runs.stop_when(moment, *WORDS, by=signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    assert done(runs.folder / "killed") == list(before)


def stop_politely(runs: Runs, moment: Callable[[], bool]) -> None:
    """Stop the run as a scheduler does while generators train: it says how to go on, and has no more to say."""
    code, said = runs.stop_when(moment, *WORDS, by=signal.SIGTERM)
    assert code == 130, said
    assert said.endswith(
        "\nmada: stopped in generators; what is finished is kept. To continue: mada run --run killed\n"
    )
    assert "Traceback" not in said
    assert done(runs.folder / "killed") == ["split", "screen"]
    manifest = json.loads((runs.folder / "killed" / "manifest.json").read_text())
    assert [session["ended_by"] for session in manifest["sessions"]] == [None, None, "KeyboardInterrupt"]


def kill_while_reporting(runs: Runs) -> None:
    """Writing the report takes so little time that a kill may come too late; then it is written, and killed, again."""
    run = runs.folder / "killed"
    runs.stop_when(lambda: "evaluate" in done(run), *WORDS, by=signal.SIGKILL)
    for _ in range(5):
        if done(run) == list(STAGES[:-1]):
            return
        runs.stop_when(lambda: "report" not in done(run), *WORDS, "--from", "report", by=signal.SIGKILL)
    assert done(run) == list(STAGES[:-1])
