"""What two recipes say differently, in words a person can act on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from pydantic import JsonValue

_SHOWN = 20
_WIDTH = 60


class Absent(Enum):
    """The value of a key that one side does not have, which is not the same as having None."""

    ABSENT = "(absent)"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class Difference:
    """One key at which the stored and the given recipe disagree."""

    key: str
    stored: object
    given: object

    def __str__(self) -> str:
        return f"{self.key}: stored {_shown(self.stored)}, given {_shown(self.given)}"


def differences(stored: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> tuple[Difference, ...]:
    """Every key whose values differ, in the given recipe's order, nested keys joined by dots.

    Both sides are plain JSON values. 1 equals 1.0, as in JSON; true does not equal 1. Lists of one length are
    compared item by item, others as wholes.
    """
    return tuple(_compared(dict(stored), dict(given), ""))


def listed(found: Sequence[Difference]) -> str:
    """One line per difference, the first 20 of them."""
    lines = [f"  {difference}" for difference in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    return "\n".join(lines)


def _compared(stored: object, given: object, key: str) -> Iterator[Difference]:
    match stored, given:
        case dict(), dict():
            left, right = cast("dict[str, object]", stored), cast("dict[str, object]", given)
            for name in dict.fromkeys((*right, *left)):
                inner_key = f"{key}.{name}" if key else name
                yield from _compared(left.get(name, ABSENT), right.get(name, ABSENT), inner_key)
        case list(), list() if len(cast("list[object]", stored)) == len(cast("list[object]", given)):
            pairs = zip(cast("list[object]", stored), cast("list[object]", given), strict=True)
            for position, (left, right) in enumerate(pairs):
                yield from _compared(left, right, f"{key}[{position}]")
        case _:
            if stored != given or isinstance(stored, bool) != isinstance(given, bool):
                yield Difference(key, stored, given)


def _shown(value: object) -> str:
    if isinstance(value, Absent):
        return value.value
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
