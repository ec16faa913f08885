"""A run folder with a real recipe: what later stages rely on."""

import json
import re

import pytest
from typer.testing import CliRunner

from mada.cli import app
from mada.errors import RunError
from mada.recipe import digest, load_recipe
from mada.runs import Run


def test_the_manifest_holds_the_resolved_recipe_under_the_digest_that_check_prints(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nseed = 7\n[data]\nfolder = "data"\n[evaluation]\nbenchmarks = ["math-500"]\n')
    recipe = load_recipe(file, overrides=["lora.rank=8"])
    with Run.open(tmp_path / "run", recipe):
        pass
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["recipe"] == json.loads(recipe.model_dump_json())
    assert manifest["recipe"]["lora"]["rank"] == 8
    assert manifest["recipe_digest"] == digest(recipe)
    file.write_text(file.read_text() + "[lora]\nrank = 8\n")
    assert digest(recipe) in CliRunner().invoke(app, ["recipe", "check", str(file)]).stdout


def test_a_run_goes_on_with_its_recipe_and_refuses_another_one(tmp_path):
    recipe = load_recipe(None, overrides=["seed=7", "data.folder=data", "model.window=none"])
    with Run.open(tmp_path / "run", recipe) as run, run.stage("split") as stage:
        stage.summarize({"problems": 3})
        first = run.rng("split", "subset", 1).integers(1 << 30, size=4).tolist()
    with Run.open(tmp_path / "run", recipe) as run:
        assert [mark.name for mark in run.finished_stages()] == ["split"]
        assert run.rng("split", "subset", 1).integers(1 << 30, size=4).tolist() == first
        assert len(run.manifest.sessions) == 2
    other = load_recipe(None, overrides=["seed=7", "data.folder=data", "training.learning_rate=1e-4", "team.rounds=3"])
    with pytest.raises(RunError) as refusal:
        Run.open(tmp_path / "run", other)
    assert re.search(r"team\.rounds +2 +→ +3", str(refusal.value))
    assert re.search(r"training\.learning_rate +1e-06 +→ +0\.0001", str(refusal.value))
    with Run.open(tmp_path / "run", recipe) as run:
        assert run.mark("split")
