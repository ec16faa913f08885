"""The paper's LoRA re-trainings of its strongest baselines, as recipes (E5)."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mada.cli import app
from mada.difference import differences
from mada.problems.known import KNOWN_SETS, known_name
from mada.recipe import Recipe, load_recipe

REPOSITORY = Path(__file__).resolve().parents[3]
DISTILLED = REPOSITORY / "tests" / "fixtures" / "deepseek-r1-distill-qwen-1.5b"
FOLDER = REPOSITORY / "recipes" / "baselines"
DATA = {"still-3-lora": "still-3", "deepscaler-lora": "deepscaler"}

# What makes a baseline of the paper's experiment; everything else stays.
CHANGED = {
    *("name", "data.subset_size", "team.generators", "team.critics", "team.rounds"),
    *("lora.rank", "reward.accuracy", "reward.length", "evaluation.systems"),
}


@pytest.fixture(params=sorted(DATA))
def name(request) -> str:
    return request.param


@pytest.fixture
def recipe(name) -> Recipe:
    return load_recipe(FOLDER / f"{name}.toml")


def test_one_agent_learns_alone_from_being_right_on_all_rows_of_its_own_data(name, recipe):
    assert (recipe.name, recipe.data.train, recipe.data.subset_size) == (name, DATA[name], "all")
    assert known_name(recipe.data.train) == DATA[name]
    assert KNOWN_SETS[DATA[name]].kind == "training"
    assert (recipe.team.generators, recipe.team.critics, recipe.team.rounds) == (1, 0, 1)
    assert recipe.reward.accuracy > recipe.reward.length == 0
    assert recipe.generators.advantage == "grpo"


def test_everything_else_is_the_papers_experiment(name, recipe):
    found = {one.key for one in differences(load_recipe(REPOSITORY / "recipes" / "paper.toml"), recipe)}
    assert found == CHANGED | ({"data.train", "data.on_missing_answer"} if DATA[name] != "still-3" else set())


def test_its_plan_is_one_training_and_one_evaluation(name):
    from mada.pipeline.plan import plan_of

    recipe = load_recipe(FOLDER / f"{name}.toml", overrides=[f"model.name={DISTILLED}"])
    plan = plan_of(recipe)
    assert [stage.name for stage in plan.stages] == ["split", "generators", "evaluate", "report"]
    assert plan.trainable == plan.trainable_per_agent == 147_718_144
    steps = -(-(KNOWN_SETS[DATA[name]].rows - 750) // 4)
    looks = 1 + -(-steps // 250)
    assert plan.stages[1].completions == steps * 16 + looks * 750
    # 872 problems, ten seeds, a call of the base and one of the trained model
    assert plan.stages[2].completions == 872 * 10 * 2


def test_a_dry_run_of_it_needs_no_network(name, data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("MADA_DATA", str(data_folder))
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(
        app,
        ["run", str(FOLDER / f"{name}.toml"), "--dry-run", f"model.name={DISTILLED}"],
        env={"COLUMNS": "200", "TERM": "dumb"},
    )
    assert "147,718,144" in shown.output
    # the fixture has a configuration alone
    assert "no tokenizer" in str(shown.exception)
    assert not list(tmp_path.iterdir())
