import errno
import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mada.errors import RunError
from mada.runs.lock import holder_of, lock_folder

FORKING = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def fail(number: int):
    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return failing


def test_a_second_process_is_refused_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    with pytest.raises(RunError, match=f"is in use by process {os.getpid()} on {socket.gethostname()} since"):
        lock_folder(tmp_path)
    lock.release()
    again = lock_folder(tmp_path)
    lock.release()
    assert again.is_locked, "releasing twice releases nothing of others"
    again.release()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = "import sys, time; from pathlib import Path; from mada.runs.lock import lock_folder\n"
    code += "lock = lock_folder(Path(sys.argv[1])); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        holder = holder_of(tmp_path)
        assert holder is not None
        assert holder.startswith(f"process {process.pid} on ")
        process.kill()
    assert holder_of(tmp_path) is None, "its name is still in the file"
    lock_folder(tmp_path).release()


@FORKING
def test_a_forked_child_does_not_hold_the_lock_and_its_parent_keeps_it(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    child = os.fork()
    if child == 0:  # no assertions here: a child must end without running the parent's test session
        held = lock.is_locked
        lock.release()
        os._exit(1 if held else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(RunError, match="is in use"):
        lock_folder(tmp_path)
    lock.release()


def test_a_full_disk_costs_the_name_and_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fail(errno.ENOSPC))
        lock = lock_folder(tmp_path)
    with pytest.raises(RunError, match="is in use by another process"):
        lock_folder(tmp_path)
    lock.release()


@pytest.mark.parametrize(("module", "step", "number"), [(os, "open", errno.EACCES), (fcntl, "flock", errno.ENOLCK)])
def test_a_folder_that_cannot_be_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, step: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, step, fail(number))
        with pytest.raises(RunError, match=f"cannot be locked: {os.strerror(number)}"):
            lock_folder(tmp_path)
        assert holder_of(tmp_path) is None


def test_asking_who_holds_a_folder_changes_nothing(tmp_path: Path) -> None:
    assert holder_of(tmp_path / "nowhere") is None
    assert holder_of(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    lock = lock_folder(tmp_path)
    holder = holder_of(tmp_path)
    assert holder is not None
    assert holder.startswith(f"process {os.getpid()} on {socket.gethostname()} since ")
    with pytest.raises(RunError, match="is in use"):
        lock_folder(tmp_path)
    lock.release()
    assert holder_of(tmp_path) is None
