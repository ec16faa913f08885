import errno
import fcntl
import os
import re
import socket
from pathlib import Path

import pytest

from mada.errors import RunError
from mada.run.lock import Lock, close_all_in_child, holder_of

FORKING = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_a_second_opener_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    assert lock.is_held
    with pytest.raises(RunError) as caught:
        Lock(tmp_path)
    host = re.escape(socket.gethostname())
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))} is in use by process {os.getpid()} on {host} "
        r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; wait for it to end, or stop it, then start again",
        str(caught.value),
    )
    lock.release()
    assert not lock.is_held
    again = Lock(tmp_path)
    lock.release()
    assert again.is_held, "releasing twice releases nothing of others"
    again.release()


def test_the_lock_file_stays_and_names_nobody_when_free(tmp_path: Path) -> None:
    Lock(tmp_path).release()
    assert (tmp_path / ".lock").read_bytes() == b""


def test_a_holder_that_has_not_written_its_name_is_another_process(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    (tmp_path / ".lock").write_bytes(b'{"pid":')
    with pytest.raises(RunError, match="is in use by another process; wait for it"):
        Lock(tmp_path)
    lock.release()


def test_started_programs_do_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    descriptor = lock._descriptor
    assert descriptor is not None
    assert not os.get_inheritable(descriptor)
    lock.release()


@FORKING
def test_a_forked_child_lets_go_of_the_lock_and_its_parent_keeps_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    child = os.fork()
    if child == 0:  # no assertions here: a child must end without running the parent's test session
        held = lock.is_held
        lock.release()
        os._exit(1 if held else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(RunError, match="is in use"):
        Lock(tmp_path)
    lock.release()


def test_what_a_child_does_first_closes_every_lock_once(tmp_path: Path) -> None:
    locks = [Lock(folder) for folder in (tmp_path / "a", tmp_path / "b") if folder.mkdir() is None]
    locks[0].release()
    close_all_in_child()
    assert [lock.is_held for lock in locks] == [False, False]
    locks[1].close_in_child()
    locks[1].release()


@FORKING
def test_a_living_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    lock.release()
    Lock(tmp_path).release()
    os.close(read_end)
    os.close(write_end)
    os.waitpid(child, 0)


def test_a_full_disk_costs_the_name_and_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = Lock(tmp_path)
    with pytest.raises(RunError, match="is in use by another process"):
        Lock(tmp_path)
    lock.release()


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(RunError) as caught:
        Lock(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} cannot be opened for writing: Permission denied; a run writes in its folder. "
        "Mend the folder's permissions or choose another folder"
    )


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(RunError, match="cannot be locked: No locks available; its file system must support flock"):
        Lock(tmp_path)


def test_who_holds_a_folder_is_told_without_taking_it(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None, "nobody has been here"
    assert list(tmp_path.iterdir()) == [], "asking leaves nothing"
    lock = Lock(tmp_path)
    holder = holder_of(tmp_path)
    assert holder is not None
    assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    assert lock.is_held
    with pytest.raises(RunError, match="is in use"):
        Lock(tmp_path)
    lock.release()
    assert holder_of(tmp_path) is None
    Lock(tmp_path).release()


def test_a_name_that_a_killed_holder_left_is_nobodys(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    name = (tmp_path / ".lock").read_bytes()
    lock.release()
    (tmp_path / ".lock").write_bytes(name)
    assert holder_of(tmp_path) is None


def test_who_cannot_be_told_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert holder_of(tmp_path / "nowhere") is None
    lock = Lock(tmp_path)
    (tmp_path / ".lock").write_bytes(b'{"pid":')
    assert holder_of(tmp_path) is None, "a holder that has not written its name"

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", unsupported)
        assert holder_of(tmp_path) is None
    lock.release()
