"""Where the intact part of a line file ends.

A line is written whole, newline last, so only a crash in the middle of a write can leave a damaged line, and
only at the very end: an unterminated one, or (after a power cut) a terminated one that is not JSON. That one
line is the torn tail. It was never acknowledged to its writer, and may be dropped. Anything damaged before it
is not the trace of a crash, and is never dropped.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from mada.errors import RunError
from mada.run.json_text import is_json

_CHUNK = 1 << 16


def intact_end(descriptor: int, *, path: Path) -> int:
    """The offset just behind the last whole line. Only the end of the file is read, whatever its size."""
    size = os.fstat(descriptor).st_size
    terminated = _after_newline(descriptor, size)
    start = _line_start(descriptor, terminated)
    if _is_whole(descriptor, start, terminated):
        return terminated
    before = _line_start(descriptor, start)
    if terminated == size and _is_whole(descriptor, before, start):
        return start
    raise damaged_line(path, number=count_lines(descriptor, before if terminated == size else start) + 1)


def count_lines(descriptor: int, end: int) -> int:
    """How many newlines there are before `end`."""
    return sum(chunk.count(b"\n") for chunk in _chunks(descriptor, end))


def damaged_line(path: Path, *, number: int) -> RunError:
    """The refusal of a file that is damaged somewhere before its last line."""
    return RunError(
        f"{path}:{number}: this line is not JSON, and more follows it, so no interrupted write explains it; "
        "every line must be one JSON record. Restore the file from a copy, or remove that line if you can "
        "do without it"
    )


def _is_whole(descriptor: int, start: int, end: int) -> bool:
    """Whether start…end is a JSON line; the empty stretch before the first line counts as one."""
    return start == end or is_json(_read(descriptor, start, end))


def _line_start(descriptor: int, end: int) -> int:
    """Where the terminated line that ends at `end` begins."""
    return _after_newline(descriptor, end - 1) if end else 0


def _after_newline(descriptor: int, end: int) -> int:
    """The offset behind the last newline before `end`; 0 when there is none."""
    while end > 0:
        start = max(0, end - _CHUNK)
        found = _read(descriptor, start, end).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _chunks(descriptor: int, end: int) -> Iterator[bytes]:
    for start in range(0, end, _CHUNK):
        yield _read(descriptor, start, min(start + _CHUNK, end))


def _read(descriptor: int, start: int, end: int) -> bytes:
    """Exactly the bytes start…end, which one call may deliver in pieces."""
    pieces: list[bytes] = []
    while start < end and (piece := os.pread(descriptor, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
