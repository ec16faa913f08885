"""The fields in which two recipes, or two sets of settings, differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from pydantic import BaseModel, JsonValue

from mada.text import json_excerpt, shortened

_WIDTH = 48
_CONTEXT = 16
"""Characters shown in front of the first difference between two long values."""
_MAX_LISTED = 20


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
        """Return both values as JSON on one line each; long ones are cut around the first difference."""
        left, right = (one.value if isinstance(one, Absent) else json_excerpt(one) for one in (self.left, self.right))
        if max(len(left), len(right)) > _WIDTH:
            pairs = enumerate(zip(left, right, strict=False))
            first = next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))
            start = first - _CONTEXT
            if start > 0:
                left, right = f"…{left[start:]}", f"…{right[start:]}"
        return shortened(left, _WIDTH), shortened(right, _WIDTH)


def differences(
    left: Mapping[str, JsonValue] | BaseModel, right: Mapping[str, JsonValue] | BaseModel
) -> list[Difference]:
    """Return every field whose values differ, in the order of the right side.

    As in JSON, 1 equals 1.0 and not true. Lists of one length are compared item by item, others as wholes.
    """
    left, right = (dict(one.model_dump(mode="json") if isinstance(one, BaseModel) else one) for one in (left, right))
    return list(_compared(left, right, ""))


def format_differences(found: Iterable[Difference]) -> str:
    """Write differences one per line, in columns: key, left → right; only the first twenty."""
    rows = [(one.key, *one.shown()) for one in found]
    more = [f"and {len(rows) - _MAX_LISTED} more"] if len(rows) > _MAX_LISTED else []
    rows = rows[:_MAX_LISTED]
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
