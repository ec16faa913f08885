"""The keys a recipe has: walking its sections, and writing a key the way TOML does."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mada.recipe.schema import Recipe

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of the schema, section or value, with the path of keys that leads to it."""

    path: KeyPath
    field: FieldInfo
    section: type[BaseModel] | None
    """The section's model, or None for a field that holds a value."""

    @property
    def name(self) -> str:
        """The last key of the path."""
        return self.path[-1]

    @property
    def key(self) -> str:
        """The whole path as it is written in an override."""
        return ".".join(self.path)


def entries(section: type[BaseModel] = Recipe, path: KeyPath = ()) -> Iterator[Entry]:
    """Yield the fields directly inside one section."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        inner = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        yield Entry((*path, name), field, inner)


def leaves(section: type[BaseModel] = Recipe, path: KeyPath = ()) -> Iterator[Entry]:
    """Yield every field that holds a value, in the order of the schema."""
    for entry in entries(section, path):
        if entry.section is None:
            yield entry
        else:
            yield from leaves(entry.section, entry.path)


def find_entry(path: Sequence[str]) -> Entry | None:
    """Return the field that a path leads to, or None where the schema has no such field."""
    section: type[BaseModel] | None = Recipe
    found: Entry | None = None
    for depth, name in enumerate(path):
        inside = entries(section, tuple(path[:depth])) if section else ()
        found = next((entry for entry in inside if entry.name == name), None)
        if found is None:
            return None
        section = found.section
    return found


def value_at(recipe: Recipe, path: KeyPath) -> Any:
    """Return what a recipe holds at a path."""
    value: Any = recipe
    for name in path:
        value = getattr(value, name)
    return value


def written(path: Sequence[str | int]) -> str:
    """Write a path as TOML would: `lora.rank`, `evaluation.benchmarks[1]`, `model."odd key"`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else json.dumps(part))
    return text
