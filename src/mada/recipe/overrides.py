"""`key=value` on the command line: one field of a recipe said without editing a file.

The value is TOML. What is not TOML is text, so `model.name=Qwen/Qwen2.5-0.5B` needs no quotes, and a field
that takes only text takes it as it stands, so `model.revision=1234567` is not a number.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from mada.errors import RecipeError
from mada.recipe.keys import KeyPath, find_entry, written
from mada.recipe.wording import takes_text

_DEEPEST = 20
"""Tables inside tables that are looked at; a recipe has three."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value for one key, and the text of the override it came from."""

    path: KeyPath
    value: Any
    text: str


def parse_override(text: str) -> tuple[Assignment, ...]:
    """Read one `key=value`; an inline table, `lora={rank=8, alpha=16}`, sets each of the keys it names."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RecipeError(f"override {text!r}: got bytes that are not UTF-8, wanted text") from None
    key, equals, raw = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if len(path) > _DEEPEST:
        raise RecipeError(f"override {text[:40]!r}…: got a key of {len(path):,} parts, wanted one such as lora.rank")
    if not equals:
        example = f"{key}=…" if find_entry(path) else "lora.rank=16"
        raise RecipeError(f"override {text!r}: got no '=', wanted key=value, such as {example}")
    if not all(path):
        raise RecipeError(f"override {text!r}: got an empty key, wanted key=value, such as lora.rank=16")
    for depth in range(1, len(path)):
        holder = find_entry(path[:depth])
        if holder is not None and holder.section is None:
            raise RecipeError(
                f"override {text!r}: {written(path)}: {holder.key} holds a value and has no keys inside; "
                f"write {holder.key}=…"
            )
    return tuple(_assignments(path, _value(raw.strip(), path), text))


def shallow(values: dict[str, Any]) -> dict[str, Any]:
    """Return tables as they are, or raise a RecursionError: dotted keys nest deeper than Python goes into."""
    inside: list[Any] = [values]
    for _ in range(_DEEPEST):
        inside = [inner for one in inside if isinstance(one, dict) for inner in cast("dict[str, Any]", one).values()]
    if inside:
        raise RecursionError
    return values


def _value(raw: str, path: KeyPath) -> Any:
    try:
        parsed = shallow(tomllib.loads(f"value = {raw}"))
    except ValueError:
        return raw
    except RecursionError:
        raise RecipeError(f"override of {written(path)}: its lists or tables are nested too deeply") from None
    # A line break in the value could smuggle in more keys; such a value is text.
    value = parsed["value"] if len(parsed) == 1 else raw
    entry = find_entry(path)
    if entry is not None and not isinstance(value, str) and takes_text(entry.field.annotation):
        return raw
    return value


def _assignments(path: KeyPath, value: Any, text: str) -> Iterator[Assignment]:
    entry = find_entry(path)
    if entry is not None and entry.section is not None and isinstance(value, dict):
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _assignments((*path, str(name)), inner, text)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield Assignment(path, value, text)


def assign(values: dict[str, Any], assignment: Assignment) -> None:
    """Set one value in nested tables, in place.

    Where a file has something else than a table on the way, it stays for validation to refuse.
    """
    *parents, name = assignment.path
    table: Any = values
    for parent in parents:
        if not isinstance(table, dict):
            return
        table = cast("dict[str, Any]", table).setdefault(parent, {})
    if isinstance(table, dict):
        table[name] = assignment.value
