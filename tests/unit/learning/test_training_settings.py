"""The learner's settings are the recipe's training section, field by field."""

import dataclasses

from mada.learning.settings import TrainingSettings
from mada.recipe import load_recipe
from mada.recipe.training import TrainingSection


def test_fields_and_defaults_are_the_recipes():
    section = {name: field.default for name, field in TrainingSection.model_fields.items()}
    settings = {field.name: field.default for field in dataclasses.fields(TrainingSettings)}
    assert settings == section
    assert list(settings) == list(section)
    assert [type(default) for default in settings.values()] == [type(default) for default in section.values()]


def test_a_section_becomes_settings():
    recipe = load_recipe(None, overrides=["training.steps=7", "training.gradient_checkpointing=true"])
    settings = TrainingSettings(**recipe.training_for("critics").model_dump())
    assert (settings.steps, settings.gradient_checkpointing) == (7, True)
    assert settings == TrainingSettings(steps=7, gradient_checkpointing=True)
