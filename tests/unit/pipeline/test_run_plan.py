"""What a recipe would do, in numbers worked out by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mada.pipeline.measure import Rates, measure, rates_of
from mada.pipeline.plan import ACTIVATIONS, RECOMPUTED_ACTIVATIONS, Device, Workload, plan_of
from mada.recipe import load_recipe

REPOSITORY = Path(__file__).resolve().parents[3]
DISTILLED = REPOSITORY / "tests" / "fixtures" / "deepseek-r1-distill-qwen-1.5b"


def numbers(plan):
    return {stage.name: (stage.completions, stage.most_tokens) for stage in plan.stages}


def test_a_small_recipe(tiny):
    plan = plan_of(tiny())
    assert numbers(plan) == {
        "split": (None, None),
        # 3 agents × (2 steps × 8 completions + 2 validations of 4 problems)
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
    assert sizes["generators"] == "3 agents × 2 steps × 8 completions, 2 validations"
    assert sizes["critic-data"] == "22 problems × 3 generators"
    assert sizes["evaluate"] == "2 benchmarks × 2 seeds × 18 completions a question"


def test_memory_and_parameters_of_the_embedded_model(tiny, base):
    plan = plan_of(tiny())
    linear = [module for name, module in base.model.named_modules() if name.endswith("_proj")]
    own = sum(4 * (layer.in_features + layer.out_features) for layer in linear)
    assert own == 67_840
    assert (plan.trainable_per_agent, plan.trainable) == (own, 6 * own)
    assert plan.base_parameters == sum(one.numel() for one in base.model.parameters())
    assert (plan.memory.base, plan.memory.training) == (4 * plan.base_parameters, 3 * own * 16)
    config = base.model.config
    width = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    assert plan.memory.row_tokens == 512, "the window is smaller than a long question and its reply"
    assert plan.memory.cache == plan.memory.rows * 2 * config.num_hidden_layers * width * 512 * 4
    assert (plan.device.kind, plan.dtype, plan.warnings, plan.blockers) == ("cpu", "float32", (), ())


@pytest.mark.parametrize(
    ("every", "steps", "validations"),
    [(2, 5, 4), (5, 5, 2), (9, 5, 2), (1, 3, 4)],  # before the first step, at every multiple, after the last
)
def test_validations(tiny, every, steps, validations):
    plan = plan_of(tiny(f"training.validate_every={every}", f"training.steps={steps}"))
    assert plan.stages[1].completions == 3 * (steps * 8 + validations * 4)


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
    assert plan.memory.training == 3 * 67_840 * 16


def test_a_benchmark_of_unknown_size_leaves_the_evaluation_open(tiny):
    plan = plan_of(tiny('evaluation.benchmarks=["mine.jsonl"]', "evaluation.problems=none"))
    assert numbers(plan)["evaluate"] == (None, None)
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
    # Without a GPU planned for one, so in the format the weights are published in
    assert (plan.device.memory, plan.dtype) == (139 * 2**30, "bfloat16")
    assert plan.memory.base == 2 * 1_777_088_000
    assert plan.memory.training == 3 * 18_464_768 * 16
    # A long question, three responses and a reply; 28 layers, 2 heads of 128 for keys and values
    assert plan.memory.row_tokens == 1024 + 3 * 32_768 + 8192 == 107_520
    row = 2 * 28 * 2 * 128 * 107_520 * 2
    # 0.4 × (139 GiB − base − adapters) / row
    assert plan.memory.rows == int(0.4 * (139 * 2**30 - 2 * 1_777_088_000 - 3 * 18_464_768 * 4) / row) == 18
    assert plan.memory.cache == 18 * row
    assert plan.memory.micro_batch_tokens == 107_520, "a sequence longer than the limit has one to itself"
    # 4.32 × 28 layers × (2 × 1,536 + 8,960) × 2 bytes a token
    assert plan.memory.micro_batch == round(107_520 * 4.32 * 28 * (2 * 1536 + 8960) * 2)
    held = plan.memory.base + plan.memory.training + plan.memory.cache
    assert plan.memory.total == held + plan.memory.micro_batch
    rows, micro_batch = plan.warnings
    assert "18 rows of 107,520 tokens fit" in rows
    assert "critics' training samples 48" in rows
    assert "micro-batch of 107,520 tokens" in micro_batch
    assert "training.gradient_checkpointing = true" in micro_batch
    assert not plan.blockers


def test_what_is_advised_helps():
    name = f"model.name={DISTILLED}"
    overrides = ["model.window=41984", "training.gradient_checkpointing=true"]
    plan = plan_of(load_recipe(REPOSITORY / "recipes" / "paper.toml", overrides=[name, *overrides]))
    assert (plan.memory.rows, plan.warnings) == (48, ())
    smaller = ["model.window=29696", "inference.max_new_tokens=16384", "engine.rows=48"]
    plan = plan_of(load_recipe(REPOSITORY / "recipes" / "paper.toml", overrides=[name, *smaller]))
    assert (plan.memory.rows, plan.warnings) == (48, ())
    assert plan.memory.total < plan.device.memory


@pytest.mark.parametrize(("tokens", "recomputed", "peak"), [(16_384, False, 48), (16_384, True, 7)])
def test_activations_are_those_measured_on_an_h200(tokens, recomputed, peak):
    """Peaks of docs/results.md, "Learning on a GPU": 1.5B in bfloat16, three adapters, micro-batches of 16,384."""
    held = 2 * 1_543_714_304 + 16 * 3 * 18_464_768
    factor = RECOMPUTED_ACTIVATIONS if recomputed else ACTIVATIONS
    activations = tokens * factor * 28 * (2 * 1536 + 8960) * 2
    assert (held + activations) / 2**30 == pytest.approx(peak, rel=0.03)


@pytest.mark.parametrize(("memory", "word"), [(1_000_000, "base alone"), (10_500_000, "rows")])
def test_a_device_too_small_is_a_blocker(tiny, monkeypatch, memory, word):
    monkeypatch.setattr(Device, "for_model", lambda parameters: Device("a small GPU", "cuda", memory))
    plan = plan_of(tiny("model.dtype=float32"))
    assert word in plan.blockers[0]


def test_measured_steps_are_extrapolated():
    rates = Rates(reply_tokens=100, sampled_per_second=1000, learned_per_second=500)
    rollouts = Workload(80, 512, group_size=8, responses=3, response_tokens=400, learns=True)
    # 80 × 100 tokens sampled; each learnt with an eighth of three responses of 100
    assert rates.seconds(rollouts) == pytest.approx(8 + 80 * (100 + 300 / 8) / 500)
    assert rates.seconds(Workload(80, 50)) == pytest.approx(4), "replies end at their limit"


def test_rates_are_totals_of_the_steps():
    """Two agents of 100 and 300 tokens in a step of 2 s of sampling and 4 of learning, which learns from 100 and 0."""
    agents = {name: SimpleNamespace(length=tokens / 4, tokens=tokens) for name, tokens in (("a", 100), ("b", 300))}
    agents["a"].tokens_learnt, agents["b"].tokens_learnt = 100, 0
    step: Any = SimpleNamespace(agents=agents, rollout_seconds=2.0, learn_seconds=4.0)
    assert rates_of([step, step]) == Rates(reply_tokens=50, sampled_per_second=200, learned_per_second=25)
    agents["a"].tokens_learnt = 0
    assert rates_of([step]).learned_per_second is None


def test_a_recipe_is_measured_in_a_folder_of_its_own(tiny, tmp_path):
    recipe = tiny()
    before = sorted(tmp_path.rglob("*"))
    rates = measure(recipe)
    assert sorted(tmp_path.rglob("*")) == before
    assert 0 < rates.reply_tokens <= 64
    assert rates.sampled_per_second > 0
    plan = plan_of(recipe)
    seconds = {stage.name: rates.stage_seconds(stage) for stage in plan.stages}
    assert [name for name, value in seconds.items() if value is None] == ["split", "report"]
    assert rates.total_seconds(plan) == pytest.approx(sum(value or 0 for value in seconds.values()))
