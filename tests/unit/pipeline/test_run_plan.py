"""What a recipe would do, in numbers worked out by hand."""

from pathlib import Path

import pytest

from mada.pipeline.plan import plan_of
from mada.recipe import load_recipe

REPOSITORY = Path(__file__).resolve().parents[3]
DISTILLED = REPOSITORY / "tests" / "fixtures" / "deepseek-r1-distill-qwen-1.5b"


def numbers(plan):
    return {stage.name: (stage.completions, stage.most_tokens) for stage in plan.stages}


def test_a_small_recipe(tiny):
    plan = plan_of(tiny())
    assert numbers(plan) == {
        "split": (None, None),
        # 3 agents × (2 steps × 8 completions + 2 looks at 4 problems)
        "generators": (72, 72 * 64),
        # (3 × 6 + 4) problems × 3 generators
        "critic-data": (66, 66 * 96),
        "critics": (72, 72 * 64),
        # 2 benchmarks × 2 problems × 2 seeds × (6 + 3 bare, 6 + 3 trained)
        "evaluate": (144, 144 * 96),
        "report": (None, None),
    }
    sizes = {stage.name: stage.size for stage in plan.stages}
    assert sizes["split"].startswith("3 × 6 problems and 4 for validation, from ")
    assert sizes["generators"] == "3 agents × 2 steps × 8 completions, 2 looks at the validation set"
    assert sizes["critic-data"] == "22 problems × 3 generators"
    assert sizes["evaluate"] == "2 benchmarks × 2 seeds × 18 completions a question"


def test_screening_has_the_bare_model_answer_every_subset(tiny):
    plan = plan_of(tiny("data.screen=5"))
    [stage] = [stage for stage in plan.stages if stage.name == "screen"]
    assert (stage.completions, stage.most_tokens) == (3 * 6 * 5, 3 * 6 * 5 * 64)
    assert stage.size == "18 problems × 5 answers of the bare model"
    assert stage.seconds is not None


def test_memory_and_parameters_of_the_embedded_model(tiny, base):
    plan = plan_of(tiny())
    linear = [module for name, module in base.model.named_modules() if name.endswith("_proj")]
    own = sum(4 * (layer.in_features + layer.out_features) for layer in linear)
    assert own == 67_840
    assert (plan.trainable_per_agent, plan.trainable) == (own, 6 * own)
    assert plan.base_parameters == sum(one.numel() for one in base.model.parameters())
    assert plan.setting.base_bytes == 4 * plan.base_parameters
    assert plan.setting.training_bytes == 3 * own * 16
    config = base.model.config
    width = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    assert plan.memory.row == 512, "the window is smaller than a long question and its reply"
    assert plan.memory.cache_bytes == plan.memory.rows * 2 * config.num_hidden_layers * width * 512 * 4
    assert plan.setting.machine.words == "a CPU like ours, two shared cores"
    assert (plan.dtype, plan.advice) == ("float32", ())
    assert [stage.name for stage in plan.stages if stage.seconds is None] == ["split", "report"]


@pytest.mark.parametrize(
    ("every", "steps", "looks"),
    [(2, 5, 4), (5, 5, 2), (9, 5, 2), (1, 3, 4)],  # before the first step, at every multiple, after the last
)
def test_looks_at_the_validation_set(tiny, every, steps, looks):
    plan = plan_of(tiny(f"training.validate_every={every}", f"training.steps={steps}"))
    assert plan.stages[1].completions == 3 * (steps * 8 + looks * 4)


def test_steps_follow_from_epochs_and_each_roles_subset(tiny):
    plan = plan_of(tiny("training.steps=none", "training.epochs=2", "team.critics=2", "training.validate_every=100"))
    # 6 problems twice in steps of 2 prompts; of the 18 critic examples each critic has 9
    assert plan.stages[1].completions == 3 * (6 * 8 + 2 * 4)
    assert plan.stages[3].completions == 2 * (9 * 8 + 2 * 4)


