"""Words for error messages: what was got, what is wanted, and which valid name is nearest."""

import types
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from mada.recipe.values import NONE_WORD, Wanted

_LONGEST = 60
_KINDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    Path: "a path",
    type(None): "none",
}
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def got(value: Any) -> str:
    """Word a value that was found: `'abc' (text)`, `true (a boolean)`, `a table`."""
    match value:
        case bool():
            kind = "a boolean"
        case int():
            kind = "an integer"
        case float():
            kind = "a number"
        case str():
            kind = "text"
        case list():
            kind = "a list"
        case dict():
            return "a table"
        case _:
            # TOML has nothing else to offer.
            kind = "a date or time"
    return f"{shortened(plain(value))} ({kind})"


def plain(value: Any) -> str:
    """Write a value much as TOML does, on one line and without control characters."""
    match value:
        case bool():
            return str(value).lower()
        case int() if abs(value) >= 10**100:
            # Python refuses to write integers of thousands of digits.
            return "over 100 digits"
        case str() | Path():
            # Python chooses its quotes by the content; a double quote in front makes it single ones always.
            return "'" + repr(f'"{value}')[2:]
        case list() | tuple():
            return f"[{', '.join(plain(item) for item in cast('Sequence[Any]', value))}]"
        case None:
            return NONE_WORD
        case _:
            return str(value)


def wanted(kind: Any, notes: Iterable[Any] = ()) -> str:
    """Word what a field takes, from its type and its bounds: `an integer ≥ 1 or none`."""
    notes = tuple(_flattened(notes))
    words = [note.words for note in notes if isinstance(note, Wanted)]
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *inner_notes = get_args(kind)
        return wanted(inner, (*inner_notes, *notes))
    if origin in (Union, types.UnionType):
        return " or ".join(wanted(option, notes) for option in get_args(kind))
    if kind is not type(None) and words:
        return words[-1]
    if origin is Literal:
        return f"one of {quoted(get_args(kind))}"
    return f"{_KINDS[kind]}{_bounds(notes)}"


def choices(kind: Any) -> tuple[str, ...]:
    """Return the words a field takes, wherever in its type they stand; empty for any other field."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for option in get_args(kind) for word in choices(option))


def takes_text(kind: Any) -> bool:
    """Whether a field takes text (or none) and nothing else."""
    origin = get_origin(kind)
    if origin is Annotated:
        return takes_text(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return all(takes_text(option) for option in get_args(kind) if option is not type(None))
    return kind in (str, Path) or origin is Literal


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest allowed name, or nothing when none is near."""
    near = get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def quoted(names: Iterable[str], *, last: str = ", ") -> str:
    """Write names in quotes, with commas between them and `last` before the last."""
    *head, tail = [repr(name) for name in names]
    return last.join([", ".join(head), tail]) if head else tail


def shortened(text: str, *, longest: int = _LONGEST) -> str:
    """Cut a text that would fill the screen, and show that it was cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _flattened(notes: Iterable[Any]) -> Iterable[Any]:
    # A bound written with Field(...) is a FieldInfo inside a union and already unpacked outside of one.
    for note in notes:
        yield from note.metadata if isinstance(note, FieldInfo) else (note,)


def _bounds(notes: Iterable[Any]) -> str:
    bounds = [f"{sign} {getattr(note, name)}" for note in notes for name, sign in _SIGNS.items() if hasattr(note, name)]
    return f" {' and '.join(bounds)}" if bounds else ""
