"""The example that README sends newcomers to runs, goes on where it was stopped, and says so when it is done."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(REPOSITORY / "examples" / "train_team.py")]
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
AGENTS = ("generator-1", "generator-2", "generator-3")


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )


def recorded(path: Path) -> list[tuple[int, str]]:
    """Steps and agents of the metrics; of a file that is being written, its whole lines."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(row["step"], row["agent"]) for row in rows]


def test_it_is_stopped_goes_on_and_is_then_finished(tmp_path: Path) -> None:
    metrics = tmp_path / "team" / "metrics.jsonl"
    asked = ("--run", "team", "--steps", "25")
    first = subprocess.Popen([*COMMAND, *asked], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while len(recorded(metrics)) < 6 * len(AGENTS) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    _, complaint = first.communicate(timeout=300)
    assert first.returncode == 130, complaint
    assert complaint.strip() == "stopped; the same command goes on from the last checkpoint"

    second = run(*asked, folder=tmp_path)
    assert second.returncode == 0, second.stderr
    assert re.search(r"going on after step \d+", second.stdout)
    assert recorded(metrics) == [(step, agent) for step in range(1, 26) for agent in AGENTS]
    for agent in AGENTS:
        assert re.search(rf"^{agent} +\d+% +\d+% +\d+$", second.stdout, re.MULTILINE)
        [adapter] = re.findall(rf"^  (team/best/{agent}/step-\d+)$", second.stdout, re.MULTILINE)
        config = json.loads((tmp_path / adapter / "adapter_config.json").read_text())
        assert Path(config["base_model_name_or_path"]) == tmp_path.resolve() / "team" / "base"
    assert re.search(r"^Ann has \d and gets \d , so …$", second.stdout, re.MULTILINE)

    third = run(*asked, folder=tmp_path)
    assert third.returncode == 0, third.stderr
    assert third.stdout.startswith("team is finished: all 25 steps were taken before.")
    assert third.stdout.splitlines()[1:] == second.stdout.splitlines()[-len(third.stdout.splitlines()) + 1 :]

    other = run("--run", "team", "--steps", "26", folder=tmp_path)
    assert other.returncode == 2
    assert "steps  25  →  26" in other.stderr
    assert "Traceback" not in other.stderr


def test_mistakes_end_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, complaint in {
        ("--steps", "0"): "--steps must be at least 1, got 0",
        ("--run", "file"): "--run wants a folder, and file is a file",
    }.items():
        done = run(*arguments, folder=tmp_path)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr
