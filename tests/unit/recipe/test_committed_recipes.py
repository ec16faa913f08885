from pathlib import Path

import pytest

from mada.difference import differences
from mada.recipe import Recipe, load_recipe
from mada.recipe.evaluation_file import is_evaluation_file, load_evaluation

FOLDER = Path(__file__).parents[3] / "recipes"
FILES = sorted(FOLDER.rglob("*.toml"))
EVALUATIONS = [path for path in FILES if is_evaluation_file(path)]
RECIPES = [path for path in FILES if path not in EVALUATIONS]

# The paper's tables of training and of inference hyperparameters, row by row.
TRAINING_TABLE = {
    "training.batch_size": 16,
    "training.learning_rate": 1e-6,
    "training.warmup_ratio": 0.1,
    "training.weight_decay": 0,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.999,
    "training.adam_epsilon": 1e-8,
    "training.group_size": 4,
    "training.temperature": 0.7,
    "training.kl_coefficient": 0.04,
    "training.clip_range": 0.2,
    "lora.rank": 16,
    "lora.alpha": 128,
    "lora.dropout": 0.05,
}
INFERENCE_TABLE = {
    "inference.temperature": 1.0,
    "inference.top_p": 1.0,
    "inference.max_new_tokens": 32768,
    "team.generators": 3,
    "team.critics": 3,
    "team.rounds": 2,
    "evaluation.seeds": 10,
}
TEXT = {
    "model.name": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "data.train": "still-3",
    "data.subset_size": 7500,
    "data.validation_size": 750,
    "reward.accuracy": 2,
    "reward.length": 1,
    "generators.advantage": "grpo",
    "critics.advantage": "counterfactual",
    "evaluation.benchmarks": ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math"),
}
PAPER = {**TRAINING_TABLE, **INFERENCE_TABLE, **TEXT}


def test_the_quickstart_computes_with_one_thread():
    """Two wait for each other wherever something else needs the cores: see docs/results.md."""
    assert load_recipe(FOLDER / "quickstart.toml").engine.threads == 1


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_committed_recipe_loads_and_has_a_name(path):
    assert load_recipe(path).name != "unnamed"


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_committed_evaluation_loads_and_has_a_name(path):
    assert load_evaluation(path).name != "evaluation"


@pytest.mark.parametrize("key", PAPER)
def test_the_paper_recipe_holds_the_papers_value(key):
    section, name = key.split(".")
    assert getattr(getattr(load_recipe(FOLDER / "paper.toml"), section), name) == PAPER[key]
    assert getattr(getattr(Recipe(), section), name) == PAPER[key]


def test_the_defaults_are_the_paper_recipe():
    assert [one.key for one in differences(Recipe(), load_recipe(FOLDER / "paper.toml"))] == ["name"]
