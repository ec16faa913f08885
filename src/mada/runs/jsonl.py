"""Typed records, one JSON line each, append-only.

An appended record reaches the operating system as one complete line before `append` returns, so killing the process
loses nothing. A power cut can lose what is younger than the last sync (`sync`, `close`, the end of a stage, or an
append at least `SYNC_SECONDS` after the last sync).

A crash can damage only the last line: unterminated or, after a power cut, not JSON. That torn line was never
acknowledged and is dropped. Damage anywhere before it is an error.
"""

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Generic, Self, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from mada.atomic import sync_folder
from mada.errors import RunError

SYNC_SECONDS = 5.0
_CHUNK = 1 << 16
# DEL and the C1 controls, the two Unicode line separators, and halves of surrogate pairs.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

T = TypeVar("T")

_log = logging.getLogger(__name__)


def json_text(value: object, *, subject: str, indent: int | None = None) -> str:
    r"""Return strict JSON; `subject` names the value in the error for NaN and infinities.

    Model output can hold half of a surrogate pair, control characters and line separators; those are written as
    `\uXXXX`, everything else stays readable.
    """
    separators = (",", ":") if indent is None else None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    except ValueError as error:
        numbers = ", ".join(f"{key or 'it'} is {number}" for key, number in _not_finite(value, ""))
        raise RunError(f"{subject} cannot be stored: {numbers or error}; store None for a missing value") from error
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
        if not path.is_file():
            raise RunError(f"{path} does not exist; run the stage that writes it")
        self.path = path
        self.kind = kind
        self._adapter = TypeAdapter(kind)

    def __iter__(self) -> Iterator[T]:
        with self._opened() as file:
            end = _intact_end(file.fileno(), self.path)
            start = number = 0
            while start < end and (line := file.readline()):
                start, number = start + len(line), number + 1
                yield self._decoded(line, number=number)

    def at(self, start: int) -> T:
        """Return the record that begins at this offset."""
        with self._opened() as file:
            file.seek(start)
            line = file.readline()
            try:
                return self._validated(line)
            except ValueError:  # counted only now: the file may be large
                return self._decoded(line, number=_count_lines(file.fileno(), start) + 1)

    def __len__(self) -> int:
        with self._opened() as file:
            return _count_lines(file.fileno(), _intact_end(file.fileno(), self.path))

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}; fix its permissions") from error

    def _decoded(self, line: bytes, *, number: int) -> T:
        try:
            return self._validated(line)
        except ValidationError as error:
            raise RunError(
                f"{self.path}:{number}: not a {self.kind.__name__}: {first_error(error)}; "
                "read it with the version of mada that wrote it, or make it again"
            ) from error
        except (ValueError, RecursionError) as error:
            raise _damaged_line(self.path, number) from error

    def _validated(self, line: bytes) -> T:
        try:
            return self._adapter.validate_json(line)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                raise
        # pydantic's parser refuses half a surrogate pair, which the standard library reads.
        return self._adapter.validate_python(json.loads(line))


