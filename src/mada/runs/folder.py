"""A run's folder: read by anyone (`StoredRun`), written by one process at a time (`Run`)."""

import logging
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeVar

import numpy as np
from filelock import FileLock
from pydantic import BaseModel, Field, JsonValue, ValidationError

from mada import seeds
from mada.atomic import folder_lock, is_temporary, remove_temporaries, replace_bytes, replace_text, sync_folder
from mada.digest import digest_of_file
from mada.errors import RunError
from mada.runs.jsonl import Records, StoredRecords, accessible, json_text
from mada.runs.lock import LOCK_FILE, lock_folder
from mada.runs.manifest import (
    FILE,
    Frozen,
    Manifest,
    allowed_changes,
    is_changeable,
    read_manifest,
    recipe_differences,
    write_manifest,
)

T = TypeVar("T")

EXPORT = "export"
"""The mark of a folder that is no run but can be read like one: what `mada export` wrote."""
_MOST_NAMED = 5

_log = logging.getLogger(__name__)


class StageMark(Frozen):
    """A finished stage. `files` has the SHA-256 of each of its results by its path in the run; old marks have none.

    It is written, atomically, after everything the stage wrote has reached the disk. A stage without a mark runs
    again, from its own records.
    """

    name: str
    started_at: datetime
    ended_at: datetime
    seconds: float
    """How long the session that finished it took."""
    summary: dict[str, JsonValue]
    files: dict[str, str] = Field(default_factory=dict)


class StoredRun:
    """A run folder opened for reading. It takes no lock: another process may be writing it meanwhile."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder.absolute()
        self.manifest = manifest

    @classmethod
    def read(cls, folder: str | Path) -> "StoredRun":
        """Return the run in `folder` as it is now."""
        folder = Path(folder)
        with accessible(folder):
            if not (folder / FILE).exists():
                raise RunError(f"{folder} {_what_is_wrong_with(folder)}; give the folder of a run")
        return StoredRun(folder, read_manifest(folder))

    def path(self, *parts: str) -> Path:
        """Return a path inside the folder; names that lead out of it raise."""
        inside = PurePosixPath(*parts)
        if inside.is_absolute() or ".." in inside.parts or not inside.parts:
            raise RunError(f"{str(inside)!r} is not a path inside {self.folder}; give a relative name without '..'")
        return self.folder / inside

    def seed(self, *path: str | SupportsIndex) -> int:
        """Return the seed of a named random choice; see `mada.seeds`."""
        return seeds.seed_for(self.manifest.seed, *path)

    def rng(self, *path: str | SupportsIndex) -> np.random.Generator:
        """Return a fresh generator for a named random choice; see `mada.seeds`."""
        return seeds.rng(self.manifest.seed, *path)

    def records(self, name: str, kind: type[T]) -> StoredRecords[T]:
        """Return the records in `records/<name>.jsonl`."""
        path = self.path("records", f"{name}.jsonl")
        if not path.is_file():
            known = ", ".join(self.record_names()) or "none yet"
            raise RunError(f"{self.folder} has no records {name!r} (it has {known}); run the stage that writes them")
        return StoredRecords(path, kind)

    def record_names(self) -> tuple[str, ...]:
        """Return the names that `records` takes."""
        folder = self.folder / "records"
        files = (path.relative_to(folder) for path in folder.rglob("*.jsonl"))
        return tuple(sorted(file.with_suffix("").as_posix() for file in files))

    def mark(self, stage: str) -> StageMark | None:
        """Return a stage's mark; None while it is unfinished."""
        path = mark_path(self.folder, stage)
        return _read_mark(path) if path.exists() else None

    def finished_stages(self) -> tuple[StageMark, ...]:
        """Return the marks of finished stages, in the order in which they ended."""
        marks = [_read_mark(path) for path in (self.folder / "stages").glob("*.json")]
        return tuple(sorted(marks, key=lambda mark: (mark.ended_at, mark.name)))

    def check_results(self, stage: str | None = None, *, under: str = "") -> None:
        """Raise if a result of finished stages, or of one, is not what was written. Missing files are not checked.

        `under` is the beginning of the paths to check.
        """
        for mark in self.finished_stages():
            for name, digest in mark.files.items() if stage in (None, mark.name) else ():
                path = self.path(name)
                if name.startswith(under) and path.is_file() and digest_of_file(path) != digest:
                    raise RunError(
                        f"{path} is damaged: its SHA-256 is not that of what the stage {mark.name} wrote. "
                        "Restore it from a copy, or run that stage again"
                    )


