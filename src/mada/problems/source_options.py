"""Columns and answer form of one source, written behind its name: `my.csv{problem = "task", form = "last-boxed"}`.

What stands in braces is a TOML inline table, so it goes wherever a source is named: in a recipe, in an option, and for
each source of a sum. A recipe may write the whole source as a table, `{path = "my.csv", problem = "task"}`.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mada.errors import DataError
from mada.problems.rows import ROLES

FORM, PATH = "form", "path"
HUB_KEYS = ("config", "split", "revision")
KEYS = (*ROLES, FORM, *HUB_KEYS)
_WITH_OPTIONS = re.compile(r"([^{]*[^{\s])\s*(\{.*\})", re.DOTALL)
_PLUS = re.compile(r"\s\+\s(?![^{]*\})")


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source's name, and what was written behind it."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def columns(self) -> dict[str, str]:
        """The columns that were named, by role."""
        return {role: self.options[role] for role in ROLES if role in self.options}

    def __str__(self) -> str:
        inside = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in self.options.items())
        return f"{self.name}{{{inside}}}" if inside else self.name


def parse_sources(text: str) -> list[SourceText]:
    """Return the sources of a sum, `math-train + my.csv{answer = "solution"}`; a file may be named like one."""
    if Path(text).exists():
        return [SourceText(text)]
    return [_parsed(one.strip()) for one in _PLUS.split(text)]


def source_of_table(table: Mapping[str, Any]) -> SourceText:
    """Read a source that is written as a table with its `path`."""
    options = dict(table)
    name = options.pop(PATH, None)
    if not isinstance(name, str) or not name.strip():
        raise DataError(f'a source as a table needs its path, such as {{{PATH} = "my.csv", answer = "solution"}}')
    return SourceText(name, _checked(name, options))


def _parsed(text: str) -> SourceText:
    found = _WITH_OPTIONS.fullmatch(text)
    if found is None or Path(text).exists():
        return SourceText(text)
    return SourceText(found[1], _checked(found[1], parse_table(found[2])))


def parse_table(text: str) -> dict[str, Any]:
    """Read an inline table of TOML."""
    try:
        return tomllib.loads(f"table = {text}")["table"]
    except (ValueError, RecursionError) as error:
        raise DataError(
            f'{text}: is not a TOML table, such as {{problem = "task", answer = "solution"}}: {error}'
        ) from None


def _checked(name: str, options: Mapping[str, object]) -> dict[str, str]:
    for key, value in options.items():
        if key not in KEYS:
            raise DataError(f"{name}: there is no {key!r} to say of a source; what can be said is {', '.join(KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise DataError(f'{name}: {key} is {value!r}; wanted text, such as {key} = "NAME"')
    return cast("dict[str, str]", dict(options))
