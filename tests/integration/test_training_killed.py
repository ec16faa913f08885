"""Training killed at any moment and started again ends exactly like one that was left alone (T7)."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("training_script.py")
SECONDS = 0.03
TIMINGS = ("rollout_tokens_per_second", "learn_tokens_per_second")


def train(folder: Path, *moments: str) -> list[dict[str, Any]]:
    """Train in another process, with children killed at these moments, and return what it says of each kill."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(SECONDS), *moments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a training's folder but the lock, with timings taken out of the metrics."""
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
    rows = [json.loads(line) for line in found.pop("metrics.jsonl").splitlines()]
    steady = [{key: value for key, value in row.items() if key not in TIMINGS} for row in rows]
    return {**found, "metrics.jsonl": json.dumps(steady, indent=1).encode()}


@pytest.mark.slow
def test_training_killed_five_times_ends_like_one_that_was_left_alone(tmp_path: Path) -> None:
    assert train(tmp_path / "alone") == []
    chance = random.Random(4)
    steps = [0, *sorted(chance.sample(range(1, 11), 4))]
    kills = train(tmp_path / "killed", *(f"{step}+{chance.uniform(0.0, 0.06):.4f}" for step in steps))
    assert [kill["landed"] for kill in kills] == [True] * 5, kills
    whole, restarted = files(tmp_path / "alone"), files(tmp_path / "killed")
    assert restarted.keys() == whole.keys()
    assert [name for name in whole if restarted[name] != whole[name]] == []
    recorded = [row["step"] for row in json.loads(whole["metrics.jsonl"])]
    assert recorded == [step for step in range(1, 13) for _ in range(2)], "no step is there twice, and none is missing"
    best = {path.split("/")[2] for path in whole if path.startswith("best/")}
    assert best != {"step-000000"}, "the best adapter changes on the way"
