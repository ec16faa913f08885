"""JSON that every reader accepts and that loses nothing: the one way a run writes values down.

Model output is untrusted text. It may hold half of a surrogate pair, which UTF-8 cannot encode, and control
or separator characters that make a terminal or another tool see line ends where there are none. Those
characters, and only those, are written as `\\uXXXX`; everything else stays readable. A half pair reads back
as itself; two halves standing next to each other read back as the one character they denote, since JSON
cannot say anything else.

NaN and the infinities are refused, because JSON has no such numbers: a missing value is `None`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from mada.errors import RunError

# DEL and the C1 controls, the two Unicode line separators, and halves of surrogate pairs.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def json_text(value: object, *, subject: str, indent: int | None = None) -> str:
    """Strict JSON for a plain value; `subject` names the value in the refusal of a number that JSON lacks."""
    separators = (",", ":") if indent is None else None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    except ValueError as error:
        numbers = [f"{key} is {number}" for key, number in _unwritable_numbers(value, "")]
        raise RunError(
            f"{subject} cannot be stored: {', '.join(numbers) or error}; JSON holds finite numbers only. "
            "Store None for a missing value, and look for where the number came from"
        ) from error
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_json(line: bytes) -> bool:
    """Whether a line is whole: half-written ones are not JSON."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _unwritable_numbers(value: object, key: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield key or "it", float(value)
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield from _unwritable_numbers(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for position, inner in enumerate(cast("Sequence[object]", value)):
            yield from _unwritable_numbers(inner, f"{key}[{position}]")
