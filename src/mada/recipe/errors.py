"""What validation refused, one line per mistake: where, which key, what was given, what is allowed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mada.errors import RecipeError
from mada.text import json_excerpt

Model = TypeVar("Model", bound=BaseModel)

_CREDENTIALS = re.compile(r"(?<=//)[^/\s]*(?=@)|(?<=[?#])\S+")
"""User, password, query and fragment of an address, which no message repeats."""
_WANTED = {"tuple_type": "a list", "model_type": "a table", "dict_type": "a table", "path_type": "text"}


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


def validated(
    model: type[Model],
    values: Mapping[str, Any],
    *,
    where: str,
    overrides: Mapping[str, str] | None = None,
    mistakes: Sequence[str] = (),
) -> Model:
    """Return the values as a model, or raise one error that lists `mistakes` and all others, with `where` they are.

    `overrides` are the texts of overrides by the key that each has set.
    """
    lines = list(mistakes)
    try:
        valid = model.model_validate(values)
        if not lines:
            return valid
    except ValidationError as error:
        lines += _lines(error, model, where, overrides or {})
    if len(lines) == 1:
        raise RecipeError(lines[0])
    raise RecipeError("\n  ".join([f"{len(lines)} mistakes:", *lines]))


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest allowed name, or nothing when none is near."""
    near = get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _lines(error: ValidationError, model: type[BaseModel], where: str, overrides: Mapping[str, str]) -> Iterator[str]:
    messages: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        key, section = _place(detail["loc"], model)
        message = _message(detail, section, model)
        # Values of a union fail once for each of its types; these are one mistake.
        messages[key] = f"{messages[key]} or {message.rpartition(', wanted ')[2]}" if key in messages else message
    for key, text in messages.items():
        place = _override_of(key, overrides, unknown=text.startswith("unknown key")) or where
        for message in text.splitlines():
            yield ": ".join(filter(None, (place, key, message)))


def _place(path: Sequence[str | int], model: type[BaseModel]) -> tuple[str, type[BaseModel]]:
    """Return a mistake's key, such as `systems[0].kind`, and its section. pydantic adds names of a union's types."""
    key, section, inside = "", model, model
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        elif inside is None:
            break
        else:
            section = inside
            key += ("." if key else "") + (part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part))
            if part in section.model_fields:
                inside = section_in(section.model_fields[part].annotation)
    return key, section


def _message(detail: ErrorDetails, section: type[BaseModel], model: type[BaseModel]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        name = str(detail["loc"][-1])
        elsewhere = [repr(key) for key in value_keys(model) if key.endswith(f".{name}")]
        hint = f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else did_you_mean(name, section.model_fields)
        return f"unknown key{hint} (allowed here: {', '.join(section.model_fields)})"
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    wanted = _WANTED.get(kind, detail["msg"].removeprefix("Input should be "))
    if wanted.startswith(("greater", "less")):
        wanted = f"a number {wanted}"
    if kind == "too_short":
        wanted = f"at least {context['min_length']}"
    if kind == "literal_error" and isinstance(value, str):
        wanted += did_you_mean(value, re.findall(r"'([^']+)'", context["expected"]))
    return f"got {json_excerpt(value, 60)}, wanted {wanted}"


def _override_of(key: str, overrides: Mapping[str, str], *, unknown: bool) -> str:
    """Return the last override that set a key, the table around it or, in an unknown section, a key inside it."""
    for path, text in reversed(list(overrides.items())):
        is_inside = f"{key}.".startswith((f"{path}.", f"{path}["))
        if is_inside or (unknown and path.startswith(f"{key}.")):
            return f"override {_CREDENTIALS.sub('***', text) if '://' in text else text!r}"
    return ""
