"""From a TOML file and `key=value` overrides to a Recipe, or to one error that lists every mistake.

The value of an override is TOML. What is not TOML is text, so `model.name=Qwen/Qwen2.5-0.5B` needs no quotes, and a
field that takes only text takes it as it stands, so `model.revision=1234567` is not a number.
"""

import re
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mada.errors import RecipeError
from mada.recipe.errors import mistakes_in, refuse, section_in
from mada.recipe.schema import Recipe

_MAX_LISTED = 8
_MAX_DEPTH = 20
"""Nesting of tables in a file or an override; a recipe has three levels."""
_DEEP_KEY = re.compile(r"(?:[\w-]+\s*\.\s*){500}")


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A value for one key, and the text of the override it came from."""

    path: tuple[str, ...]
    value: Any
    text: str


def load_recipe(path: Path | None, *, overrides: Sequence[str] = ()) -> Recipe:
    """Load a recipe: the paper's values, changed by the file (if any), changed by `key=value` overrides.

    Of two overrides of one key the last wins. The error lists all mistakes at once; whether fields contradict each
    other is checked when each is valid.
    """
    values = {} if path is None else parse_toml(read_text(path), path)
    mistakes: list[str] = []
    assignments: list[_Assignment] = []
    for override in overrides:
        try:
            assignments += _parse_override(override)
        except RecipeError as error:
            mistakes.append(str(error))
    return _validated(values, assignments, where="" if path is None else str(path), mistakes=mistakes)


def changed_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with other values of some fields, given by key."""
    assignments = [_Assignment(tuple(key.split(".")), value, f"{key}={value}") for key, value in changes.items()]
    return _validated(recipe.model_dump(mode="json"), assignments)


def overridden(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return a recipe with `key=value` overrides."""
    assignments = [assignment for text in overrides for assignment in _parse_override(text)]
    return _validated(recipe.model_dump(mode="json"), assignments)


def read_text(path: Path) -> str:
    """Return a TOML file's text, or say why it cannot be read."""
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file{_nearby(path)}") from None
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}; wanted a recipe file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8 (at byte {error.start + 1}); save the file as UTF-8") from None


def _loads(text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):  # tomllib takes memory with the square of a key's depth
        raise RecursionError
    return tomllib.loads(text)


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse a TOML text, or say what is wrong with it."""
    try:
        return _shallow(_loads(text))
    except ValueError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise RecipeError(f"{path}: its lists or tables are nested too deeply") from None


def _validated(
    values: dict[str, Any], assignments: Sequence[_Assignment], *, where: str = "", mistakes: Sequence[str] = ()
) -> Recipe:
    for assignment in assignments:
        _assign(values, assignment)
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        overrides = {".".join(one.path): one.text for one in assignments}
        mistakes = [*mistakes, *mistakes_in(error, Recipe, where=where, overrides=overrides)]
        raise refuse(mistakes, what="this recipe") from None
    if mistakes:
        raise refuse(mistakes, what="this recipe")
    return recipe


def _nearby(path: Path) -> str:
    beside = sorted(file for file in path.parent.glob("*.toml") if file.name != "pyproject.toml")
    found = dict.fromkeys([*beside, *sorted(Path("recipes").rglob("*.toml"))])
    if not found:
        return "; `mada recipe show` prints a complete recipe to start from"
    # People type `paper` for recipes/paper.toml, so stems are compared; of two alike, the nearest counts.
    by_stem = {file.stem: str(file) for file in reversed(found)}
    near = get_close_matches(path.stem, by_stem, n=1)
    hint = f"; did you mean {by_stem[near[0]]!r}?" if near else ""
    names = [repr(str(file)) for file in found]
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{hint} (recipes nearby: {', '.join(names[:_MAX_LISTED])}{more})"


def _parse_override(text: str) -> list[_Assignment]:
    """Parse one `key=value`; an inline table, `lora={rank=8, alpha=16}`, sets each of the keys in it."""
    if not text.isascii() and not text.isprintable() and re.search(r"[\ud800-\udfff]", text):
        raise RecipeError(f"override {text!r}: got bytes that are not UTF-8, wanted text")
    key, equals, raw = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if len(path) > _MAX_DEPTH:
        raise RecipeError(f"override {text[:40]!r}…: got a key of {len(path):,} parts, wanted one such as lora.rank")
    if not equals or not all(path):
        raise RecipeError(f"override {text!r}: wanted key=value, such as lora.rank=16")
    holder = next((part for depth in range(1, len(path)) if _is_value(part := path[:depth])), None)
    if holder:
        raise RecipeError(f"override {text!r}: {'.'.join(holder)} has no keys inside; write {'.'.join(holder)}=…")
    return list(_assignments(path, _value(raw.strip(), path), text))


def _value(raw: str, path: tuple[str, ...]) -> Any:
    try:
        parsed = _shallow(_loads(f"value = {raw}"))
    except ValueError:
        return raw
    except RecursionError:
        raise RecipeError(f"override of {'.'.join(path)}: its lists or tables are nested too deeply") from None
    # A line break in the value could smuggle in more keys; such a value is text.
    value = parsed["value"] if len(parsed) == 1 else raw
    field = _find(path)
    return raw if field and not isinstance(value, str) and _takes_only_text(field.annotation) else value


def _takes_only_text(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _takes_only_text(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return all(_takes_only_text(option) for option in get_args(kind) if option is not types.NoneType)
    return kind in (str, Path) or get_origin(kind) is Literal


def _find(path: Sequence[str]) -> FieldInfo | None:
    section: type[BaseModel] | None = Recipe
    field: FieldInfo | None = None
    for name in path:
        field = section.model_fields.get(name) if section else None
        section = section_in(field.annotation) if field else None
    return field


def _is_value(path: Sequence[str]) -> bool:
    field = _find(path)
    return field is not None and section_in(field.annotation) is None


def _assignments(path: tuple[str, ...], value: Any, text: str) -> Iterator[_Assignment]:
    field = _find(path)
    if isinstance(value, dict) and field and section_in(field.annotation):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _assignments((*path, name), inner, text)
    else:
        yield _Assignment(path, value, text)


def _assign(values: dict[str, Any], assignment: _Assignment) -> None:
    """Set one value in nested tables. Where a file has something else than a table, validation will refuse it."""
    *parents, name = assignment.path
    table: Any = values
    for parent in parents:
        if not isinstance(table, dict):
            return
        table = cast("dict[str, Any]", table).setdefault(parent, {})
    if isinstance(table, dict):
        table[name] = assignment.value


def _shallow(values: dict[str, Any]) -> dict[str, Any]:
    """Return tables as they are, or raise a RecursionError if they are nested deeper than Python can follow."""
    inside: list[Any] = [values]
    for _ in range(_MAX_DEPTH):
        inside = [inner for one in inside if isinstance(one, dict) for inner in cast("dict[str, Any]", one).values()]
    if inside:
        raise RecursionError
    return values