@pytest.mark.parametrize("critics", [0, 3])
def test_a_team_of_one_round_plans_nothing_for_critics(tiny, critics):
    plan = plan_of(tiny(f"team.critics={critics}", "team.rounds=1"))
    assert numbers(plan) == {
        "split": (None, None),
        "generators": (72, 72 * 64),
        "evaluate": (48, 48 * 96),
        "report": (None, None),
    }
    assert plan.trainable == 3 * plan.trainable_per_agent
    assert plan.setting.training_bytes == 3 * 67_840 * 16


def test_a_benchmark_of_unknown_size_leaves_the_evaluation_open(tiny):
    plan = plan_of(tiny('evaluation.benchmarks=["mine.jsonl"]', "evaluation.problems=none"))
    assert numbers(plan)["evaluate"] == (None, None)
    assert plan.stages[4].seconds is None
    limited = plan_of(tiny('evaluation.benchmarks=["mine.jsonl", "aime-2024"]', "evaluation.problems=50"))
    assert numbers(limited)["evaluate"] == (80 * 2 * 18, 80 * 2 * 18 * 96)


def test_the_papers_experiment():
    recipe = load_recipe(REPOSITORY / "recipes" / "paper.toml", overrides=[f"model.name={DISTILLED}"])
    plan = plan_of(recipe)
    assert (plan.trainable_per_agent, plan.trainable) == (18_464_768, 110_788_608)
    assert plan.base_parameters == 1_777_088_000
    # 7,500 problems, 4 to a step: 1,875 steps; a look before, 7 at multiples of 250, one after
    training = 3 * (1875 * 16 + 9 * 750)
    answers = (3 * 7500 + 750) * 3
    # MATH-500, AIME 24 and 25, AMC-23, Minerva
    evaluation = (500 + 30 + 30 + 40 + 272) * 10 * 18
    assert numbers(plan) == {
        "split": (None, None),
        "generators": (training, training * 8192),
        "critic-data": (answers, answers * 32_768),
        "critics": (training, training * 8192),
        "evaluate": (evaluation, evaluation * 32_768),
        "report": (None, None),
    }
    assert plan.setting.training_bytes == 3 * 18_464_768 * 16
    # Estimated for an H200, so in the format the weights are published in
    assert (plan.setting.machine.words, plan.dtype) == ("one H200 (no GPU is here)", "bfloat16")
    assert plan.setting.base_bytes == 2 * 1_777_088_000
    # A long question, three responses and a reply; 28 layers, 2 heads of 128 for keys and values
    assert plan.memory.row == 1024 + 3 * 32_768 + 8192 == 107_520
    slot = 2 * 28 * 2 * 128 * 107_520 * 2
    # 0.4 × (139 GiB − base − adapters) / slot
    assert plan.memory.rows == int(0.4 * (139 * 2**30 - 2 * 1_777_088_000 - 3 * 18_464_768 * 4) / slot) == 18
    # A question of 128 tokens, three responses and a reply
    assert [one.tokens for one in plan.memory.micro_batches] == [
        128 + 3 * 32_768 // 4 + 8192 // 4,
        128 + 3 * 32_768 + 8192,
    ]
    held = 2 * 1_777_088_000 + 3 * 18_464_768 * 16 + 18 * slot
    assert plan.memory.together == tuple(held + one.bytes for one in plan.memory.micro_batches)
    assert len(plan.advice) == 2, "the generators' rows fit"
    assert "Only 18 rows fit, and a step of the critics' training wants 48 at once" in plan.advice[0]
    assert "one sequence of 106,624 tokens takes 310 GB" in plan.advice[1]
    assert "training.gradient_checkpointing = true takes 23.1 GB" in plan.advice[1]


def test_what_is_advised_helps():
    name = f"model.name={DISTILLED}"
    overrides = ["model.window=41984", "training.gradient_checkpointing=true"]
    plan = plan_of(load_recipe(REPOSITORY / "recipes" / "paper.toml", overrides=[name, *overrides]))
    assert (plan.memory.rows, plan.advice) == (48, ())
    smaller = ["model.window=29696", "inference.max_new_tokens=16384", "engine.rows=48"]
    plan = plan_of(load_recipe(REPOSITORY / "recipes" / "paper.toml", overrides=[name, *smaller]))
    assert (plan.memory.rows, plan.advice) == (48, ())
    assert plan.memory.together[1] < plan.setting.machine.memory
