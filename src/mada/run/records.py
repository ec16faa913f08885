"""Typed records, one JSON line each: what a run remembers in a form that any tool can read.

`StoredRecords` reads; `Records` also appends. An appended record is handed to the operating system as one
whole line before `append` returns, so killing the process loses nothing that was appended. A power cut can
lose what is younger than the last sync: a sync happens on `sync()`, on `close()`, at the end of a stage, and
with an append that finds the last one older than SYNC_SECONDS.

Every line is read back as its type before it is written, so a file never holds a line that its own reader
refuses. See `json_text` for odd characters and numbers, `tail` for what a crash leaves behind.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from mada.atomic import sync_folder
from mada.errors import RunError
from mada.run.json_text import json_text
from mada.run.tail import count_lines, damaged_line, intact_end

SYNC_SECONDS = 5.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class StoredRecords(Generic[T]):
    """The records of one file, in the order they were appended, without the right to append.

    `kind` is a pydantic model or a frozen dataclass. Reading needs no lock: an iteration goes through the
    records that were whole when it began, and ignores a line that another process is still writing.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        if not path.is_file():
            raise RunError(f"{path} is not there; records are read after they are written. Run the stage that makes it")
        self.path = path
        self.kind = kind
        self._adapter = TypeAdapter(kind)

    def __iter__(self) -> Iterator[T]:
        for number, (_, line) in enumerate(self.lines(), start=1):
            yield self._decoded(line, number=number)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield every whole line with the place in the file where it begins, for an index of a large file."""
        with self._opened() as file:
            end = intact_end(file.fileno(), path=self.path)
            start = 0
            while start < end and (line := file.readline()):
                yield start, line
                start += len(line)

    def at(self, start: int) -> T:
        """Return the record that begins at a place given by `lines`."""
        with self._opened() as file:
            file.seek(start)
            line = file.readline()
            try:
                return self._validated(line)
            except ValueError:  # counted only now: the file may be large
                return self._decoded(line, number=count_lines(file.fileno(), start) + 1)

    def __len__(self) -> int:
        with self._opened() as file:
            return count_lines(file.fileno(), intact_end(file.fileno(), path=self.path))

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}; mend access to it") from error

    def _decoded(self, line: bytes, *, number: int) -> T:
        try:
            return self._validated(line)
        except ValidationError as error:
            raise RunError(
                f"{self.path}:{number}: not a {self.kind.__name__}: {_first_complaint(error)}; every line of "
                "this file must be one. Read it with the version of mada that wrote it, or make it again"
            ) from error
        except (ValueError, RecursionError) as error:
            raise damaged_line(self.path, number=number) from error

    def _validated(self, line: bytes) -> T:
        try:
            return self._adapter.validate_json(line)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                raise
        # pydantic's parser refuses half a surrogate pair, which the standard library's reads.
        return self._adapter.validate_python(json.loads(line))


class Records(StoredRecords[T]):
    """The records of one file, with the right to append. Made by `Run.records`, under the run's lock.

    Opening drops a torn last line and says so: `dropped_bytes` is its length, 0 for a file that was whole.
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
            self.dropped_bytes = self._drop_torn_tail(self._descriptor)
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
        """Add records in one write: all, or none if one of them cannot be stored or the disk has no room."""
        lines = [self._encoded(item) for item in items]
        with self._writing:
            descriptor = self._open_descriptor()
            self._write(descriptor, b"".join(lines))
            if self._count is not None:
                self._count += len(lines)
            if time.monotonic() - self._synced_at >= SYNC_SECONDS:
                self._sync(descriptor)

    def keep_while(self, wanted: Callable[[T], bool]) -> int:
        """Drop the first record that is not wanted and all behind it; how many were dropped.

        For a stage that goes back to a checkpoint, and makes what came after it once more.
        """
        with self._writing:
            descriptor = self._open_descriptor()
            kept = end = 0
            with self._opened() as file:
                for line in file:
                    if not wanted(self._decoded(line, number=kept + 1)):
                        break
                    kept, end = kept + 1, end + len(line)
            dropped = count_lines(descriptor, os.fstat(descriptor).st_size) - kept
            os.ftruncate(descriptor, end)
            self._count = kept
            self._sync(descriptor)
            return dropped

    def sync(self) -> None:
        """Wait until everything appended so far would outlive a power cut."""
        with self._writing:
            self._sync(self._open_descriptor())

    def close(self) -> None:
        """Sync and close. Closing twice does nothing; appending afterwards is refused."""
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
                "only one process writes a run. Return the records to the parent and append them there"
            )
        return self._descriptor

    def _encoded(self, item: T) -> bytes:
        subject = f"a record of {self.path.name}"
        # The exact type, because a subclass would be stored without the fields it adds.
        if type(item) is not self.kind:
            raise TypeError(f"{subject} must be a {self.kind.__name__}, not a {type(item).__name__}")
        try:
            plain = self._adapter.dump_python(item, mode="json", warnings="error")
        except PydanticSerializationError as error:
            raise TypeError(f"{subject} holds a value of another type than its field: {error}") from error
        line = json_text(plain, subject=subject).encode() + b"\n"
        try:
            self._validated(line)
        except ValidationError as error:
            raise RunError(
                f"{subject} would not read back as a {self.kind.__name__}: {_first_complaint(error)}; "
                "nothing was written. Mend what makes the value"
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
                f"{self.path} could not take another record: {error.strerror}; everything appended before "
                "is kept. Make room, then start again"
            ) from error

    def _sync(self, descriptor: int) -> None:
        if not self.path.exists():
            raise RunError(f"{self.path} was removed while its run was writing it; its records are lost. Start again")
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise RunError(
                f"{self.path} did not reach the disk: {error.strerror}; its last records may be lost. "
                "Check the disk, then start again"
            ) from error
        self._synced_at = time.monotonic()

    def _drop_torn_tail(self, descriptor: int) -> int:
        size = os.fstat(descriptor).st_size
        end = intact_end(descriptor, path=self.path)
        if end < size:
            os.ftruncate(descriptor, end)
            _log.warning("%s: dropped %d bytes of a record that an interruption cut short", self.path, size - end)
        return size - end


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