class Records(StoredRecords[T]):
    """The records of one file, with appending. Made by `Run.records`, under the run's lock.

    Opening drops a torn last line with a warning; `dropped_bytes` is its length.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            sync_folder(path.parent)
        except OSError as error:
            raise RunError(
                f"{path} cannot be opened for appending: {error.strerror}; check its name and permissions"
            ) from error
        super().__init__(path, kind)
        self._owner = os.getpid()
        self._writing = threading.Lock()
        self._count: int | None = None
        self._synced_at = time.monotonic()
        try:
            size = os.fstat(self._descriptor).st_size
            end = _intact_end(self._descriptor, path)
            self.dropped_bytes = size - end
            if self.dropped_bytes:
                os.ftruncate(self._descriptor, end)
                _log.warning("%s: dropped %d bytes of an interrupted record", path, self.dropped_bytes)
        except BaseException:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether appending is over."""
        return self._descriptor is None

    def append(self, item: T) -> None:
        """Add one record. When this returns, the record outlives the process."""
        self.extend([item])

    def extend(self, items: Iterable[T]) -> None:
        """Add records in one write: all, or none if one cannot be stored or the disk is full."""
        lines = [self._encoded(item) for item in items]
        with self._writing:
            descriptor = self._open_descriptor()
            self._write(descriptor, b"".join(lines))
            if self._count is not None:
                self._count += len(lines)
            if time.monotonic() - self._synced_at >= SYNC_SECONDS:
                self._sync(descriptor)

    def keep_while(self, wanted: Callable[[T], bool]) -> int:
        """Drop the first unwanted record and everything after it; return how many were dropped."""
        with self._writing:
            descriptor = self._open_descriptor()
            kept = end = 0
            with self._opened() as file:
                for line in file:
                    if not wanted(self._decoded(line, number=kept + 1)):
                        break
                    kept, end = kept + 1, end + len(line)
            dropped = _count_lines(descriptor, os.fstat(descriptor).st_size) - kept
            os.ftruncate(descriptor, end)
            self._count = kept
            self._sync(descriptor)
            return dropped

    def sync(self) -> None:
        """Wait until everything appended so far would outlive a power cut."""
        with self._writing:
            self._sync(self._open_descriptor())

    def close(self) -> None:
        """Sync and close. Closing twice does nothing; appending afterwards raises."""
        with self._writing:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            try:
                self._sync(descriptor)
            finally:
                os.close(descriptor)

    def __len__(self) -> int:
        with self._writing:
            if self._count is None:
                self._count = super().__len__()
            return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise RunError(f"{self.path} is closed; append to records while their run is open")
        if os.getpid() != self._owner:
            raise RunError(
                f"{self.path} was opened by process {self._owner} and this is its child {os.getpid()}; "
                "return the records to the parent and append them there"
            )
        return self._descriptor

    def _encoded(self, item: T) -> bytes:
        subject = f"a record of {self.path.name}"
        # The exact type: a subclass would be stored without the fields it adds.
        if type(item) is not self.kind:
            raise TypeError(f"{subject} must be a {self.kind.__name__}, not a {type(item).__name__}")
        try:
            plain = self._adapter.dump_python(item, mode="json", warnings="error")
        except PydanticSerializationError as error:
            raise TypeError(f"{subject} holds a value of another type than its field: {error}") from error
        line = json_text(plain, subject=subject).encode() + b"\n"
        try:
            self._validated(line)  # so a file never holds a line that its own reader refuses
        except ValidationError as error:
            raise RunError(
                f"{subject} would not read back as a {self.kind.__name__}: {first_error(error)}; nothing was written"
            ) from error
        return line

    def _write(self, descriptor: int, content: bytes) -> None:
        start = os.fstat(descriptor).st_size
        unwritten = memoryview(content)
        try:
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
        except BaseException as error:
            # Also for Ctrl-C: the next record must not continue half a line.
            os.ftruncate(descriptor, start)
            if not isinstance(error, OSError):
                raise
            raise RunError(
                f"{self.path} cannot take another record: {error.strerror}; all earlier records are kept. "
                "Free disk space, then rerun"
            ) from error

    def _sync(self, descriptor: int) -> None:
        if not self.path.exists():
            raise RunError(f"{self.path} was removed while its run was writing it; its records are lost. Rerun")
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise RunError(
                f"{self.path} did not reach the disk: {error.strerror}; its last records may be lost. "
                "Check the disk, then rerun"
            ) from error
        self._synced_at = time.monotonic()


def _intact_end(descriptor: int, path: Path) -> int:
    """Return the offset behind the last complete line, reading only the end of the file."""
    size = os.fstat(descriptor).st_size
    torn, line = _line_before(descriptor, size)
    if line.endswith(b"\n") and is_json(line):
        return size
    start, line = _line_before(descriptor, torn)
    if torn == 0 or is_json(line):
        return torn
    raise _damaged_line(path, _count_lines(descriptor, start) + 1)


def _line_before(descriptor: int, end: int) -> tuple[int, bytes]:
    """Return the line that ends at this offset, and where it starts."""
    length = _CHUNK
    while True:
        start = max(0, end - length)
        content = os.pread(descriptor, end - start, start)
        newline = content.rfind(b"\n", 0, -1)
        if newline >= 0 or start == 0:
            return start + newline + 1, content[newline + 1 :]
        length *= 2


def _count_lines(descriptor: int, end: int) -> int:
    starts = range(0, end, _CHUNK)
    return sum(os.pread(descriptor, min(_CHUNK, end - start), start).count(b"\n") for start in starts)


def _damaged_line(path: Path, number: int) -> RunError:
    return RunError(
        f"{path}:{number}: not JSON, and not the last line, so no interrupted write explains it. "
        "Restore the file from a copy, or remove that line"
    )


def first_error(error: ValidationError) -> str:
    """Return the first thing pydantic found wrong, with its key."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))


def _not_finite(value: object, key: str) -> Iterator[tuple[str, float]]:
    """Yield every NaN and infinity inside a plain value with its key."""
    if isinstance(value, float) and not math.isfinite(value):
        yield key, float(value)
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield from _not_finite(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield from _not_finite(inner, f"{key}[{index}]")
