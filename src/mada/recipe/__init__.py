"""The recipe of a run: TOML file plus `key=value` overrides in, one frozen and complete value out."""

from mada.recipe.difference import Difference, diff_recipes, format_differences
from mada.recipe.loading import load_recipe
from mada.recipe.schema import Recipe
from mada.recipe.writing import digest, recipe_to_toml

__all__ = [
    "Difference",
    "Recipe",
    "diff_recipes",
    "digest",
    "format_differences",
    "load_recipe",
    "recipe_to_toml",
]
