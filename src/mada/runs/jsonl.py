"""Typed records, one JSON line each, append-only.

An appended record reaches the operating system as one complete line before `append` returns, so killing the process
loses nothing. A power cut can lose what is younger than the last sync (`sync`, `close`, the end of a stage, or an
append at least `SYNC_SECONDS` after the last sync).

A crash can damage only the last line: unterminated or, after a power cut, not JSON. That torn line was never
acknowledged and is dropped. Damage anywhere before it is an error.
"""

import itertools
import json
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from mada.atomic import sync_folder
from mada.errors import RunError

SYNC_SECONDS = 5.0
# DEL and the C1 controls, the two Unicode line separators, and halves of surrogate pairs.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

T = TypeVar("T")

_log = logging.getLogger(__name__)


@contextmanager
def accessible(path: Path) -> Generator[None]:
    """Turn the operating system's refusal into a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be used: {error.strerror}; fix its permissions, or choose another folder"
        ) from error


def json_text(value: object, *, subject: str, indent: int | None = None) -> str:
    r"""Return strict JSON; `subject` names the value in the error for NaN and infinities.

    Model output can hold half of a surrogate pair, control characters and line separators; those are written as
    `\uXXXX`, everything else stays readable.
    """
    separators = (",", ":") if indent is None else None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    except ValueError as error:
        raise RunError(f"{subject} cannot be stored: {error}; store None for a missing value") from error
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_json(line: bytes) -> bool:
    """Whether a line is complete: half-written ones are not JSON."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


class StoredRecords(Generic[T]):
    """The records of one file, read-only. `kind` is a pydantic model or a frozen dataclass.

    Reading needs no lock: an iteration covers the records that were complete when it began.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self.kind = kind
        self._adapter = TypeAdapter(kind)

    def __iter__(self) -> Iterator[T]:
        for number, line in enumerate(self._lines(), start=1):
            yield self._decoded(line, f"{self.path}:{number}")

    def __len__(self) -> int:
        return sum(1 for _ in self._lines())

    def at(self, start: int) -> T:
        """Return the record that begins at this offset."""
        with accessible(self.path), self.path.open("rb") as file:
            file.seek(start)
            return self._decoded(file.readline(), f"{self.path}, byte {start}")

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines there are now, without a torn last one."""
        with accessible(self.path):
            file = self.path.open("rb")
        with file:
            left, line, number = os.fstat(file.fileno()).st_size, b"", 0
            while left > 0:
                before, line, number = line, file.readline(), number + 1
                left -= len(line)
                if left <= 0 and not (line.endswith(b"\n") and is_json(line)):
                    if before and not is_json(before):
                        raise _damaged_line(f"{self.path}:{number - 1}")
                    return
                if not line:  # the file has shrunk
                    return
                yield line

    def _decoded(self, line: bytes, place: str) -> T:
        try:
            # pydantic's own parser refuses half a surrogate pair.
            return self._adapter.validate_python(json.loads(line))
        except ValidationError as error:
            raise RunError(
                f"{place}: not a {self.kind.__name__}: {first_error(error)}; "
                "read it with the version of mada that wrote it, or make it again"
            ) from error
        except (ValueError, RecursionError) as error:
            raise _damaged_line(place) from error


class Records(StoredRecords[T]):
    """The records of one file, with appending. Made by `Run.records`, under the run's lock.

    Opening drops a torn last line with a warning.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        super().__init__(path, kind)
        self._synced_at = time.monotonic()
        with accessible(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            sync_folder(path.parent)
        try:
            lengths = [len(line) for line in self._lines()]
            self._count = len(lengths)
            torn = path.stat().st_size - sum(lengths)
            if torn:
                self._file.truncate(sum(lengths))
                _log.warning("%s: dropped %d bytes of an interrupted record", path, torn)
        except BaseException:
            self._file.close()
            raise

    def append(self, item: T) -> None:
        """Add one record. When this returns, the record outlives the process."""
        self.extend([item])

    def extend(self, items: Iterable[T]) -> None:
        """Add records in one write: all, or none if one cannot be stored or the disk is full."""
        lines = [self._encoded(item) for item in items]
        unwritten = memoryview(b"".join(lines))
        start = os.fstat(self._file.fileno()).st_size
        try:
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
        except BaseException as error:
            # Also for Ctrl-C: the next record must not continue half a line.
            self._file.truncate(start)
            if not isinstance(error, OSError):
                raise
            raise RunError(
                f"{self.path} cannot take another record: {error.strerror}; all earlier records are kept. "
                "Free disk space, then rerun"
            ) from error
        self._count += len(lines)
        if time.monotonic() - self._synced_at >= SYNC_SECONDS:
            self.sync()

    def keep_while(self, wanted: Callable[[T], bool]) -> None:
        """Drop the first unwanted record and everything after it."""
        pairs = itertools.takewhile(lambda pair: wanted(pair[1]), zip(self._lines(), self, strict=True))
        kept = [len(line) for line, _ in pairs]
        self._file.truncate(sum(kept))
        self._count = len(kept)
        self.sync()

    def sync(self) -> None:
        """Wait until everything appended so far would outlive a power cut."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(
                f"{self.path} did not reach the disk: {error.strerror}; its last records may be lost. "
                "Check the disk, then rerun"
            ) from error
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Sync and close. Closing twice does nothing."""
        if not self._file.closed:
            with self._file:
                self.sync()

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encoded(self, item: T) -> bytes:
        subject = f"a record of {self.path.name}"
        try:
            plain = self._adapter.dump_python(item, mode="json", warnings="error")
            line = json_text(plain, subject=subject)
            self._adapter.validate_python(json.loads(line))  # a file never holds a line that its own reader refuses
        except (PydanticSerializationError, ValidationError) as error:
            raise TypeError(f"{subject} is not a {self.kind.__name__}: {error}; nothing was written") from error
        return line.encode() + b"\n"


def _damaged_line(place: str) -> RunError:
    return RunError(
        f"{place}: not JSON, and not the last line, so no interrupted write explains it. "
        "Restore the file from a copy, or remove that line"
    )


def first_error(error: ValidationError) -> str:
    """Return the first thing pydantic found wrong, with its key."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
