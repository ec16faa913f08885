from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from mada.pipeline.stages import STAGE_NAMES
from mada.recipe import Recipe, load_recipe
from mada.recipe.errors import section_in, value_keys
from mada.recipe.schema import FIRST_STAGE, DataSection, TeamSection, first_stage


def sections(model: type[BaseModel] = Recipe):
    yield model
    for field in model.model_fields.values():
        if inner := section_in(field.annotation):
            yield from sections(inner)


@pytest.mark.parametrize("section", list(sections()), ids=lambda section: section.__name__)
def test_every_section_and_field_says_what_it_is(section):
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert len(field.description or "") > 15, name
        assert field.description.endswith("."), name


def test_a_role_may_override_the_shared_training_settings():
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
    with pytest.raises(ValidationError, match=r"team.critics: got 0"):
        Recipe(team=TeamSection(critics=0))


def test_every_field_names_the_first_stage_that_depends_on_it():
    keys = set(value_keys(Recipe))
    sections = {key.rpartition(".")[0] for key in keys}
    assert [key for key in FIRST_STAGE if key not in keys | sections] == []
    assert [key for key in keys if not {key, key.partition(".")[0]} & FIRST_STAGE.keys()] == []
    assert {stage for stage in FIRST_STAGE.values() if stage} <= set(STAGE_NAMES)
    assert first_stage("data.columns.answer") == "split"
    assert first_stage("evaluation.benchmarks[0]") == "evaluate"
    assert first_stage("lost") == "split"
