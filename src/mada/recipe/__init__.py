"""The recipe of a run: a TOML file plus `key=value` overrides in, one frozen and complete value out."""

from mada.recipe.loading import load_recipe
from mada.recipe.schema import Recipe
from mada.recipe.writing import digest, recipe_to_toml

__all__ = ["Recipe", "digest", "load_recipe", "recipe_to_toml"]
