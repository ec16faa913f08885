"""What validation refused, one line per mistake: where, which key, what was given, what is allowed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mada.errors import RecipeError
from mada.text import json_excerpt

_CREDENTIALS = re.compile(r"(?<=//)[^/\s]*(?=@)|(?<=[?#])\S+")
"""User, password, query and fragment of an address, which no message repeats."""
_WANTED = {"tuple_type": "a list", "model_type": "a table", "dict_type": "a table", "is_instance_of": "text"}


def section_in(kind: Any) -> type[BaseModel] | None:
    """Return the section that a field of this type holds, itself or inside a list or table; None for a plain value."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for part in get_args(kind) if (found := section_in(part))), None)


def value_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted key of every value in a model and its sections, such as `lora.rank`."""
    for name, field in model.model_fields.items():
        section = section_in(field.annotation)
        if section is None:
            yield prefix + name
        else:
            yield from value_keys(section, f"{prefix}{name}.")


def mistakes_in(
    error: ValidationError, model: type[BaseModel], *, where: str, overrides: Mapping[str, str] | None = None
) -> list[str]:
    """Return one line per mistake; `where` is the file, unless the value came from one of `overrides`."""
    by_key: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        # Values of a union fail once for each of its types; these are one mistake.
        found = by_key.setdefault(_key(detail, model), [])
        message = _message(detail, model)
        if detail["type"] == "value_error":
            found[:] = message.splitlines()
        elif found and ", wanted " in message and found[0].startswith("got "):
            first, semicolon, hint = found[0].partition("; ")
            found[0] = f"{first} or {message.partition(', wanted ')[2]}{semicolon}{hint}"
        else:
            found.append(message)
    lines: list[str] = []
    for key, messages in by_key.items():
        place = _override_of(key, overrides or {}, unknown=messages[0].startswith("unknown key")) or where
        lines += [": ".join(filter(None, (place, key, message))) for message in messages]
    return lines


def refuse(mistakes: Sequence[str], *, what: str) -> RecipeError:
    """Return the error that lists all mistakes."""
    if len(mistakes) == 1:
        return RecipeError(mistakes[0])
    return RecipeError("\n  ".join([f"{len(mistakes)} mistakes in {what}:", *mistakes]))


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest allowed name, or nothing when none is near."""
    near = get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _key(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """Write the path to a mistake as `systems[0].kind`, without the names that pydantic gives a union's types."""
    key = ""
    section: type[BaseModel] | None = model
    for part in detail["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif section is None:
            break
        else:
            key += ("." if key else "") + (part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part))
            if part in section.model_fields:
                section = section_in(section.model_fields[part].annotation)
    return key


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"], model)
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    wanted = detail["msg"].removeprefix("Input should be ")
    if wanted.startswith(("greater", "less")):
        wanted = f"a number {wanted}"
    if kind == "too_short":
        wanted = f"at least {context['min_length']}"
    hint = ""
    if kind == "literal_error" and isinstance(value, str):
        hint = did_you_mean(value, re.findall(r"'([^']+)'", context["expected"]))
    return f"got {json_excerpt(value, 60)}, wanted {_WANTED.get(kind, wanted)}{hint}"


def _unknown_key(path: Sequence[str | int], model: type[BaseModel]) -> str:
    section = model
    for part in path[:-1]:
        if part in section.model_fields:
            section = section_in(section.model_fields[str(part)].annotation) or section
    name = str(path[-1])
    elsewhere = [repr(key) for key in value_keys(model) if key.endswith(f".{name}")]
    hint = f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else did_you_mean(name, section.model_fields)
    return f"unknown key{hint} (allowed here: {', '.join(section.model_fields)})"


def _override_of(key: str, overrides: Mapping[str, str], *, unknown: bool) -> str:
    """Return the last override that set a key, the table around it or, in an unknown section, a key inside it."""
    for path, text in reversed(list(overrides.items())):
        is_inside = f"{key}.".startswith((f"{path}.", f"{path}["))
        if is_inside or (unknown and path.startswith(f"{key}.")):
            return f"override {_CREDENTIALS.sub('***', text) if '://' in text else text!r}"
    return ""
