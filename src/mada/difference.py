"""Where recipes differ: two or more of them as plain JSON values, field by field."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from pydantic import JsonValue

_WIDTH = 48
_CONTEXT = 16
"""Characters shown in front of the place where long values part."""
_MOST = 20


class Absent(Enum):
    """The value of a key that one side lacks, which is not the same as None."""

    ABSENT = "(absent)"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Difference:
    """A field with another value on each side; nested keys are joined by dots."""

    key: str
    left: object
    right: object

    def shown(self) -> tuple[str, str]:
        """Return both values as JSON on one line each; long ones are cut so that the place where they part shows."""
        left, right = _text(self.left), _text(self.right)
        if max(len(left), len(right)) > _WIDTH:
            pairs = enumerate(zip(left, right, strict=False))
            parted = next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))
            start = parted - _CONTEXT
            if start > 0:
                left, right = f"…{left[start:]}", f"…{right[start:]}"
        return _cut(left), _cut(right)


def differences(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]) -> list[Difference]:
    """Return every field whose values differ, in the order of the right side.

    As in JSON, 1 equals 1.0 and not true. Lists of one length are compared item by item, others as wholes.
    """
    return list(_compared(dict(left), dict(right), ""))


def format_differences(found: Iterable[Difference]) -> str:
    """Write differences one per line, in columns: key, left → right; only the first twenty."""
    rows = [(one.key, *one.shown()) for one in found]
    more = [f"and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
    rows = rows[:_MOST]
    key_width, left_width = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    return "\n".join([*(f"{key:<{key_width}}  {left:<{left_width}}  →  {right}" for key, left, right in rows), *more])


def _compared(left: object, right: object, key: str) -> Iterator[Difference]:
    match left, right:
        case dict(), dict():
            ours, theirs = cast("dict[str, object]", left), cast("dict[str, object]", right)
            for name in dict.fromkeys((*theirs, *ours)):
                inner = f"{key}.{name}" if key else name
                yield from _compared(ours.get(name, ABSENT), theirs.get(name, ABSENT), inner)
        case list(), list() if len(cast("list[object]", left)) == len(cast("list[object]", right)):
            pairs = zip(cast("Sequence[object]", left), cast("Sequence[object]", right), strict=True)
            for index, (one, other) in enumerate(pairs):
                yield from _compared(one, other, f"{key}[{index}]")
        case _:
            if left != right or isinstance(left, bool) != isinstance(right, bool):
                yield Difference(key, left, right)


def _text(value: object) -> str:
    if isinstance(value, Absent):
        return value.value
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
