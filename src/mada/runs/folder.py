"""A run's folder: read by anyone (`StoredRun`), written by one process at a time (`Run`)."""

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeVar

import numpy as np
from filelock import FileLock
from pydantic import BaseModel, Field, JsonValue, ValidationError

from mada import seeds
from mada.atomic import folder_lock, is_temporary, remove_temporaries, replace_bytes, sync_folder
from mada.digest import digest_of_file
from mada.errors import RunError
from mada.runs.jsonl import Records, StoredRecords, json_text
from mada.runs.lock import LOCK_FILE, lock_folder
from mada.runs.manifest import (
    FILE,
    Frozen,
    Manifest,
    allowed_changes,
    is_changeable,
    plain_recipe,
    read_manifest,
    recipe_differences,
    write_manifest,
)

T = TypeVar("T")

_STAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
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
        self._manifest = manifest

    @classmethod
    def read(cls, folder: str | Path) -> "StoredRun":
        """Return the run in `folder` as it is now."""
        folder = Path(folder)
        with accessible(folder):
            if not folder.exists():
                raise RunError(f"{folder} does not exist; give the folder of a run")
            if not folder.is_dir():
                raise RunError(f"{folder} is a file; a run is a folder with a {FILE}")
            if not (folder / FILE).exists():
                raise RunError(f"{folder} has no {FILE}, so it is not a run; give the folder of a run")
        return StoredRun(folder, read_manifest(folder))

    @property
    def manifest(self) -> Manifest:
        """Recipe, seed and sessions."""
        return self._manifest

    def path(self, *parts: str) -> Path:
        """Return a path inside the folder; names that lead out of it raise."""
        steps = [step for part in parts for step in part.split("/")]
        if not steps or any(step in ("", ".", "..") or "\0" in step for step in steps):
            raise RunError(f"{'/'.join(parts)!r} is not a path inside {self.folder}; give a relative name without '..'")
        return self.folder.joinpath(PurePosixPath(*steps))

    def seed(self, *path: str | SupportsIndex) -> int:
        """Return the seed of a named random choice; see `mada.seeds`."""
        return seeds.seed_for(self.manifest.seed, *path)

    def rng(self, *path: str | SupportsIndex) -> np.random.Generator:
        """Return a fresh generator for a named random choice; see `mada.seeds`."""
        return seeds.rng(self.manifest.seed, *path)

    def records(self, name: str, kind: type[T]) -> StoredRecords[T]:
        """Return the records in `records/<name>.jsonl`."""
        path = self._records_path(name)
        if not path.is_file():
            known = ", ".join(self.record_names()) or "none yet"
            raise RunError(f"{self.folder} has no records {name!r} (it has {known}); run the stage that writes them")
        return StoredRecords(path, kind)

    def record_names(self) -> tuple[str, ...]:
        """Return the names that `records` takes."""
        folder = self.folder / "records"
        files = (path.relative_to(folder) for path in folder.rglob("*.jsonl"))
        return tuple(sorted(file.with_suffix("").as_posix() for file in files))

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

    def _records_path(self, name: str) -> Path:
        return self.path("records", name).with_name(f"{name.split('/')[-1]}.jsonl")