class Run(StoredRun):
    """A run folder that this process, and no other, may write.

    with Run.open("runs/first", recipe) as run:
        if run.mark("split") is None:
            with run.stage("split") as stage:
                run.write_text("split.json", cut(problems, run.rng("split")))
                stage.summarize({"problems": 750})
    """

    def __init__(self, folder: Path, manifest: Manifest, *, lock: FileLock) -> None:
        super().__init__(folder, manifest)
        self._lock = lock
        self._records: dict[str, Records[Any]] = {}

    @classmethod
    def open(cls, folder: str | Path, recipe: BaseModel, *, changed: Collection[str] = ()) -> Self:
        """Create the run, or continue the one in the folder if it has the same recipe.

        The recipe is any pydantic model with an integer `seed`. A folder with other files, a run of another recipe and
        a run in use raise and stay as they were. Fields in the recipe's CHANGEABLE may differ; the session records
        them. So may `changed`, if `adopt_recipe` is called when nothing in the folder depends on them any more.
        """
        folder = Path(folder)
        with accessible(folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:
                raise RunError(f"{folder} is a file; a run needs a folder. Choose another name") from error
            _refuse_other_content(folder)
            if mark_path(folder, EXPORT).exists():
                raise RunError(f"{folder} is an export of a run, which does not go on; continue the run itself")
        lock = lock_folder(folder)
        try:
            with accessible(folder):
                if (folder / FILE).exists():
                    stored = read_manifest(folder)
                    manifest = stored.resumed(allowed_changes(folder, stored.recipe, recipe, changed=changed))
                else:
                    manifest = Manifest.of(folder.absolute().name, recipe)
                with folder_lock(folder):  # a report may be writing its page
                    # The run of ablations inside this one may have a writer of its own.
                    remove_temporaries(folder, unless_beside=FILE)
                write_manifest(folder, manifest)
        except BaseException:
            lock.release()
            raise
        return cls(folder, manifest, lock=lock)

    def adopt_recipe(self, recipe: BaseModel) -> None:
        """Make this the run's recipe from now on, if it differs in more than what is CHANGEABLE."""
        self._require_open()
        found = recipe_differences(self.manifest.recipe, recipe)
        if not all(is_changeable(one.key, recipe) for one in found):
            self._store(self.manifest.with_recipe(recipe))

    def records(self, name: str, kind: type[T]) -> Records[T]:
        """Return the records in `records/<name>.jsonl`, to append to and to read; one object per name."""
        self._require_open()
        if name not in self._records:
            self._records[name] = Records(self.path("records", f"{name}.jsonl"), kind)
        return self._records[name]

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file of the run atomically; return its path."""
        return self.write_bytes(name, text.encode(errors="backslashreplace"))

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace a file of the run atomically; return its path."""
        self._require_open()
        replace_bytes(path := self.path(name), content)
        return path

    def check_inputs(self, stage: str, inputs: Mapping[str, str]) -> None:
        """Raise if inputs changed since the run first read them; the manifest keeps the digests of new ones."""
        self._require_open()
        known = self.manifest.inputs
        pairs = {pair for stage_inputs in known.values() for pair in stage_inputs.items()}
        names = {name for name, _ in pairs}
        changed = [pair[0] for pair in inputs.items() if pair[0] in names and pair not in pairs]
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            raise RunError(
                f"{self.folder} was started with other content in: {', '.join(changed[:_MOST_NAMED])}{more}; results "
                "of both must not be mixed. Restore the earlier content, or use a new folder"
            )
        updated = {**known, stage: {**known.get(stage, {}), **inputs}}
        if updated != known:
            self._store(self.manifest.model_copy(update={"inputs": updated}))

    @contextmanager
    def stage(self, name: str) -> "Generator[Stage]":
        """Mark a stage as finished if the block ends without an exception, once all records have reached the disk."""
        path = mark_path(self.folder, name)
        if path.exists():
            raise RunError(f"{path} says that this stage is finished; skip it, or clear its mark")
        stage, started_at, clock = Stage(self.folder), datetime.now(UTC), time.monotonic()
        yield stage
        mark = StageMark(
            name=name,
            started_at=started_at,
            ended_at=datetime.now(UTC),
            seconds=round(time.monotonic() - clock, 3),
            summary=stage.summary,
            files=stage.files,
        )
        self._require_open()
        for records in self._records.values():
            records.sync()
        replace_text(path, json_text(mark.model_dump(mode="json"), subject="the mark", indent=2) + "\n")

    def clear_stage(self, name: str) -> None:
        """Remove a stage's mark and inputs, so that it runs again. Its files stay."""
        self._require_open()
        inputs = self.manifest.inputs
        if name in inputs:
            kept = {stage: own for stage, own in inputs.items() if stage != name}
            self._store(self.manifest.model_copy(update={"inputs": kept}))
        path = mark_path(self.folder, name)
        with accessible(path):
            if path.exists():
                path.unlink()
                sync_folder(path.parent)

    def close(self, *, ended_by: str | None = None) -> None:
        """Close the records, record the session's end, release the lock. Closing twice does nothing."""
        # A forked child does not hold the lock: it must not end its parent's session.
        if not self._lock.is_locked:
            return
        # Callbacks run last to first, each one even if another failed.
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            stack.callback(self._end_session, ended_by)
            for records in self._records.values():
                stack.callback(records.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close(ended_by=kind.__name__ if kind else None)
        except RunError as failure:
            if kind is None:
                raise
            # The exception that ended the block is the cause, and must not be hidden by what it led to.
            _log.warning("closing %s: %s", self.folder, failure)

    def _end_session(self, ended_by: str | None) -> None:
        self._require_open()
        self._store(self.manifest.ended(by=ended_by))

    def _store(self, manifest: Manifest) -> None:
        self.manifest = manifest
        write_manifest(self.folder, manifest)

    def _require_open(self) -> None:
        if not self._lock.is_locked:
            raise RunError(
                f"{self.folder} is not open for writing here: it was closed, or this is a forked child. "
                "Open it again, or hand the data to the process that opened it"
            )
        if not (self.folder / FILE).exists():
            raise RunError(
                f"{self.folder} has lost its {FILE}: the folder was moved or removed. Put it back, then rerun"
            )


@dataclass(frozen=True, slots=True)
class Stage:
    """What the mark of a stage will say that is being done; made by `Run.stage`."""

    folder: Path
    summary: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    files: dict[str, str] = field(default_factory=dict[str, str])

    def summarize(self, summary: Mapping[str, JsonValue]) -> None:
        """Add plain JSON values to the mark's summary."""
        # Checked here, where the values come from, and not when the work is done and the mark is due.
        json_text(dict(summary), subject="a stage's summary")
        self.summary.update(summary)

    def add_results(self, files: Iterable[Path]) -> None:
        """Add digests of result files to the mark, by which later damage is found."""
        self.files.update({path.relative_to(self.folder).as_posix(): digest_of_file(path) for path in files})


def mark_path(folder: Path, name: str) -> Path:
    """Return the path of a stage's mark."""
    return folder / "stages" / f"{name}.json"


def _read_mark(path: Path) -> StageMark:
    try:
        with accessible(path):
            return StageMark.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise RunError(f"{path} is damaged; it should be JSON. Remove the file to run the stage again") from error


def _what_is_wrong_with(folder: Path) -> str:
    if not folder.exists():
        return "does not exist"
    return f"has no {FILE}, so it is not a run" if folder.is_dir() else "is a file"


def _refuse_other_content(folder: Path) -> None:
    other = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE and not is_temporary(path))
    # Looked for last: a run that another process is creating has its manifest before anything else.
    if other and not (folder / FILE).exists():
        named = ", ".join(other[:3]) + (" …" if len(other) > 3 else "")
        raise RunError(
            f"{folder} has files but no {FILE}, so it is not a run ({named}); choose a new or an empty folder"
        )
