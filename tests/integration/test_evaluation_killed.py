"""An evaluation that is killed ten times, and started again each time, ends like one that was left alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mada.evaluation.sample_cache import Sample
from mada.evaluation.scores import Transcript
from mada.models.engines import Completion
from mada.runs import StoredRun

pytestmark = pytest.mark.slow

FILE = """
name = "killed"
seed = 3
reference = "debate"
benchmarks = ["abacus-easy", "abacus-medium"]
seeds = 2
problems = 5
[inference]
max_new_tokens = 48
[engine]
rows = 4  # a few at a time, so that a kill finds some done, some under way and some not begun
[grading]
workers = 1
[agents.model]
model = "mada-nano"
window = 512
[[systems]]
kind = "single"
agents = ["model"]
[[systems]]
kind = "vote"
agents = ["model"]
matched_to = "debate"
[[systems]]
kind = "judge"
agents = ["model"]
samples = 2
judge = "model"
[[systems]]
kind = "debate"
agents = ["model", "model", "model"]
critics = ["model", "model"]
"""
SCORES = 4 * 2 * 2 * 5  # systems, benchmarks, seeds, problems
KILLS = 10
RECORDS = ("scores", "transcripts", "samples")


def start(folder: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "mada", "evaluate", "file.toml", "--out", name],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a group of its own, which a kill reaches as a whole
    )


def finish(process: "subprocess.Popen[str]") -> str:
    try:
        said, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, said
    return said


def kill_when(process: "subprocess.Popen[str]", moment: Callable[[], bool]) -> None:
    """Kill a session and its helpers at a moment that comes before its end."""
    try:
        while not moment() and not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)
    finally:
        # Reaped by nobody yet, so that the group is still this process's.
        os.killpg(process.pid, signal.SIGKILL)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, said


def count(run: Path, *names: str) -> int:
    paths = [run / "records" / f"{name}.jsonl" for name in names]
    return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())


def lines(run: Path, name: str) -> list[bytes]:
    """The lines of some records in a fixed order; none is there twice."""
    found = sorted((run / "records" / f"{name}.jsonl").read_bytes().splitlines())
    assert len(set(found)) == len(found)
    return found


def transcripts(run: Path) -> tuple[list[Any], list[float]]:
    """All debates, and apart from them how sure replies were of themselves: batches decide the last digits of that."""
    records = StoredRun.read(run).records("transcripts", Transcript)
    debates = sorted(map(asdict, records), key=lambda one: str([*one.values()][:4]))
    responses = [turn["response"] for one in debates for row in one["debate"]["rounds"] for turn in row["turns"]]
    return debates, [response.pop("mean_log_prob") for response in responses]


def samples(run: Path) -> dict[str, Completion]:
    found = [Sample(**json.loads(line)) for line in lines(run, "samples")]
    by_key = {sample.key: sample.completion for sample in found}
    assert len(by_key) == len(found), "something was sampled twice"
    return by_key


def report_of(run: Path) -> str:
    """The report's tables and debates, without costs, which have times, and without folder, day and machine."""
    text = (run / "report.md").read_text()
    costs = text.index("## Costs")
    return text[text.index("## Results") : costs] + text[text.index("## Debates to read", costs) :].split("## How ")[0]


def leave_halves(run: Path) -> None:
    """Make what moments too short for a kill from outside would leave: a transcript without its score, half a line."""
    scores = (run / "records" / "scores.jsonl").read_bytes().splitlines(keepends=True)
    [*_, last] = [line for line in scores if b'"debate"' in line]
    assert not any(b'"vote"' in line for line in scores), "no budget depends on the debates yet"
    scores.remove(last)
    (run / "records" / "scores.jsonl").write_bytes(b"".join(scores))
    sampled = (run / "records" / "samples.jsonl").read_bytes()
    (run / "records" / "samples.jsonl").write_bytes(sampled[:-50])


def rows(shown: str) -> list[str]:
    """The rows of the tables in the terminal, which begin with a system's number."""
    found = [line for line in shown.splitlines() if re.match(r"\s*\d (single: |vote |judge |debate )", line)]
    assert len(found) >= 4
    return found


def test_an_evaluation_killed_ten_times_ends_like_one_that_was_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(FILE)
    alone, run = tmp_path / "alone", tmp_path / "killed"
    undisturbed = start(tmp_path, "alone")
    seen: list[int] = []
    try:
        # Lines are written as long as there is something to do, so after so many new ones a session is in its middle.
        for kill in range(KILLS):
            before = count(run, *RECORDS)
            kill_when(start(tmp_path, "killed"), lambda before=before: count(run, *RECORDS) >= before + 20)
            seen.append(count(run, *RECORDS) - before)
            assert count(run, "scores") < SCORES
            assert list((run / "stages").glob("*")) == []
            if kill == 2:
                leave_halves(run)
    finally:
        said = finish(undisturbed)
    said_after_kills = finish(start(tmp_path, "killed"))

    assert min(seen) >= 20, "every session got on"
    assert lines(run, "scores") == lines(alone, "scores")
    assert len(lines(run, "transcripts")) == SCORES // 4
    (debates, sureness), (whole_debates, whole_sureness) = transcripts(run), transcripts(alone)
    assert debates == whole_debates
    assert sureness == pytest.approx(whole_sureness, abs=0.0011)
    assert len(lines(run, "scores")) == SCORES
    restarted, whole = samples(run), samples(alone)
    assert restarted.keys() == whole.keys()
    for key, completion in whole.items():
        assert (restarted[key].token_ids, restarted[key].stop) == (completion.token_ids, completion.stop)
        assert restarted[key].log_probs == pytest.approx(completion.log_probs, abs=1e-4)
    assert (run / "evaluation.json").read_bytes() == (alone / "evaluation.json").read_bytes()
    assert report_of(run) == report_of(alone)
    assert rows(said_after_kills) == rows(said)
    manifest = json.loads((run / "manifest.json").read_text())
    assert [session["ended_at"] is None for session in manifest["sessions"]] == [True] * KILLS + [False]
    assert list(run.rglob("*.partial")) == []
