"""From a TOML file and overrides to a Recipe, or to one error that names every mistake in them."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mada.errors import RecipeError
from mada.recipe.mistakes import Sources, explain
from mada.recipe.overrides import Assignment, assign, parse_override, shallow
from mada.recipe.schema import Recipe
from mada.recipe.wording import quoted

_MOST_LISTED = 8


def load_recipe(path: Path | None, *, overrides: Sequence[str] = ()) -> Recipe:
    """Load a recipe: the paper's values, changed by the file (if any), changed by `key=value` overrides.

    Of two overrides of one key the last wins, as options of a command do. The error lists all mistakes at
    once; whether fields go together is looked at when each is valid.
    """
    text = "" if path is None else read_text(path)
    values = parse_toml(text, path)
    problems: list[str] = []
    assigned: list[Assignment] = []
    for override in overrides:
        try:
            assigned.extend(parse_override(override))
        except RecipeError as error:
            problems.append(str(error))
    for assignment in assigned:
        assign(values, assignment)
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        problems.extend(explain(error, Sources(path, text, tuple(assigned))))
    else:
        if not problems:
            return recipe
    if len(problems) == 1:
        raise RecipeError(problems[0])
    raise RecipeError("\n  ".join([f"{len(problems)} mistakes in this recipe:", *problems]))


def changed_recipe(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with some fields changed, by key; what does not go together is refused as in a file."""
    return _assigned(
        recipe, [Assignment(tuple(key.split(".")), value, f"{key}={value}") for key, value in changes.items()]
    )


def overridden(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Return a recipe with `key=value` overrides, for a run that goes on."""
    return _assigned(recipe, [assignment for text in overrides for assignment in parse_override(text)])


def _assigned(recipe: Recipe, assigned: Sequence[Assignment]) -> Recipe:
    values = recipe.model_dump(mode="json")
    for assignment in assigned:
        assign(values, assignment)
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError("; ".join(explain(error, Sources(None, "", tuple(assigned))))) from None


def read_text(path: Path) -> str:
    """Return a TOML file's text, or say why it cannot be read."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such file{_nearby(path)}") from None
    except IsADirectoryError:
        inside = sorted(path.glob("*.toml"))
        example = f", such as {inside[0]}" if inside else ""
        raise RecipeError(f"{path}: got a folder, wanted a recipe file{example}") from None
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: got byte 0x{content[error.start]:02x} at offset {error.start}, which is not UTF-8; "
            "wanted a TOML text file: save it as UTF-8"
        ) from None


def _nearby(path: Path) -> str:
    beside = sorted(file for file in path.parent.glob("*.toml") if file.name != "pyproject.toml")
    found = dict.fromkeys([*beside, *sorted(Path("recipes").rglob("*.toml"))])
    if not found:
        return "; `mada recipe show` prints a complete recipe to start from"
    # People type `paper` for recipes/paper.toml, so stems are compared; of two alike, the nearest counts.
    by_stem = {file.stem: str(file) for file in reversed(found)}
    near = get_close_matches(path.stem, by_stem, n=1)
    hint = f"; did you mean {by_stem[near[0]]!r}?" if near else ""
    names = [str(file) for file in found]
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{hint} (recipes nearby: {quoted(names[:_MOST_LISTED])}{more})"


def parse_toml(text: str, path: Path | None) -> dict[str, Any]:
    """Parse a TOML text, or say where it is none."""
    try:
        return shallow(tomllib.loads(text))
    except ValueError as error:
        # The parser tells the place only in its message; integers of thousands of digits come without one.
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
        if found is None:
            raise RecipeError(f"{path}: not valid TOML: {error}") from None
        reason, line, column = found.groups()
        place = f"{line}:{column}" if line else str(text.count("\n") + 1)
        raise RecipeError(f"{path}:{place}: not valid TOML: {reason}") from None
    except RecursionError:
        raise RecipeError(f"{path}: not a recipe: its lists or tables are nested too deeply") from None
