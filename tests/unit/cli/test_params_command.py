import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mada.cli import main

PAPER = Path(__file__).parents[2] / "fixtures" / "deepseek-r1-distill-qwen-1.5b"


@pytest.fixture
def run(monkeypatch, capsys):
    """Type `mada params …`; gives back exit code, standard output and standard error."""

    def type_command(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mada", "params", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return code or 0, output.out, output.err

    return type_command


def test_the_papers_team(run):
    code, out, err = run(PAPER, "--agents", 6)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "base 1,777,088,000" in lines
    assert "one agent at rank 16 18,464,768 1.039%" in lines
    assert "q_proj, 28 layers 1,376,256 0.077%" in lines
    assert "6 agents 110,788,608 6.234%" in lines
    assert lines[-1] == "memory in float32: adapters 443 MB, AdamW's state 886 MB"


def test_for_programs(run):
    code, out, err = run(PAPER, "--json", "--rank", 32, "--agents", 2, "--targets", "q_proj, v_proj")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "model": str(PAPER),
        "base": 1777088000,
        "rank": 32,
        "per_agent": 4358144,
        "agents": 2,
        "trainable": 8716288,
        "adapter_bytes": 34865152,
        "optimizer_bytes": 69730304,
        "layers": [
            {"name": "q_proj", "layers": 28, "parameters": 2752512},
            {"name": "v_proj", "layers": 28, "parameters": 1605632},
        ],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "0"], "--rank"),
        (["--agents", "0"], "--agents"),
        (["--targets", " , "], "got no layer names"),
        (["--targets", "nope"], "no linear layer called 'nope'"),
        (["--targets", "lm_head"], "lm_head is the output head"),
    ],
)
def test_wrong_options(words, message, run):
    code, out, err = run(PAPER, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_missing_file_and_a_hub_id_without_a_network_make_no_noise(run, tmp_path):
    code, _, err = run(tmp_path / "config.json")
    assert code == 2
    assert err.startswith(f"mada: {tmp_path / 'config.json'}: no such folder or file")
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "mada", "params", "nobody/nothing"],
        capture_output=True,
        text=True,
        check=False,
        env=surroundings,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mada: nobody/nothing: no such folder, and the download from the Hub failed")
    assert done.stderr.count("\n") == 1
