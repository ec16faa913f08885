import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mada.recipe import Recipe, diff_recipes, digest, load_recipe, recipe_to_toml
from mada.recipe.keys import leaves
from mada.recipe.sections import (
    DataSection,
    EvaluationSection,
    LoraSection,
    ModelSection,
    PromptsSection,
    TeamSection,
)
from mada.recipe.training import CriticsSection, TrainingSettings

# Characters that TOML treats specially, and some it must leave alone.
awkward = st.text(
    st.one_of(
        st.sampled_from("'\"\\\n\r\t\0\x1b\x7f\x85\u2028#=é𝒳"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=20,
)
names = awkward.filter(lambda text: text.strip() != "" and text != "none" and "\0" not in text)
sources = names.filter(lambda text: not text.lstrip().startswith("{"))
folder_names = names.filter(
    lambda text: text not in (".", "..") and all(one not in "/\\" and one >= " " for one in text)
)
positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_nan=False)
counts = st.integers(min_value=1, max_value=2**70)
seats = st.integers(min_value=1, max_value=1000)


def optional(strategy):
    return st.none() | strategy


recipes = st.builds(
    Recipe,
    name=folder_names,
    seed=st.integers(min_value=0, max_value=2**63 - 1),
    model=st.builds(ModelSection, name=names, revision=optional(names), dtype=st.sampled_from(["auto", "float32"])),
    data=st.builds(
        DataSection,
        folder=optional(names.map(Path)).filter(lambda path: path is None or str(path) != "none"),
        decontaminate=optional(st.lists(sources, unique=True, max_size=3).map(tuple)),
    ),
    prompts=st.builds(
        PromptsSection,
        reasoning=st.tuples(awkward, awkward).map(lambda ends: f"{ends[0]}{{question}}{ends[1]}"),
        debate_header=awkward,
        debate_response=st.tuples(awkward, awkward).map(lambda ends: f"{ends[0]}{{response}}{ends[1]}"),
        share=st.sampled_from(["full", "answer"]),
    ),
    team=st.builds(TeamSection, generators=seats, critics=seats, rounds=seats),
    lora=st.builds(
        LoraSection,
        alpha=positive,
        targets=st.just("all-linear") | st.lists(names, unique=True, min_size=1, max_size=3).map(tuple),
    ),
    training=st.builds(
        TrainingSettings,
        learning_rate=positive,
        max_gradient_norm=optional(positive),
        steps=optional(counts),
        micro_batch_tokens=optional(counts),
        gradient_checkpointing=st.booleans(),
    ),
    critics=st.builds(CriticsSection, learning_rate=optional(positive)),
    evaluation=st.builds(
        EvaluationSection, benchmarks=st.lists(sources, unique=True, min_size=1, max_size=3).map(tuple)
    ),
)


@settings(max_examples=60, deadline=None)
@given(recipe=recipes)
def test_what_is_written_loads_back_to_the_same_recipe(tmp_path_factory, recipe):
    path = tmp_path_factory.getbasetemp() / "written.toml"
    for explain in (False, True):
        path.write_bytes(recipe_to_toml(recipe, explain=explain).encode())
        loaded = load_recipe(path)
        assert diff_recipes(recipe, loaded) == []
        assert loaded == recipe
        assert digest(loaded) == digest(recipe)


def test_the_defaults_in_full():
    text = recipe_to_toml(Recipe())
    assert text.startswith(
        'name = "unnamed"\nseed = 0\n\n[model]\nname = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"\n'
        '# revision = (none)\ndtype = "auto"\n# window = (none)\n\n[data]\n'
    )
    assert "learning_rate = 1e-06\n" in text
    assert "$\\boxed{ANSWER}$" in text
    assert "gradient_checkpointing = false\n" in text
    assert "seeds = 10\n# problems = (none)\n" in text
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    for leaf in leaves():
        assert any(line.startswith(f"{leaf.name} = ") for line in lines), leaf.key


def test_none_is_written_where_it_is_not_the_default():
    recipe = load_recipe(None, overrides=["training.max_gradient_norm=none"])
    assert 'max_gradient_norm = "none"\n' in recipe_to_toml(recipe)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ("it's", '"it\'s"'),
        ("\\boxed", "'\\boxed'"),
        ('say "x"', "'say \"x\"'"),
        ("'\\'", "\"'\\\\'\""),
        ("one\ntwo\\", "'''\none\ntwo\\'''"),
        ("\none", "'''\n\none'''"),
        ("one\n'", '"one\\n\'"'),
        ("one\n'''\ntwo", "\"one\\n'''\\ntwo\""),
        ("one\r\ntwo", '"one\\r\\ntwo"'),
        ("\x7f\x1b", '"\\u007f\\u001b"'),
        ("é", '"é"'),
    ],
)
def test_texts_are_written_as_readably_as_toml_allows(text, written):
    found = recipe_to_toml(Recipe(prompts=PromptsSection(debate_header=text)))
    assert f"\ndebate_header = {written}\n" in found
    assert tomllib.loads(found)["prompts"]["debate_header"] == text


def test_explained_fields_stand_under_what_they_are():
    text = recipe_to_toml(Recipe(), explain=True)
    assert "# Rank of the low-rank update (T2).\nrank = 16\n" in text
    assert "# The adapter that makes an agent out of the base model (T2).\n[lora]\n" in text
    assert (
        "# Learning rate after the warm-up: it stays, or falls to zero in a line or a cosine. The paper is\n"
        "# silent; linear is what a warm-up ratio usually goes with (T3; ours).\n"
        'schedule = "linear"\n'
    ) in text
    assert all(len(line) <= 110 for line in text.splitlines() if line.startswith("#"))


def test_digest_ignores_layout_order_and_explicit_defaults(tmp_path):
    texts = [
        "[lora]\nrank = 8\n[reward]\nlength = 1\n",
        "reward = {length = 1.0}\n# comment\n[lora]\nalpha = 128\nrank = 8\n",
        "lora.rank = 8",
    ]
    digests = set()
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        digests.add(digest(load_recipe(path)))
    assert len(digests) == 1
    assert digests != {digest(Recipe())}
    assert all(len(one) == 64 and int(one, 16) >= 0 for one in digests)


def test_digest_changes_with_every_field():
    changes = [
        "name=a",
        "model.revision=a",
        "data.folder=a",
        "lora.targets=['a']",
        "training.top_p=0.5",
        "seed=1",
    ]
    digests = [digest(load_recipe(None, overrides=[change])) for change in changes]
    assert len({*digests, digest(Recipe())}) == len(changes) + 1
