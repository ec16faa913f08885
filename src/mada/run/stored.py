"""A run as it lies on the disk: everything a report needs, nothing that writes."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import SupportsIndex, TypeVar

import numpy as np

from mada import seeds
from mada.digest import digest_of_file
from mada.errors import RunError
from mada.run.manifest import FILE, Manifest, read_manifest
from mada.run.records import StoredRecords
from mada.run.stages import StageMark, read_marks

T = TypeVar("T")


class StoredRun:
    """A run folder opened for reading. It takes no lock: another process may be writing it meanwhile."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder.absolute()
        self._manifest = manifest

    @classmethod
    def read(cls, folder: str | Path) -> "StoredRun":
        """The run in `folder`, as it is now."""
        folder = Path(folder)
        with accessible(folder):
            _refuse_what_is_no_run(folder)
        return StoredRun(folder, read_manifest(folder))

    @property
    def manifest(self) -> Manifest:
        """Recipe, seed and sessions."""
        return self._manifest

    def path(self, *parts: str) -> Path:
        """A path inside the folder. Names that lead out of it are refused, whoever made them up."""
        steps = [step for part in parts for step in part.split("/")]
        if not steps or any(step in ("", ".", "..") or "\0" in step for step in steps):
            raise RunError(
                f"{'/'.join(parts)!r} is no path inside {self.folder}; "
                "give names relative to the run folder, without '..' and without an empty step"
            )
        return self.folder.joinpath(PurePosixPath(*steps))

    def seed(self, *path: str | SupportsIndex) -> int:
        """The seed of a named random choice; see `mada.seeds`."""
        return seeds.seed_for(self.manifest.seed, *path)

    def rng(self, *path: str | SupportsIndex) -> np.random.Generator:
        """A fresh generator for a named random choice; see `mada.seeds`."""
        return seeds.rng(self.manifest.seed, *path)

    def records(self, name: str, kind: type[T]) -> StoredRecords[T]:
        """The records in `records/<name>.jsonl`."""
        path = self._records_path(name)
        if not path.is_file():
            known = ", ".join(self.record_names()) or "none yet"
            raise RunError(f"{self.folder} has no records {name!r}; it has {known}. Run the stage that makes them")
        return StoredRecords(path, kind)

    def record_names(self) -> tuple[str, ...]:
        """The names that `records` takes."""
        folder = self.folder / "records"
        files = (path.relative_to(folder) for path in folder.rglob("*.jsonl"))
        return tuple(sorted(file.with_suffix("").as_posix() for file in files))

    def finished_stages(self) -> tuple[StageMark, ...]:
        """The marks of finished stages, in the order in which they ended."""
        return read_marks(self.folder)

    def check_results(self, stage: str | None = None, *, under: str = "") -> None:
        """Refuse results of finished stages, or of one, that are not what was written: the disk changed them.

        `under` is the beginning of their paths. A file that is gone is left to whoever wants to read it.
        """
        for mark in self.finished_stages():
            for name, digest in mark.files.items() if stage in (None, mark.name) else ():
                path = self.path(name)
                if name.startswith(under) and path.is_file() and digest_of_file(path) != digest:
                    raise RunError(
                        f"{path} is damaged: it is not what the stage {mark.name} wrote (its SHA-256 is another). "
                        "Restore it from a copy, or do that stage again"
                    )

    def _records_path(self, name: str) -> Path:
        return self.path("records", name).with_name(f"{name.split('/')[-1]}.jsonl")


@contextmanager
def accessible(path: Path) -> Generator[None]:
    """Turn the operating system's refusal into a sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be used: {error.strerror}; a run needs files it may read and write. "
            "Mend the permissions, or choose another folder"
        ) from error


def _refuse_what_is_no_run(folder: Path) -> None:
    if not folder.exists():
        raise RunError(f"{folder} does not exist; give the folder of a run")
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; a run is a folder with a {FILE}")
    if not (folder / FILE).exists():
        raise RunError(f"{folder} has no {FILE}, so it is not a run; give the folder of a run")
