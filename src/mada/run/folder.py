"""A run opened for writing: the folder, its lock, and everything that goes into it."""

import logging
from collections.abc import Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel

from mada.atomic import alone_in, is_leftover, remove_leftovers, replace_bytes, replace_text, replacing, sync_folder
from mada.errors import RunError
from mada.run.json_text import json_text
from mada.run.lock import LOCK_FILE, Lock
from mada.run.manifest import (
    FILE,
    Manifest,
    other_keys,
    plain_recipe,
    read_manifest,
    refuse_other_recipe,
    write_manifest,
)
from mada.run.records import Records
from mada.run.stages import Stage, StageMark, mark_path
from mada.run.stored import StoredRun, accessible

T = TypeVar("T")

_MOST_NAMED = 5

_log = logging.getLogger(__name__)


class Run(StoredRun):
    """A run folder that this process, and no other, may write.

        with Run.open("runs/first", recipe) as run:
            stage = run.stage("split")
            if not stage.is_done:
                with stage:
                    run.write_json("split.json", cut(problems, run.rng("split")))

    `Run.read(folder)` gives the same folder without the lock and without the right to write.
    """

    def __init__(self, folder: Path, manifest: Manifest, *, lock: Lock) -> None:
        super().__init__(folder, manifest)
        self._lock = lock
        self._records: dict[str, Records[Any]] = {}

    @classmethod
    def open(cls, folder: str | Path, recipe: BaseModel, *, changed: Collection[str] = ()) -> Self:
        """Create the run, or continue the one that lies there if it has the same recipe.

        The recipe is any pydantic model whose `seed` is a whole number. A folder that holds something other
        than a run, a run of another recipe, and a run in use are refused, and left as they were. Fields that the
        recipe's class calls CHANGEABLE may differ; the session's entry in the manifest names them. So may the
        `changed` keys, if `adopt_recipe` is called when nothing in the folder depends on them any more.
        """
        folder = Path(folder)
        plain = plain_recipe(recipe)
        with accessible(folder):
            _prepare(folder)
        lock = Lock(folder)
        try:
            with accessible(folder):
                if (folder / FILE).exists():
                    stored = read_manifest(folder)
                    found = refuse_other_recipe(folder, stored.recipe, recipe, changed=changed)
                    manifest = stored.resumed(found)
                else:
                    _refuse_strange_content(folder)
                    manifest = Manifest.of(folder.absolute().name, plain)
                with alone_in(folder):  # a report may be in the making
                    # A run within the run, of ablations, may have a writer of its own.
                    remove_leftovers(folder, unless_beside=FILE)
                write_manifest(folder, manifest)
        except BaseException:
            lock.release()
            raise
        return cls(folder, manifest, lock=lock)

    def adopt_recipe(self, recipe: BaseModel) -> None:
        """Make this the run's recipe from now on, if it differs in more than what is CHANGEABLE."""
        self._require_open()
        if other_keys(self._manifest.recipe, recipe):
            self._manifest = self._manifest.with_recipe(plain_recipe(recipe))
            write_manifest(self.folder, self._manifest)

    def records(self, name: str, kind: type[T]) -> Records[T]:
        """The records in `records/<name>.jsonl`, to append to and to read; one object per name."""
        self._require_open()
        path = self._records_path(name)
        known = self._records.get(name)
        if known is None or known.is_closed:
            known = self._records[name] = Records(path, kind)
        elif known.kind is not kind:
            raise TypeError(f"records {name!r} hold {known.kind.__name__} in this run, not {kind.__name__}")
        return known

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file of the run as one step; the path it has."""
        path = self._writable_path(name)
        replace_text(path, text)
        return path

    def write_json(self, name: str, value: object) -> Path:
        """Replace a file of the run by plain JSON values as one step; the path it has."""
        return self.write_text(name, json_text(value, subject=name, indent=2) + "\n")

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace a file of the run as one step; the path it has."""
        path = self._writable_path(name)
        replace_bytes(path, content)
        return path

    @contextmanager
    def replacing(self, name: str) -> Generator[Path]:
        """Yield a temporary path that becomes the named file if the block succeeds."""
        with replacing(self._writable_path(name)) as partial:
            yield partial

    def check_inputs(self, stage: str, inputs: Mapping[str, str]) -> None:
        """Refuse inputs that have changed since the run first read them; the manifest keeps the digests of new ones.

        Without this, results of two different inputs would stand side by side in one run.
        """
        self._require_open()
        changed = self._manifest.changed_inputs(inputs)
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            raise RunError(
                f"{self.folder} was begun with other content in: {', '.join(changed[:_MOST_NAMED])}{more}; results "
                "of both must not be mixed. Restore what it was begun with, or use a new folder"
            )
        updated = self._manifest.with_inputs(stage, inputs)
        if updated != self._manifest:
            self._manifest = updated
            write_manifest(self.folder, updated)

    def stage(self, name: str) -> Stage:
        """A named part of the run: whether it is done, and the block that does it."""
        return Stage(mark_path(self.folder, name), write_mark=self._write_mark)

    def clear_stage(self, name: str) -> None:
        """Forget a stage's mark and inputs, so that it runs again. Its files stay."""
        self._require_open()
        if name in self._manifest.inputs:
            self._manifest = self._manifest.without_inputs(name)
            write_manifest(self.folder, self._manifest)
        path = mark_path(self.folder, name)
        with accessible(path):
            if path.exists():
                path.unlink()
                sync_folder(path.parent)

    def close(self, *, ended_by: str | None = None) -> None:
        """Close the records, note the session's end, let the next process in. Closing twice does nothing."""
        # A forked child holds no lock: it must not end its parent's session.
        if not self._lock.is_held:
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
            # What ended the block is the cause, and must not be hidden by what it led to.
            _log.warning("closing %s: %s", self.folder, failure)

    def _end_session(self, ended_by: str | None) -> None:
        self._require_open()
        self._manifest = self._manifest.ended(by=ended_by)
        write_manifest(self.folder, self._manifest)

    def _write_mark(self, mark: StageMark) -> None:
        self._require_open()
        for records in self._records.values():
            if not records.is_closed:
                records.sync()
        self.write_json(f"stages/{mark.name}.json", mark.model_dump(mode="json"))

    def _writable_path(self, name: str) -> Path:
        self._require_open()
        path = self.path(name)
        if path.relative_to(self.folder).parts[0] in (FILE, LOCK_FILE):
            raise RunError(f"{name!r} belongs to the run itself; choose another file name")
        return path

    def _require_open(self) -> None:
        if not self._lock.is_held:
            raise RunError(
                f"{self.folder} is not open for writing here: it was closed, or this is a forked child; only "
                "the process that opened a run writes it. Open it again, or hand the data to that process"
            )
        if not (self.folder / FILE).exists():
            raise RunError(
                f"{self.folder} has lost its {FILE}: the folder was moved or removed while this process used "
                "it. Put it back and start again"
            )


def _prepare(folder: Path) -> None:
    """Make the folder if need be, and refuse one that is something else before anything is put into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunError(f"{folder} is a file; a run needs a folder. Choose another name") from error
    _refuse_strange_content(folder)


def _refuse_strange_content(folder: Path) -> None:
    strange = sorted(path.name for path in folder.iterdir() if path.name != LOCK_FILE and not is_leftover(path))
    # Looked for last: a run that another process is creating has its manifest before anything else.
    if strange and not (folder / FILE).exists():
        named = ", ".join(strange[:3]) + (" …" if len(strange) > 3 else "")
        raise RunError(
            f"{folder} has files but no {FILE}, so it is not a run ({named}); choose a new or an empty folder"
        )
