import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from mada.debate import prompts
from mada.pipeline.stages import STAGE_NAMES
from mada.recipe import Recipe, load_recipe
from mada.recipe.keys import entries, find_entry, leaves, value_at, written
from mada.recipe.schema import FIRST_STAGE, first_stage
from mada.recipe.sections import BENCHMARKS, DataSection, TeamSection


def _all_entries():
    pending = list(entries())
    while pending:
        entry = pending.pop()
        yield entry
        if entry.section is not None:
            pending.extend(entries(entry.section, entry.path))


@pytest.mark.parametrize("entry", list(_all_entries()), ids=lambda entry: entry.key)
def test_every_field_says_what_it_is_and_which_point_it_serves(entry):
    text = entry.field.description
    assert text is not None
    point = r"[DPRATIEB]\d"
    assert re.search(rf"\((?:{point}(?:, {point})*(?:; ours)?|ours)\)\.$", text), text
    assert len(text) > 20


def test_every_section_has_a_docstring_of_its_own():
    sections = [entry.section for entry in _all_entries() if entry.section is not None]
    texts = [section.__doc__ for section in sections]
    assert len(sections) == 14
    assert None not in texts
    assert len(set(texts)) == len(texts)


def test_contract_of_names():
    inside = {entry.name: [field.name for field in entries(entry.section)] for entry in entries() if entry.section}
    assert [entry.name for entry in entries() if entry.section is None] == ["name", "seed"]
    assert inside == {
        "model": ["name", "revision", "dtype", "window"],
        "data": [
            *("train", "config", "split", "revision", "columns", "folder"),
            *("on_missing_answer", "subset_size", "screen", "validation_size", "decontaminate"),
        ],
        "prompts": [
            "reasoning",
            "debate_header",
            "debate_response",
            "debate_request",
            "judge_header",
            "judge_request",
            "share",
            "order",
        ],
        "team": ["generators", "critics", "rounds"],
        "lora": ["rank", "alpha", "dropout", "targets"],
        "reward": ["accuracy", "length"],
        "grading": ["time_limit", "workers"],
        "training": [
            *("batch_size", "group_size", "learning_rate", "warmup_ratio", "schedule"),
            *("adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay", "max_gradient_norm"),
            *("kl_coefficient", "clip_range", "loss_aggregation", "updates_per_rollout", "truncated"),
            *("temperature", "top_p", "max_new_tokens", "epochs", "steps"),
            *("validate_every", "checkpoint_every", "checkpoint_minutes", "keep_checkpoints"),
            *("micro_batch_tokens", "gradient_checkpointing", "canary_tolerance"),
        ],
        "generators": ["advantage", "std", "learning_rate", "steps", "truncated"],
        "critics": ["advantage", "std", "learning_rate", "steps", "truncated", "start", "examples"],
        "inference": ["temperature", "top_p", "top_k", "max_new_tokens"],
        "engine": ["kind", "url", "rows", "timeout", "retry_for", "fail_on_error", "threads"],
        "evaluation": ["benchmarks", "seeds", "problems", "systems", "prompt_price"],
    }


def test_default_prompts_are_the_papers():
    section = Recipe().prompts
    assert section.reasoning == prompts.REASONING
    assert section.debate_header == prompts.DEBATE_HEADER
    assert section.debate_response == prompts.DEBATE_RESPONSE
    assert section.debate_request == prompts.DEBATE_REQUEST
    assert section.share == "full"


def test_known_benchmarks_are_the_papers_five():
    assert BENCHMARKS == ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math")


def test_recipe_is_frozen_and_hashable():
    recipe = Recipe()
    with pytest.raises(ValidationError, match="frozen"):
        recipe.seed = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        recipe.lora.rank = 3  # type: ignore[misc]
    assert hash(recipe) == hash(Recipe())


def test_role_settings_beat_the_shared_ones():
    own = ["critics.learning_rate=2e-6", "generators.steps=7", "generators.truncated=skip"]
    recipe = load_recipe(None, overrides=["training.steps=100", "training.truncated=wrong", *own])
    generators, critics = recipe.training_for("generators"), recipe.training_for("critics")
    assert (generators.learning_rate, generators.steps, generators.truncated) == (1e-6, 7, "skip")
    assert (critics.learning_rate, critics.steps, critics.truncated) == (2e-6, 100, "wrong")
    assert critics.batch_size == 16


def test_a_recipe_can_be_built_in_python():
    recipe = Recipe(team=TeamSection(rounds=3), data=DataSection(folder=Path("data"), decontaminate=()))
    assert recipe.team == TeamSection(generators=3, critics=3, rounds=3)
    assert recipe.data.folder == Path("data")
    with pytest.raises(ValidationError, match=r"team.critics: got 0, wanted at least 1 while team.rounds is 2"):
        Recipe(team=TeamSection(critics=0))


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("lora.alpha=64", "lora.alpha", 64.0),
        ("lora.dropout=0", "lora.dropout", 0.0),
        ("training.warmup_ratio=1", "training.warmup_ratio", 1.0),
        ("training.kl_coefficient=0", "training.kl_coefficient", 0.0),
        ("inference.temperature=0", "inference.temperature", 0.0),
        ("inference.top_p=1e-9", "inference.top_p", 1e-9),
        ("seed=9223372036854775807", "seed", 2**63 - 1),
        ("data.decontaminate=[]", "data.decontaminate", ()),
        ('lora.targets=["q_proj"]', "lora.targets", ("q_proj",)),
        ("prompts.debate_header=", "prompts.debate_header", ""),
        ("training.gradient_checkpointing=true", "training.gradient_checkpointing", True),
        ("training.gradient_checkpointing=false", "training.gradient_checkpointing", False),
    ],
)
def test_bounds_are_inside(override, path, value):
    found = value_at(load_recipe(None, overrides=[override]), tuple(path.split(".")))
    assert found == value
    assert type(found) is type(value)


def test_keys_are_found_and_written():
    assert find_entry(["lora", "rank"]) is not None
    assert find_entry(["lora", "rank", "more"]) is None
    assert find_entry(["nothing"]) is None
    assert find_entry([]) is None
    assert len(list(leaves())) > 80
    assert written(("evaluation", "benchmarks", 1)) == "evaluation.benchmarks[1]"
    assert written(("model", 'odd "key"\n')) == 'model."odd \\"key\\"\\n"'


def test_every_field_names_the_first_stage_that_it_touches():
    keys = {leaf.key for leaf in leaves()}
    sections = {key.rpartition(".")[0] for key in keys}
    assert [key for key in FIRST_STAGE if key not in keys | sections] == []
    assert [key for key in keys if not {key, key.partition(".")[0]} & FIRST_STAGE.keys()] == []
    assert {stage for stage in FIRST_STAGE.values() if stage} <= set(STAGE_NAMES)
    assert first_stage("data.columns.answer") == "split"
    assert first_stage("evaluation.benchmarks[0]") == "evaluate"
    assert first_stage("lost") == "split"
