import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mada.atomic import atomic_path, remove_temporaries, replace_bytes, replace_text, sync_folder
from mada.errors import RunError


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), FileNotFoundError(errno.ENOENT, "theirs")])
def test_an_exception_in_the_block_passes_through_and_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def broken_block() -> None:
        with atomic_path(path) as partial:
            partial.write_bytes(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        broken_block()
    assert caught.value is error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_the_umask_allows(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        replace_text(tmp_path / "file", "x")
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    with umask(0o022):
        replace_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("elsewhere")
    (tmp_path / "link").symlink_to("target")
    replace_text(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text() == "elsewhere"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("step", "old"),
    [("fchmod", b"old")]  # a new file has no permissions to keep
    + [(step, old) for step in ("mkdir", "open", "write_bytes", "fsync", "replace") for old in (None, b"old")],
)
def test_a_failure_at_any_step_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, old: bytes | None
) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os if step in ("open", "fchmod", "fsync") else Path, step, full)
        with pytest.raises(RunError, match="No space left on device"):
            replace_bytes(path, b"new")
    assert names(tmp_path) == ([] if old is None else ["file"])
    assert old is None or path.read_bytes() == old


def test_a_file_system_that_cannot_sync_folders_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_on_folders(monkeypatch, errno.EINVAL)
    replace_bytes(tmp_path / "file", b"new")
    sync_folder(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"new"


def fail_on_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)


def test_only_the_temporaries_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    leftovers = [tmp_path / ".0123456789abcdef.partial", tmp_path / "deep" / ".fedcba9876543210.partial"]
    kept = [tmp_path / "a.partial", tmp_path / ".hidden.partial", tmp_path / "deep" / "data.json"]
    for path in [*leftovers, *kept]:
        path.write_text("x")
    half = tmp_path / "deep" / ".aaaaaaaaaaaaaaaa.partial"
    half.mkdir()
    (half / "adapter.safetensors").write_text("x")
    remove_temporaries(tmp_path)
    assert not any(path.exists() for path in (*leftovers, half))
    assert all(path.exists() for path in kept)


def test_what_a_run_within_is_writing_is_left_alone(tmp_path: Path) -> None:
    partial = tmp_path / "ablations" / "records" / ".0123456789abcdef.partial"
    partial.parent.mkdir(parents=True)
    for path in (partial, tmp_path / "manifest.json", tmp_path / "ablations" / "manifest.json"):
        path.write_text("x")
    remove_temporaries(tmp_path, unless_beside="manifest.json")
    assert partial.exists()
    remove_temporaries(tmp_path / "ablations", unless_beside="manifest.json")
    assert not partial.exists()
