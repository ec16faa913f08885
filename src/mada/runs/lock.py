"""One writer per folder: a lock that the operating system drops when its process ends, however it ends.

The lock file names its holder for the message that a second process gets. A forked child does not hold the lock.
"""

import fcntl
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from mada.errors import RunError
from mada.text import printable

LOCK_FILE = ".lock"
_TIMEOUT, _POLL = 0.15, 0.03  # seconds: `holder_of` takes the lock for an instant


def lock_folder(folder: Path) -> FileLock:
    """Return the held lock of a folder, or raise a RunError that names the process holding it."""
    lock = FileLock(folder / LOCK_FILE, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=_TIMEOUT, poll_interval=_POLL)
    except Timeout as error:
        raise RunError(
            f"{folder} is in use by {_read_holder(folder)}; wait for it to end, or stop it, then rerun"
        ) from error
    except OSError as error:
        raise RunError(
            f"{folder} cannot be locked: {error.strerror}; "
            "fix its permissions, or choose another folder (some network disks have no locks)"
        ) from error
    with suppress(OSError):  # on a full disk the lock holds all the same
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        (folder / LOCK_FILE).write_text(f"process {os.getpid()} on {socket.gethostname()} since {now}")
    return lock


def holder_of(folder: Path) -> str | None:
    """Return who holds a folder's lock, without taking it; None if it is free or unknown."""
    with suppress(OSError):
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_holder(folder)
        finally:
            os.close(descriptor)
    return None


def _read_holder(folder: Path) -> str:
    with suppress(OSError):
        return printable((folder / LOCK_FILE).read_text(errors="replace")) or "another process"
    return "another process"
