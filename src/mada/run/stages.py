"""Stage marks: which parts of a run are done.

A mark is a small file written in one step after everything its stage wrote has reached the disk. So a mark
never promises more than is there, and a stage without one is simply run again, picking up from its own
records.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import Field, JsonValue, ValidationError

from mada.digest import digest_of_file
from mada.errors import RunError
from mada.run.json_text import json_text
from mada.run.surroundings import Frozen

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class StageMark(Frozen):
    """A finished stage: when, how long the session that finished it took, what it had to say, and what it made.

    `files` has the SHA-256 of each of its results by its path in the run; a mark of an older mada has none.
    """

    name: str
    started_at: datetime
    ended_at: datetime
    seconds: float
    summary: dict[str, JsonValue]
    files: dict[str, str] = Field(default_factory=dict)


class Stage:
    """One named part of a run. It is marked as finished when its `with` block ends without an exception.

        stage = run.stage("split")
        if not stage.is_done:
            with stage:
                ...
                stage.summarize({"problems": 750})

    Made by `Run.stage`, which hands in how to write the mark.
    """

    def __init__(self, path: Path, *, write_mark: Callable[[StageMark], None]) -> None:
        self.name = path.stem
        self._path = path
        self._write_mark = write_mark
        self._summary: dict[str, JsonValue] = {}
        self._files: dict[str, str] = {}
        self._started_at = datetime.now(UTC)
        self._clock = time.monotonic()

    @property
    def mark(self) -> StageMark | None:
        """The mark on the disk; None while the stage is unfinished."""
        return read_mark(self._path) if self._path.exists() else None

    @property
    def is_done(self) -> bool:
        """Whether the stage may be skipped."""
        return self.mark is not None

    def summarize(self, summary: Mapping[str, JsonValue]) -> None:
        """Add to what the mark will say: plain JSON values, for people and reports to read."""
        # Checked here, where the values come from, and not when the work is done and the mark is due.
        json_text(dict(summary), subject=f"the summary of stage {self.name!r}")
        self._summary |= summary

    def note_results(self, files: Iterable[Path]) -> None:
        """Let the mark have digests of what the stage made, by which later damage is told."""
        root = self._path.parent.parent
        self._files |= {path.relative_to(root).as_posix(): digest_of_file(path) for path in files}

    def __enter__(self) -> Self:
        if self.is_done:
            raise RunError(
                f"stage {self.name!r} is finished already ({self._path}); skip it, or clear its mark to run it again"
            )
        self._summary, self._files = {}, {}
        self._started_at, self._clock = datetime.now(UTC), time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        self._write_mark(
            StageMark(
                name=self.name,
                started_at=self._started_at,
                ended_at=datetime.now(UTC),
                seconds=round(time.monotonic() - self._clock, 3),
                summary=self._summary,
                files=self._files,
            )
        )


def mark_path(folder: Path, name: str) -> Path:
    """Where a stage's mark lies, after checking that the name can be a file's."""
    if not _NAME.fullmatch(name):
        raise RunError(
            f"{name!r} cannot name a stage; "
            "a name has letters, digits, '-', '_' and '.', and starts with a letter or digit"
        )
    return folder / "stages" / f"{name}.json"


def read_mark(path: Path) -> StageMark:
    """The mark in a file, or a RunError that says how to get past a damaged one."""
    try:
        return StageMark.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; mend its permissions or its disk") from error
    except (ValidationError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged; a stage's mark is JSON. Remove the file to run the stage again") from error


def read_marks(folder: Path) -> tuple[StageMark, ...]:
    """All marks of a run, in the order in which the stages ended."""
    marks = [read_mark(path) for path in (folder / "stages").glob("*.json")]
    return tuple(sorted(marks, key=lambda mark: (mark.ended_at, mark.name)))
