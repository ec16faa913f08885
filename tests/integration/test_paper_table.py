"""The paper's comparison in one command: the committed file, with tiny models in place of the ten real ones."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from mada.cli import app
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import save_adapter
from mada.models.loading import EMBEDDED, load_base

FILE = Path(__file__).resolve().parents[2] / "recipes" / "baselines" / "paper-table.toml"
BASE = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
TINA = "Tina-Yi/R1-Distill-Qwen-1.5B-STILL/checkpoint-2000"
RANKS = {"runs/paper": 2, "runs/still-3-lora": 8, "runs/deepscaler-lora": 8, "tina": 4}
BENCHMARKS = 'benchmarks = ["abacus-easy", "abacus-medium"]'


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """The committed file with tiny models, what its adapters are, and a function that types a command beside it."""
    folder = tmp_path_factory.mktemp("paper-table")
    text = FILE.read_text()
    text = text.replace('benchmarks = ["math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math"]', BENCHMARKS)
    text = text.replace("seeds = 10", "seeds = 2\nproblems = 2").replace("= 32768", "= 64")
    text = text.replace(BASE, "mada-nano").replace(TINA, "tina")
    for place, name in enumerate(re.findall(r'model = "(\w[\w-]+/[\w.-]+)"', text)):
        text = text.replace(f'"{name}"', f'"{_other_model(folder / "models" / str(place), seed=place)}"')
    file = folder / "paper-table.toml"
    file.write_text(text + "\n[grading]\nworkers = 1\n[engine]\nrows = 64\n")

    def type_(*words):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("HF_HUB_OFFLINE", "1")
            return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb"})

    return SimpleNamespace(folder=folder, adapters=re.findall(r'adapter = "(.+)"', text), type=type_)


def _other_model(folder, *, seed):
    """Copy the embedded model with other weights, as if it had been trained further."""
    shutil.copytree(EMBEDDED["mada-nano"], folder)
    generator = torch.Generator().manual_seed(seed)
    weights = load_file(folder / "model.safetensors")
    noisy = {name: one + 0.3 * one.std() * torch.randn(one.shape, generator=generator) for name, one in weights.items()}
    save_file({name: one.to(weights[name].dtype) for name, one in noisy.items()}, folder / "model.safetensors")
    return folder


def _train(typed, wanted):
    """Write the adapters that a run, or the Hub, would have had."""
    for place, name in enumerate(one for one in typed.adapters if one.startswith(wanted)):
        base = load_base("mada-nano", device="cpu")
        rank = next(rank for start, rank in RANKS.items() if name.startswith(start))
        stack = AdapterStack.attach(base.model, ("agent",), Lora(rank, 2.0 * rank, dropout=0.0))
        generator = torch.Generator().manual_seed(place)
        own = stack.tensors("agent")
        stack.assign("agent", {key: 0.05 * torch.randn(one.shape, generator=generator) for key, one in own.items()})
        save_adapter(stack, "agent", typed.folder / name, base_name="mada-nano")


def test_what_is_missing_is_named_and_then_ten_systems_are_compared(typed):
    _train(typed, "tina")
    refused = typed.type("evaluate", "paper-table.toml")
    for run in ("runs/paper", "runs/still-3-lora", "runs/deepscaler-lora"):
        assert f"{run}: no such run" in str(refused.exception)
    assert not (typed.folder / "runs").exists()

    _train(typed, "runs/")
    shutil.move(typed.folder / "models" / "0", typed.folder / "elsewhere")
    refused = typed.type("evaluate", "paper-table.toml")
    assert "models/0: no such folder" in str(refused.exception)
    shutil.move(typed.folder / "elsewhere", typed.folder / "models" / "0")

    done = typed.type("evaluate", "paper-table.toml")
    assert done.exit_code == 0, done.output
    _check_report(typed.folder / "runs" / "paper-table" / "report")


def _check_report(report):
    tables = report / "tables"
    for name in ("main-results", "significance", "costs-performance", "single-agent"):
        rows = _rows(tables / f"{name}.md")
        assert (len(rows), rows[0][0], rows[-1][0]) == (10, "DeepSeek-R1", "MADA"), name
    heads, *_ = (tables / "main-results.md").read_text().partition("\n| ---")
    assert all(word in heads for word in ("abacus-easy", "abacus-medium", "average"))
    assert len({row[-1] for row in _rows(tables / "main-results.md")}) > 3, "ten models that are not the same"
    costs = {row[0]: row[1] for row in _rows(tables / "costs-performance.md")}
    assert costs["DeepSeek-R1"] == "0"
    # Six adapters of rank 2 and one of rank 8: the count goes with the rank.
    assert float(costs["MADA"]) / float(costs["STILL-3-LoRA"]) == pytest.approx(12 / 8, rel=0.01)
    assert costs["STILL-3"] == "1.78e9"
    for name in ("pairwise-differences", "pairwise-p"):
        rows = _rows(tables / f"{name}.md")
        cells = [cell for row in rows for cell in row[1:]]
        assert (len(rows), len(cells)) == (10, 100)
        assert cells.count("–") == 10, "45 pairs and their mirrors"
    assert (report / "figures" / "parameters.pdf").is_file()
    assert (report / "figures" / "parameters.png").is_file()


def _rows(file):
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
