"""One writer per run: an advisory lock that dies with its process.

The lock is `flock` on a file in the run folder. The kernel releases it when the holder ends, however it ends,
so a killed run needs no cleaning up. The file names its holder only to tell the next comer who to wait for,
and is never removed: unlinking a lock file lets two processes each hold "the" lock.

A forked child shares its parent's `flock`, and would keep it after the parent died. So every child closes its
copy right after the fork, which leaves the parent's lock in place, and cannot write to the run. Programs that
a process starts never see the descriptor at all (Python opens it close-on-exec).
"""

import fcntl
import os
import socket
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mada.errors import RunError

LOCK_FILE = ".lock"
TRIES, SECONDS_BETWEEN_TRIES = 3, 0.05


class Holder(BaseModel):
    """Who holds a lock."""

    model_config = ConfigDict(frozen=True)

    pid: int
    host: str
    since: datetime

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


class Lock:
    """The exclusive right to write in one folder, from construction until `release` or the process's end."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise RunError(
                f"{folder} cannot be opened for writing: {error.strerror}; a run writes in its folder. "
                "Mend the folder's permissions or choose another folder"
            ) from error
        try:
            _take(descriptor)
        except BlockingIOError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise RunError(
                f"{folder} is in use by {holder or 'another process'}; wait for it to end, or stop it, then start again"
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise RunError(
                f"{folder} cannot be locked: {error.strerror}; its file system must support flock, "
                "so that two processes never write one run. Choose a folder on another disk"
            ) from error
        self._descriptor: int | None = descriptor
        _held.add(self)
        _name_holder(descriptor)

    @property
    def is_held(self) -> bool:
        """False after `release`, and in a forked child."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let the next process in. Releasing twice, or in a forked child, does nothing."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            # Explicitly, because a child forked a moment ago may not have closed its copy yet.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._close(self._descriptor)

    def close_in_child(self) -> None:
        """Let go without unlocking: the lock stays with the process that took it."""
        if self._descriptor is not None:
            self._close(self._descriptor)

    def _close(self, descriptor: int) -> None:
        os.close(descriptor)
        self._descriptor = None
        _held.discard(self)


def _take(descriptor: int) -> None:
    """Take the lock, trying again for a moment: `holder_of` holds it for an instant while it looks."""
    for _ in range(TRIES - 1):
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(SECONDS_BETWEEN_TRIES)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder_of(folder: Path) -> Holder | None:
    """Return who holds a folder's lock now, without taking it; None when nobody does, or nobody can tell."""
    with suppress(OSError):
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(descriptor)
        finally:
            os.close(descriptor)
    return None


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def close_all_in_child() -> None:
    """What every forked child does first."""
    for lock in list(_held):
        lock.close_in_child()


os.register_at_fork(after_in_child=close_all_in_child)


def _name_holder(descriptor: int) -> None:
    holder = Holder(pid=os.getpid(), host=socket.gethostname(), since=datetime.now(UTC))
    with suppress(OSError):  # on a full disk the lock holds all the same, without a name on it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.model_dump_json().encode(), 0)


def _holder(descriptor: int) -> Holder | None:
    """The name in the lock file; None in the moment between locking and naming."""
    try:
        return Holder.model_validate_json(os.pread(descriptor, 4096, 0))
    except ValidationError:
        return None
