"""A Recipe as a TOML file that loads back to the same recipe, and as a digest of its content."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, cast

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mada.digest import digest_of
from mada.recipe.errors import section_in
from mada.recipe.schema import NONE_WORD, Recipe


def recipe_to_toml(recipe: Recipe, *, explain: bool = False) -> str:
    """Write every field of a recipe; with `explain`, each under a comment that says what it is."""
    return "\n".join(_lines(recipe.model_dump(mode="json"), Recipe, "", explain)).strip() + "\n"


def digest(recipe: Recipe) -> str:
    """Return the SHA-256 of a recipe's values, the same however its file ordered, spaced or left out keys."""
    return digest_of(recipe.model_dump(mode="json"))


def _lines(values: Mapping[str, Any], section: type[BaseModel], prefix: str, explain: bool) -> Iterator[str]:
    tables: dict[str, tuple[type[BaseModel], FieldInfo]] = {}
    for name, field in section.model_fields.items():
        inner = section_in(field.annotation)
        if inner is not None:
            tables[name] = inner, field
            continue
        if explain:
            yield _comment(field)
        value = NONE_WORD if values[name] is None else values[name]
        # tomli-w writes \r\n in a multi-line text as \n.
        multiline = isinstance(value, str) and "\r" not in value
        yield tomli_w.dumps({name: value}, multiline_strings=multiline).rstrip("\n")
    # TOML wants a table's own values before the tables inside it.
    for name, (inner, field) in tables.items():
        yield ""
        if explain:
            yield _comment(field)
        yield f"[{prefix}{name}]"
        yield from _lines(cast("Mapping[str, Any]", values[name]), inner, f"{prefix}{name}.", explain)


def _comment(field: FieldInfo) -> str:
    return textwrap.fill(" ".join((field.description or "").split()), 100, initial_indent="# ", subsequent_indent="# ")
