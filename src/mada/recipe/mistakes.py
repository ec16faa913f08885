"""Turning what validation refused into lines a person can act on: where, which key, got what, wanted what."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mada.recipe.consistency import ConflictError
from mada.recipe.keys import KeyPath, entries, find_entry, leaves, written
from mada.recipe.overrides import Assignment
from mada.recipe.schema import Recipe
from mada.recipe.wording import choices, did_you_mean, got, quoted, wanted


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a recipe's values were written: the file, if any, and the overrides, which come after it."""

    file: Path | None
    text: str
    overrides: tuple[Assignment, ...]

    def place(self, *paths: KeyPath) -> str:
        """Return where these keys get their values: the last override of one of them, or else the file."""
        lines = key_lines(self.text)
        newest_first = self.overrides[::-1]
        places = [
            *(_named(over) for path in paths for over in newest_first if path[: len(over.path)] == over.path),
            *(f"{self.file}:{lines[path]}" for path in paths if path in lines),
            # An override inside an unknown section, `modle.name=…`, is all there is of that section.
            *(_named(over) for path in paths for over in newest_first if over.path[: len(path)] == path),
            str(self.file),
        ]
        return places[0]


def _named(override: Assignment) -> str:
    return f"override {override.text!r}"


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line that each key of a valid TOML text is written on.

    The standard library's parser keeps no positions, so the text is cut into statements: the fewest next
    lines that are valid TOML alone.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        statement.append(line)
        try:
            values = tomllib.loads("\n".join(statement))
        except ValueError:
            continue  # a list or a text that goes on in the next line
        is_header = statement[0].lstrip().startswith("[")
        paths = [path if is_header else (*table, *path) for path in _paths(values)]
        for path in paths:
            lines.setdefault(path, number - len(statement) + 1)
        if is_header:
            table = paths[-1]
        statement = []
    return lines


def _paths(values: Mapping[str, Any], parent: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in values.items():
        yield (*parent, key)
        if isinstance(value, dict):
            yield from _paths(value, (*parent, key))  # pyright: ignore[reportUnknownArgumentType]


def explain(error: ValidationError, sources: Sources) -> Iterator[str]:
    """Yield one line per mistake; a field that fits none of its kinds is one mistake, not one per kind."""
    seen: set[Sequence[str | int]] = set()
    for detail in error.errors(include_url=False):
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, ConflictError):
            for conflict in cause.conflicts:
                yield f"{sources.place(*(tuple(key.split('.')) for key in conflict.keys))}: {conflict}"
            continue
        path = _known_path(detail)
        if path not in seen:
            seen.add(path)
            keys = tuple(part for part in path if isinstance(part, str))
            yield f"{sources.place(keys)}: {written(path)}: {_mistake(detail, path, keys)}"


def _known_path(detail: ErrorDetails) -> tuple[str | int, ...]:
    # pydantic adds the names of a union's members to the path; what the user wrote ends before them.
    if detail["type"] == "extra_forbidden":
        return detail["loc"]
    path: tuple[str | int, ...] = ()
    for part in detail["loc"]:
        if isinstance(part, str) and find_entry([*map(str, path), part]) is None:
            break
        path = (*path, part)
    return path


def _mistake(detail: ErrorDetails, path: Sequence[str | int], keys: KeyPath) -> str:
    entry = find_entry(keys)
    if entry is None:
        return _unknown(keys)
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])  # pyright: ignore[reportTypedDictNotRequiredAccess]
    value = detail["input"]
    if entry.section is not None:
        return f"got {got(value)}, wanted a table: [{entry.key}] with keys such as {_names(entry.section)[0]}"
    if len(path) > len(keys):
        item_kind = get_args(entry.field.annotation)[0]
        return f"got {got(value)}, wanted {wanted(item_kind)}"
    kind = entry.field.annotation
    hint = did_you_mean(value, choices(kind)) if isinstance(value, str) else ""
    return f"got {got(value)}, wanted {wanted(kind, entry.field.metadata)}{hint}"


def _unknown(path: KeyPath) -> str:
    holder = find_entry(path[:-1])
    allowed = _names((holder and holder.section) or Recipe)
    elsewhere = [leaf.key for leaf in leaves() if leaf.name == path[-1]]
    hint = f"; did you mean {quoted(elsewhere, last=' or ')}?" if elsewhere else did_you_mean(path[-1], allowed)
    return f"unknown key{hint} (allowed here: {', '.join(allowed)})"


def _names(section: type[BaseModel]) -> list[str]:
    return [entry.name for entry in entries(section)]
