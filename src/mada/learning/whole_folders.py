"""Folders that are there whole or not at all, whatever happens to the process that writes or removes them.

A folder is filled under a hidden name beside its place, all of it reaches the disk (fsync), and it takes its name in
one step (rename). Removing goes the other way round: the name goes first. So a folder with a proper name is whole, and
what a killed process leaves has a hidden name, which `atomic.remove_leftovers` finds.
"""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from mada.atomic import hidden_name, sync_folder
from mada.errors import RunError


@contextmanager
def writing_folder(path: Path) -> Generator[Path]:
    """Yield a hidden folder to be filled, which becomes `path` if the block succeeds; one that was there gives way.

    What the operating system refuses, a full disk for one, is a RunError; nothing is left behind then.
    """
    partial = path.parent / hidden_name()
    try:
        with _explaining(path):
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
    """Remove a folder so that a kill half-way leaves no half of it under its name."""
    hidden = path.rename(path.parent / hidden_name())
    sync_folder(path.parent)
    shutil.rmtree(hidden)


def _sync_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)


@contextmanager
def _explaining(path: Path) -> Generator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        # safetensors reports a full disk with an exception of its own.
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise RunError(
            f"{path} could not be written: {reason}; everything saved before is untouched. "
            "Make room or mend access, then start again: training goes on from the last checkpoint"
        ) from error
