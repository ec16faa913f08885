"""What a run is doing, in files of its folder, so that another process can follow it (`mada watch`).

    with LiveFiles(run.folder) as live:
        run_sync(stages(events=Events(events, live)))

`events.jsonl`: the events of the latest session, a line each (`mada.events.from_json`), with the time in Unix seconds.
Frequent kinds are thinned out, and the numbers of agents are left to the training's own records.
`rollouts.json`: the latest `StepRollouts`.

These files are for looking at: no stage reads them, they are never synced, and a run whose disk refuses them goes on
without them.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Self

from mada.atomic import temporary_name
from mada.events import (
    CheckpointWritten,
    Event,
    Log,
    MemoryUsed,
    Progress,
    StageFinished,
    StageStarted,
    StepFinished,
    StepProgress,
    StepRollouts,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
    to_json,
)

EVENTS, ROLLOUTS = "events.jsonl", "rollouts.json"
MOST_BYTES = 2_000_000
"""A longer `events.jsonl` is begun again with the latest event of every kind."""
SECONDS: dict[type[Event], float] = {Progress: 1.0, StepProgress: 1.0, StepRollouts: 2.0, MemoryUsed: 5.0}
"""At least so much time is between two events of a kind; all others are written as they come."""

_log = logging.getLogger(__name__)


class LiveFiles:
    """A subscriber that writes a run's live files. It never raises for its own sake."""

    def __init__(
        self, folder: Path, *, clock: Callable[[], float] = time.time, memory: Callable[[], MemoryUsed] | None = None
    ) -> None:
        self._folder, self._clock, self._memory = folder, clock, memory or memory_used
        self._is_open = True
        self._file: BinaryIO | None = None
        self._size = 0
        self._last: dict[type[Event], float] = {}
        self._lines: dict[type[Event], bytes] = {}
        """The latest line of every kind, the oldest first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        if self._file is not None:
            self._file.close()

    def wants(self, kind: type[Event]) -> bool:
        """Whether rollouts are due."""
        return kind is StepRollouts and self._is_open and self._is_due(kind)

    def __call__(self, event: Event) -> None:
        """Write an event down, unless one of its kind was just written."""
        if not self._is_open:
            return
        try:
            self._take(event)
        except (OSError, ValueError, RuntimeError) as error:
            _log.warning("%s can no longer be followed by `mada watch`: %s", self._folder, error)
            self.__exit__()

    def _take(self, event: Event) -> None:
        match event:
            case StepRollouts():
                self._last[StepRollouts] = self._clock()
                _replace(self._folder / ROLLOUTS, to_json(event, time=self._clock()).encode())
            case StepFinished() | ValidationFinished():
                self._append(replace(event, agents={}))
            case Progress(done, of):
                if done == of or self._is_due(Progress):
                    self._append(event)
            case StepProgress():
                if self._is_due(StepProgress):
                    self._append(event)
            case StageStarted():
                self._last.pop(Progress, None)
                self._append(event)
            case Log() | StageFinished() | TrainingStarted() | CheckpointWritten() | TrainingFinished():
                self._append(event)
            case _:
                pass  # what marks and records have

    def _is_due(self, kind: type[Event]) -> bool:
        since = self._clock() - self._last.get(kind, float("-inf"))
        return not 0 <= since < SECONDS[kind]  # a clock may be set back

    def _append(self, event: Event) -> None:
        kind, now = type(event), self._clock()
        line = to_json(event, time=round(now, 3)).encode() + b"\n"
        self._last[kind] = now
        self._lines.pop(kind, None)
        self._lines[kind] = line
        if self._file is None or self._size + len(line) > MOST_BYTES:
            self._begin(b"".join(self._lines.values()))
        else:
            self._file.write(line)
            self._size += len(line)
        if self._is_due(MemoryUsed):
            self._append(self._memory())

    def _begin(self, content: bytes) -> None:
        """Begin the file, or begin it again: a new one, so that whoever follows the old one notices."""
        if self._file is not None:
            self._file.close()
        path = self._folder / EVENTS
        _replace(path, content)
        self._file, self._size = path.open("ab", buffering=0), len(content)


def memory_used() -> MemoryUsed:
    """Return the memory of this process, and of the GPUs on which PyTorch has some."""
    try:
        process = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        process = 0
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return MemoryUsed(process)
    # Asking a GPU without memory of ours would take some there.
    own = [index for index in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(index)]
    gpus = [torch.cuda.mem_get_info(index) for index in own]
    return MemoryUsed(process, tuple((total - free, total) for free, total in gpus))


def _replace(path: Path, content: bytes) -> None:
    partial = path.parent / temporary_name()
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
