"""The paper's recipe from its file to its report, with its prompts, rewards, credit and limits.

The model is the embedded one with a window in which 32,768 new tokens fit, and the problems are of the kind that it
knows: it ends its replies by itself, so the paper's limits can stay.
"""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mada.cli import app
from mada.difference import differences
from mada.evaluation.scores import SCORES, Score
from mada.models.loading import EMBEDDED
from mada.recipe import Recipe, load_recipe
from mada.runs import StoredRun

PAPER = Path(__file__).resolve().parents[2] / "recipes" / "paper.toml"
SMALLER = {
    "data.train": "abacus-short",
    "data.subset_size": "16",
    "data.validation_size": "4",
    "data.decontaminate": '["abacus-easy"]',
    "generators.steps": "1",
    "critics.steps": "1",
    "evaluation.benchmarks": '["abacus-easy", "abacus-hard"]',
    "evaluation.problems": "2",
    "evaluation.seeds": "2",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The embedded model, in a folder of its own, with a long window."""
    folder = shutil.copytree(EMBEDDED["mada-nano"], tmp_path / "model")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 65_536}))
    return folder


def test_the_papers_experiment_runs_from_its_file_to_its_report(model: Path, tmp_path: Path) -> None:
    overrides = [f"{key}={value}" for key, value in {"model.name": str(model), **SMALLER}.items()]
    done = CliRunner().invoke(app, ["run", str(PAPER), *overrides, "--run", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    run = StoredRun.read(tmp_path / "run")
    stages = ["split", "generators", "critic-data", "critics", "evaluate", "report"]
    assert [mark.name for mark in run.finished_stages()] == stages

    recipe = Recipe.model_validate(run.manifest.recipe)
    assert {one.key for one in differences(load_recipe(PAPER), recipe)} == {"model.name", *SMALLER}
    assert (recipe.training.max_new_tokens, recipe.inference.max_new_tokens) == (8192, 32_768)
    for role in ("generators", "critics"):
        steps = [json.loads(line) for line in (run.folder / role / "metrics.jsonl").read_text().splitlines()]
        assert [one["step"] for one in steps] == [1, 1, 1]
        # Whoever learnt was compared with the base, and learnt from what was sampled.
        learnt = [one for one in steps if one["tokens_learnt"]]
        assert learnt
        assert {one["kl"] for one in learnt} == {0.0}, "before the first update an agent is the base"
        assert max(one["canary_mean"] for one in learnt) < recipe.training.canary_tolerance
    scores = list(run.records(SCORES, Score))
    assert len(scores) == len(recipe.evaluation.systems) * 2 * 2 * 2
    assert {one.system for one in scores} == set(recipe.evaluation.systems)
    assert (run.folder / "report.html").is_file()
