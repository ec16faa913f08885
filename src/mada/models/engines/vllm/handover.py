"""Adapters on their way to vLLM: as files that lie in memory, a new version with a name of its own after every update.

vLLM takes an adapter from a folder and from nowhere else, so the tensors of a learner become PEFT files under /dev/shm,
which is memory, and no disk is touched. Where that is too small, as in many containers, they go to the temporary
folder.
"""

import logging
import shutil
import tempfile
import weakref
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from mada.models.adapters import AdapterStack, save_adapter

_log = logging.getLogger(__name__)

_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Version:
    """An adapter as it was at one moment, which is what vLLM knows: `generator-1@17`.

    `name` is what tells apart keys and values in the prefix cache, `number` what tells apart loaded weights; neither is
    ever used twice, so nothing of an older version can be served for a newer one. `adapter_version` is the stack's
    count of the adapter's changes when this was written; None for an adapter that came from a folder.
    """

    name: str
    number: int
    folder: Path
    adapter_version: int | None = None


class Handover:
    """Writes the versions of a stack's adapters, and removes those that nobody needs any more."""

    def __init__(self, stack: AdapterStack, *, base_name: str, memory: Path = _MEMORY) -> None:
        self._stack = stack
        self._base_name = base_name
        self._numbers = count(1)
        self._updates: Counter[str] = Counter()
        self.folder = _make_folder(memory, wanted=_bytes_needed(stack))
        # Also when an exception ends the program before anybody closes anything; only a killed process leaves files.
        self._removal = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, agent: str) -> Version:
        """Write an agent's adapter as it is now."""
        self._updates[agent] += 1
        number = next(self._numbers)
        # An agent's name may be a path, so the folder is called after the number.
        name, folder = f"{agent}@{self._updates[agent]}", self.folder / str(number)
        version = Version(name, number, folder, self._stack.version(agent))
        save_adapter(self._stack, agent, version.folder, base_name=self._base_name)
        return version

    def remove(self, version: Version) -> None:
        """Remove a version's files."""
        shutil.rmtree(version.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all files."""
        self._removal()


def _bytes_needed(stack: AdapterStack) -> int:
    """Bound what lies there at a time: a version of every agent, and as much again while new ones come in."""
    return 2 * sum(parameter.numel() * parameter.element_size() for parameter in stack.parameters().values())


def _make_folder(memory: Path, *, wanted: int) -> Path:
    try:
        free = shutil.disk_usage(memory).free
        if free >= wanted:
            return Path(tempfile.mkdtemp(prefix="mada-adapters-", dir=memory))
        reason = f"it has {free / 2**20:,.0f} MiB left, wanted {wanted / 2**20:,.0f} MiB"
    except OSError as error:
        reason = str(error)
    folder = Path(tempfile.mkdtemp(prefix="mada-adapters-"))
    _log.info("%s cannot be used (%s): adapters are handed to vLLM through %s", memory, reason, folder)
    return folder
