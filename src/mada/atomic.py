"""Replace a file so that a reader, and a crash at any moment, sees the old one or the new one, whole.

The new content goes into a temporary neighbour, reaches the disk (fsync), takes the file's name in one step
(rename), and the folder reaches the disk too. Any failure on the way, a full disk included, leaves the
previous file as it was. Only a killed process leaves its temporary behind; `remove_temporaries` clears those.

A replaced file keeps the permissions of the one before it; a new one gets what the umask allows. A symbolic
link is replaced itself, never the file it points to.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from mada.errors import RunError

_LEFTOVER = re.compile(r"\.[0-9a-f]{16}\.partial")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# Some network and FUSE file systems have no notion of syncing a folder. By then the rename has happened.
_CANNOT_SYNC_FOLDERS = frozenset({errno.EINVAL, errno.ENOTSUP})


def replace_text(path: Path, text: str) -> None:
    """Give `path` this text as one step, in UTF-8; half a surrogate pair is written as `\\udXXX`."""
    replace_bytes(path, text.encode(errors="backslashreplace"))


def replace_bytes(path: Path, content: bytes) -> None:
    """Give `path` this content as one step."""
    with atomic_path(path) as partial, describe_os_errors(path):
        partial.write_bytes(content)


@contextmanager
def atomic_path(path: Path) -> Generator[Path]:
    """Yield a temporary path beside `path`; what the block writes there becomes `path` if the block succeeds.

    The path, not a handle, is yielded because most of what writes large files (safetensors, Parquet, images)
    wants one. Running out of space inside the block is a RunError; any other exception of the block passes
    through unchanged.
    """
    partial = path.parent / temporary_name()
    with describe_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with describe_os_errors(path):
            _create_with_permissions_of(path, partial)
        with describe_os_errors(path, only=_NO_ROOM):
            yield partial
        with describe_os_errors(path):
            _sync_file(partial)
            partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with describe_os_errors(path, kept="the new file is in place, but may not outlive a power cut"):
        sync_folder(path.parent)


@contextmanager
def writing_folder(path: Path) -> Generator[Path]:
    """Yield a hidden folder to fill, which replaces `path` if the block succeeds; otherwise nothing is left behind.

    So a folder with a proper name is complete. What a killed process leaves has a name that `is_temporary` knows.
    """
    partial = path.parent / temporary_name()
    try:
        with describe_os_errors(path):
            partial.mkdir(parents=True)
            yield partial
            _sync_all(partial)
            if path.exists():
                remove_folder(path)
            partial.rename(path)
            sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder: a hidden name first, so that a kill half-way leaves no half of it under its name."""
    hidden = path.rename(path.parent / temporary_name())
    sync_folder(path.parent)
    shutil.rmtree(hidden)


@contextmanager
def folder_lock(folder: Path) -> Generator[None]:
    """Wait until no other process is in this block for this folder, whose files are then replaced together.

    On a file system that cannot lock a folder nobody waits.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_temporaries(folder: Path, *, unless_beside: str | None = None) -> None:
    """Remove the temporary files and folders of killed processes; folders below that hold `unless_beside` are left out.

    The caller sees to it that no other process writes here.
    """
    for parent, folders, files in os.walk(folder):
        if Path(parent) != folder and unless_beside in files:
            folders.clear()
            continue
        for leftover in (Path(parent, name) for name in (*folders, *files) if is_temporary(Path(name))):
            if leftover.is_dir() and not leftover.is_symlink():
                folders.remove(leftover.name)
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def temporary_name() -> str:
    """Return a new name for a temporary, one that `is_temporary` knows."""
    return f".{secrets.token_hex(8)}.partial"


def is_temporary(path: Path) -> bool:
    """Whether the name is one that temporaries are given."""
    return _LEFTOVER.fullmatch(path.name) is not None


def sync_folder(folder: Path) -> None:
    """Make names created, replaced or removed in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def _create_with_permissions_of(path: Path, partial: Path) -> None:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if path.is_file():
            os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
    finally:
        os.close(descriptor)


def _sync_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        _sync_file(path)
    sync_folder(folder)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def describe_os_errors(path: Path, *, only: frozenset[int] | None = None, kept: str | None = None) -> Generator[None]:
    """Turn the operating system's refusal into a sentence that says what is still safe."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        if kept is None:
            kept = "the previous file is untouched" if path.is_file() else "no file was left behind"
        raise RunError(
            f"{path} could not be written: {error.strerror or error}; {kept}. "
            "Free disk space or fix permissions, then rerun"
        ) from error
