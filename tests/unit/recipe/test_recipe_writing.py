from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mada.recipe import Recipe, digest, load_recipe, recipe_to_toml
from mada.recipe.schema import (
    CriticsSection,
    DataSection,
    EvaluationSection,
    LoraSection,
    ModelSection,
    PromptsSection,
    TeamSection,
    TrainingSettings,
)

# Characters that TOML treats specially, and some it must leave alone.
awkward = st.text(
    st.one_of(
        st.sampled_from("'\"\\\n\r\t\0\x1b\x7f\x85\u2028#=é𝒳"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=20,
)
names = awkward.filter(lambda text: text.strip() != "" and text != "none" and "\0" not in text)
sources = names.filter(lambda text: not text.lstrip().startswith(("{", "[")))
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
        assert loaded == recipe
        assert digest(loaded) == digest(recipe)


def test_fields_are_explained_by_the_comment_above_them():
    text = recipe_to_toml(Recipe(), explain=True)
    assert "# Rank of the low-rank update.\nrank = 16\n" in text
    assert "# The adapter that makes an agent out of the base model.\n[lora]\n" in text
    assert all(len(line) <= 110 for line in text.splitlines() if line.startswith("#"))


def test_the_digest_depends_on_values_alone(tmp_path):
    texts = [
        "[lora]\nrank = 8\n[reward]\nlength = 1\n",
        "reward = {length = 1.0}\n# comment\n[lora]\nalpha = 128\nrank = 8\n",
        "lora.rank = 8",
    ]
    path = tmp_path / "recipe.toml"
    digests = {digest(Recipe())}
    for text in texts:
        path.write_text(text)
        digests.add(digest(load_recipe(path)))
    assert len(digests) == 2
    changes = ["name=a", "model.revision=a", "data.folder=a", "lora.targets=['a']", "training.top_p=0.5", "seed=1"]
    digests.update(digest(load_recipe(None, overrides=[change])) for change in changes)
    assert len(digests) == 2 + len(changes)
    # Folders of runs made by earlier versions have this digest.
    assert digest(Recipe()) == "be47e8bb5f147510652b697e226877d1bf9c3d5d2751ab3734c62cb5b53fb59a"