class Run(StoredRun):
    """A run folder that this process, and no other, may write.

    with Run.open("runs/first", recipe) as run:
        stage = run.stage("split")
        if not stage.is_done:
            with stage:
                run.write_json("split.json", cut(problems, run.rng("split")))
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
        plain = plain_recipe(recipe)
        with accessible(folder):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:
                raise RunError(f"{folder} is a file; a run needs a folder. Choose another name") from error
            _refuse_other_content(folder)
        lock = lock_folder(folder)
        try:
            with accessible(folder):
                if (folder / FILE).exists():
                    stored = read_manifest(folder)
                    manifest = stored.resumed(allowed_changes(folder, stored.recipe, recipe, changed=changed))
                else:
                    _refuse_other_content(folder)
                    manifest = Manifest.of(folder.absolute().name, plain)
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
        found = recipe_differences(self._manifest.recipe, recipe)
        if not all(is_changeable(one.key, recipe) for one in found):
            self._store(self._manifest.with_recipe(plain_recipe(recipe)))

    def records(self, name: str, kind: type[T]) -> Records[T]:
        """Return the records in `records/<name>.jsonl`, to append to and to read; one object per name."""
        self._require_open()
        path = self._records_path(name)
        known = self._records.get(name)
        if known is None or known.is_closed:
            known = self._records[name] = Records(path, kind)
        elif known.kind is not kind:
            raise TypeError(f"records {name!r} hold {known.kind.__name__} in this run, not {kind.__name__}")
        return known

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file of the run atomically; return its path."""
        return self.write_bytes(name, text.encode(errors="backslashreplace"))

    def write_json(self, name: str, value: object) -> Path:
        """Replace a file of the run by plain JSON values atomically; return its path."""
        return self.write_text(name, json_text(value, subject=name, indent=2) + "\n")

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace a file of the run atomically; return its path."""
        self._require_open()
        path = self.path(name)
        if path.relative_to(self.folder).parts[0] in (FILE, LOCK_FILE):
            raise RunError(f"{name!r} belongs to the run itself; choose another file name")
        replace_bytes(path, content)
        return path

    def check_inputs(self, stage: str, inputs: Mapping[str, str]) -> None:
        """Raise if inputs changed since the run first read them; the manifest keeps the digests of new ones."""
        self._require_open()
        changed = self._manifest.changed_inputs(inputs)
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            raise RunError(
                f"{self.folder} was started with other content in: {', '.join(changed[:_MOST_NAMED])}{more}; results "
                "of both must not be mixed. Restore the earlier content, or use a new folder"
            )
        known = self._manifest.inputs
        updated = {**known, stage: {**known.get(stage, {}), **inputs}}
        if updated != known:
            self._store(self._manifest.model_copy(update={"inputs": updated}))

    def stage(self, name: str) -> "Stage":
        """Return a named part of the run: whether it is done, and the block that does it."""
        return Stage(mark_path(self.folder, name), write_mark=self._write_mark)

    def clear_stage(self, name: str) -> None:
        """Remove a stage's mark and inputs, so that it runs again. Its files stay."""
        self._require_open()
        inputs = self._manifest.inputs
        if name in inputs:
            kept = {stage: own for stage, own in inputs.items() if stage != name}
            self._store(self._manifest.model_copy(update={"inputs": kept}))
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
        self._store(self._manifest.ended(by=ended_by))

    def _store(self, manifest: Manifest) -> None:
        self._manifest = manifest
        write_manifest(self.folder, manifest)

    def _write_mark(self, mark: StageMark) -> None:
        self._require_open()
        for records in self._records.values():
            if not records.is_closed:
                records.sync()
        self.write_json(f"stages/{mark.name}.json", mark.model_dump(mode="json"))

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


class Stage:
    """One named part of a run, made by `Run.stage`. It is marked as finished when its block ends without an exception.

    stage = run.stage("split")
    if not stage.is_done:
        with stage:
            ...
            stage.summarize({"problems": 750})
    """

    def __init__(self, path: Path, *, write_mark: Callable[[StageMark], None]) -> None:
        self.name = path.stem
        self._path = path
        self._write_mark = write_mark
        self._begin()

    @property
    def mark(self) -> StageMark | None:
        """The mark on the disk; None while the stage is unfinished."""
        return _read_mark(self._path) if self._path.exists() else None

    @property
    def is_done(self) -> bool:
        """Whether the stage may be skipped."""
        return self.mark is not None

    def summarize(self, summary: Mapping[str, JsonValue]) -> None:
        """Add plain JSON values to the mark's summary."""
        # Checked here, where the values come from, and not when the work is done and the mark is due.
        json_text(dict(summary), subject=f"the summary of stage {self.name!r}")
        self._summary |= summary

    def add_results(self, files: Iterable[Path]) -> None:
        """Add digests of result files to the mark, by which later damage is found."""
        root = self._path.parent.parent
        self._files |= {path.relative_to(root).as_posix(): digest_of_file(path) for path in files}

    def __enter__(self) -> Self:
        if self.is_done:
            raise RunError(f"stage {self.name!r} is finished already ({self._path}); skip it, or clear its mark")
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
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

    def _begin(self) -> None:
        self._summary: dict[str, JsonValue] = {}
        self._files: dict[str, str] = {}
        self._started_at, self._clock = datetime.now(UTC), time.monotonic()


@contextmanager
def accessible(path: Path) -> Generator[None]:
    """Turn the operating system's refusal into a RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be used: {error.strerror}; fix its permissions, or choose another folder"
        ) from error


def mark_path(folder: Path, name: str) -> Path:
    """Return the path of a stage's mark; a name that cannot be a file's raises."""
    if not _STAGE_NAME.fullmatch(name):
        raise RunError(f"{name!r} cannot name a stage; use letters, digits, '-', '_' and '.', a letter or digit first")
    return folder / "stages" / f"{name}.json"


def _read_mark(path: Path) -> StageMark:
    try:
        return StageMark.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; fix its permissions or its disk") from error
    except (ValidationError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged; it should be JSON. Remove the file to run the stage again") from error


def _refuse_other_content(folder: Path) -> None:
    other = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE and not is_temporary(path))
    # Looked for last: a run that another process is creating has its manifest before anything else.
    if other and not (folder / FILE).exists():
        named = ", ".join(other[:3]) + (" …" if len(other) > 3 else "")
        raise RunError(
            f"{folder} has files but no {FILE}, so it is not a run ({named}); choose a new or an empty folder"
        )
