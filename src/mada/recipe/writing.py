"""A Recipe as a TOML file that loads back to the same recipe, and as a digest that names its content."""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mada.digest import digest_of
from mada.recipe.keys import Entry, KeyPath, entries, value_at
from mada.recipe.schema import Recipe
from mada.recipe.values import NONE_WORD

_COMMENT_WIDTH = 100


def recipe_to_toml(recipe: Recipe, *, explain: bool = False) -> str:
    """Write every field of a recipe; with `explain`, each under a comment that says what it is."""
    return "\n".join(_section(recipe, Recipe, (), explain)).strip() + "\n"


def digest(recipe: Recipe) -> str:
    """Return the SHA-256 of a recipe's values, the same however its file ordered, spaced or left out keys."""
    return digest_of(recipe.model_dump(mode="json"))


def _section(recipe: Recipe, section: type[BaseModel], path: KeyPath, explain: bool) -> Iterator[str]:
    # TOML wants a table's own values before the tables inside it.
    inside = list(entries(section, path))
    for entry in inside:
        if entry.section is None:
            yield from _comment(entry, explain)
            yield _line(entry, value_at(recipe, entry.path))
    for entry in inside:
        if entry.section is not None:
            yield ""
            yield from _comment(entry, explain)
            yield f"[{entry.key}]"
            yield from _section(recipe, entry.section, entry.path, explain)


def _comment(entry: Entry, explain: bool) -> list[str]:
    text = " ".join((entry.field.description or "").split())
    return [f"# {line}" for line in textwrap.wrap(text, _COMMENT_WIDTH)] if explain else []


def _line(entry: Entry, value: Any) -> str:
    if value is None and entry.field.default is None:
        return f"# {entry.name} = (none)"
    return f"{entry.name} = {_value(value)}"


def _value(value: Any) -> str:
    match value:
        case None:
            return _text(NONE_WORD)
        case bool():
            return str(value).lower()
        case str() | Path():
            return _text(str(value))
        case tuple():
            return f"[{', '.join(_value(item) for item in value)}]"  # pyright: ignore[reportUnknownVariableType]
        case _:
            return repr(value)


def _text(text: str) -> str:
    # Prompts are full of backslashes and line breaks: literal strings keep them readable where TOML allows.
    has_control = re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    if "\n" in text and not (has_control or "'''" in text or text.endswith("'")):
        return f"'''\n{text}'''"
    if re.search(r'[\\"]', text) and not (has_control or "\n" in text or "'" in text):
        return f"'{text}'"
    # A JSON string is a TOML basic string, but for DEL, which only TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
