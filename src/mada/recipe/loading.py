"""From a TOML file and `key=value` overrides to a Recipe, or to one error that lists every mistake.

The value of an override is TOML. What is not TOML is text, so `model.name=Qwen/Qwen2.5-0.5B` needs no quotes, and a
field that takes only text takes it as it stands, so `model.revision=1234567` is not a number.
"""

import tomllib
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel

from mada.errors import RecipeError
from mada.recipe.errors import section_in, validated
from mada.recipe.schema import Recipe
from mada.text import has_lone_surrogate, shortened

_MAX_LISTED = 8


def load_recipe(path: Path | None, *, overrides: Sequence[str] = ()) -> Recipe:
    """Load a recipe: the paper's values, changed by the file (if any), changed by `key=value` overrides.

    Of two overrides of one key the last wins. The error lists all mistakes at once; whether fields contradict each
    other is checked when each is valid.
    """
    return _with_overrides({} if path is None else read_toml(path), overrides, where=str(path or ""))


def overridden(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return a recipe with `key=value` overrides."""
    return _with_overrides(recipe.model_dump(mode="json"), overrides)


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's values, or say why it cannot be read."""
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file{_nearby(path)}") from None
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}; wanted a recipe file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8 (at byte {error.start + 1}); save the file as UTF-8") from None
    with refusing_depth(str(path)):
        try:
            return tomllib.loads(text)
        except ValueError as error:
            raise RecipeError(f"{path}: not valid TOML: {error}") from None


@contextmanager
def refusing_depth(where: str) -> Generator[None]:
    """Turn Python's refusal to follow lists and tables any deeper into a RecipeError."""
    try:
        yield
    except RecursionError:
        raise RecipeError(f"{where}: its lists or tables are nested too deeply") from None


def _with_overrides(values: dict[str, Any], overrides: Sequence[str], *, where: str = "") -> Recipe:
    mistakes: list[str] = []
    text_of: dict[str, str] = {}
    for text in overrides:
        key, equals, raw = text.partition("=")
        path = [part.strip() for part in key.split(".")]
        shown = f"override {shortened(text, 60)!r}"
        if has_lone_surrogate(text):
            mistakes.append(f"{shown}: got bytes that are not UTF-8, wanted text")
        elif not equals or not all(path):
            mistakes.append(f"{shown}: wanted key=value, such as lora.rank=16")
        else:
            try:
                with refusing_depth(shown):
                    _set(values, path, _parsed(raw.strip()), raw=raw.strip())
            except RecipeError as error:
                mistakes.append(f"{shown}: {error}")
            text_of[".".join(path)] = text
    with refusing_depth(where):
        return validated(Recipe, values, where=where, overrides=text_of, mistakes=mistakes)


def _parsed(raw: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except ValueError:
        return raw
    # A line break in the value could smuggle in more keys; such a value is text.
    return parsed["value"] if len(parsed) == 1 else raw


def _set(
    table: dict[str, Any],
    path: Sequence[str],
    value: Any,
    section: type[BaseModel] | None = Recipe,
    *,
    raw: str | None = None,
) -> None:
    """Set a value in nested tables; a table for a section, `lora={rank=8, alpha=16}`, sets each of the keys in it."""
    name, *rest = path
    field = section.model_fields.get(name) if section else None
    inner = section_in(field.annotation) if field else None
    if field and rest and not inner:
        raise RecipeError(f"{name} has no keys inside; leave out what follows it")
    if not rest and not (inner and isinstance(value, dict)):
        takes_raw = raw is not None and field is not None and _takes_only_text(field.annotation)
        table[name] = raw if takes_raw and not isinstance(value, str) else value
        return
    below = table.setdefault(name, {})
    if isinstance(below, dict):  # validation refuses what a file has there instead
        inside: list[tuple[list[str], Any]] = [(rest, cast("Any", value))]
        if not rest:
            inside = [([key], one) for key, one in cast("dict[str, Any]", value).items()]
        for path_below, one in inside:
            _set(cast("dict[str, Any]", below), path_below, one, inner, raw=raw if rest else None)


def _takes_only_text(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _takes_only_text(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return all(_takes_only_text(option) for option in get_args(kind) if option is not types.NoneType)
    return kind in (str, Path) or get_origin(kind) is Literal


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
