"""Preflight: a recipe's mistakes are found before the first stage, all at once."""

import pytest

from mada.errors import DataError, RecipeError
from mada.pipeline.plan import Device
from mada.pipeline.preflight import check_recipe, find_mistakes
from mada.pipeline.stages import stage_names


def mistakes(recipe):
    return find_mistakes(recipe, stage_names(recipe))


def test_a_recipe_that_works_has_no_mistakes(tiny):
    assert mistakes(tiny()) == []


@pytest.mark.parametrize(
    ("overrides", "key", "word"),
    [
        (['evaluation.benchmarks=["abacus-esay"]'], "evaluation.benchmarks", "abacus-easy"),
        (['data.decontaminate=["nowhere.jsonl"]'], "data.decontaminate", "no such file"),
        (["data.train=nowhere.jsonl"], "data.train", "no such file"),
        (["data.columns.answer=reply"], "data.train", "'reply'"),
        (["data.subset_size=1000"], "data", "3,004"),
        (["model.name=nowhere/"], "model", "no such folder"),
        (["model.window=none", "inference.max_new_tokens=100000"], "model", "inference.max_new_tokens"),
        (["engine.url=http://localhost:1/v1"], "engine", "server"),
        (
            ["team.critics=0", "team.rounds=1", 'evaluation.systems=["best-of-n", "mada"]'],
            "evaluation.systems",
            "critics",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key(tiny, overrides, key, word):
    [mistake] = mistakes(tiny(*overrides))
    assert mistake.startswith(key)
    assert word in mistake


def test_all_mistakes_are_named_at_once(tiny):
    recipe = tiny("data.train=nowhere.jsonl", 'evaluation.benchmarks=["abacus-esay"]')
    with pytest.raises(RecipeError, match=r"(?s)2 mistakes.*abacus-esay.*nowhere"):
        check_recipe(recipe, stage_names(recipe))


def test_a_model_without_a_chat_template_is_named(tiny, base, monkeypatch):
    monkeypatch.setattr(base.tokenizer, "chat_template", None)
    monkeypatch.setattr("mada.models.loading.load_tokenizer", lambda name, revision: base.tokenizer)
    [mistake] = mistakes(tiny())
    assert "chat template" in mistake


def test_memory_that_not_one_row_fits_into_is_named(tiny, monkeypatch):
    monkeypatch.setattr(Device, "for_model", lambda parameters: Device("a small GPU", "cuda", 1000))
    [mistake] = mistakes(tiny())
    assert mistake.startswith("memory: ")


def test_a_hub_out_of_reach_is_not_asked_again(tiny, monkeypatch):
    stopped = []

    def read(name, **options):
        raise DataError(f"{name}: cannot be loaded") from ConnectionError("no network")

    monkeypatch.setattr("mada.pipeline.preflight.load_problems", read)
    monkeypatch.setattr("mada.pipeline.preflight.go_offline", lambda: stopped.append(True))
    assert len(mistakes(tiny())) == 2
    assert stopped
