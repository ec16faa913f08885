"""The grader's side of its workers: starting the nursery, asking a worker, noticing that it died and of what."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, cast

from mada.errors import GradingError

START_LIMIT = 120.0  # seconds of wall time for the nursery's imports, on a very busy machine
# Wall time is only a backstop, for a worker that somebody stopped: the kernel enforces the limit on processor time.
WALL_GRACE = 60.0
WALL_FACTOR = 20.0
_START = "import sys; sys.path[:] = {path!r}; from mada.grading.nursery import main; main({descriptor})"


class WorkerDiedError(Exception):
    """A worker ended while it was being asked. `timed_out` tells its own time limit from any other death."""

    def __init__(self, *, signal_number: int | None) -> None:
        super().__init__(f"grading worker ended by signal {signal_number}")
        self.timed_out = signal_number == signal.SIGPROF
        self.crashed = signal_number in (
            signal.SIGSEGV,
            signal.SIGABRT,
            signal.SIGBUS,
            signal.SIGFPE,
            signal.SIGILL,
            0,
        )


@dataclass(frozen=True, slots=True)
class Worker:
    """One forked process that compares one pair of answers at a time."""

    pid: int
    connection: socket.socket

    def ask(self, gold: str, given: str, *, limit: float) -> str:
        """Compare two answers within `limit` seconds of processor time, or raise `WorkerDiedError`."""
        question = json.dumps({"gold": gold, "given": given, "limit": limit}).encode() + b"\n"
        self.connection.settimeout(WALL_GRACE + WALL_FACTOR * limit)
        with contextlib.suppress(BrokenPipeError):  # died while idle; the nursery's report is there to be read
            self.connection.sendall(question)
        try:
            reply = _receive(self.connection)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise WorkerDiedError(signal_number=signal.SIGPROF) from None
        except ConnectionError:
            raise WorkerDiedError(signal_number=None) from None
        if "outcome" not in reply:
            raise WorkerDiedError(signal_number=reply.get("died"))
        return cast("str", reply["outcome"])

    def close(self) -> None:
        """Hang up, which ends the worker."""
        self.connection.close()


class Nursery:
    """Starts the process that forks workers, and starts it again if somebody killed it. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def raise_worker(self) -> Worker:
        """Return a new worker, ready to be asked."""
        with self._lock:
            for _ in range(3):
                try:
                    return self._fork_worker()
                except OSError:  # the nursery has died; the next turn starts another
                    self._stop()
            raise GradingError(
                "the process that starts grading workers died three times in a row; "
                "look for a memory limit or a process killer on this machine"
            )

    def close(self) -> None:
        """Stop the nursery; workers end when their own connections do."""
        with self._lock:
            self._stop()

    def _fork_worker(self) -> Worker:
        control = self._control or self._start()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(control, [b"w"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        ours.settimeout(START_LIMIT)
        hello = _receive(ours)
        if "pid" not in hello:
            ours.close()
            raise ConnectionError("the worker ended before it said hello")
        return Worker(pid=hello["pid"], connection=ours)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = _START.format(path=sys.path, descriptor=theirs.fileno())
            # A session of its own, so that Ctrl-C in the terminal reaches the grader and not its workers.
            self._process = subprocess.Popen(
                [sys.executable, "-c", command],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        ours.settimeout(START_LIMIT)
        if ours.recv(16) != b"ready\n":
            ours.close()
            _, complaint = self._process.communicate()
            last_line = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise GradingError(
                f"grading workers cannot start: {last_line or 'the process ended without a word'}; "
                "check that math-verify and latex2sympy2-extended are installed beside mada"
            )
        self._control = ours
        return ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
        self._control = self._process = None


def _receive(connection: socket.socket) -> dict[str, Any]:
    """Read the worker's one line; an end of file reads as an empty message."""
    received = b""
    while not received.endswith(b"\n"):
        piece = connection.recv(4096)
        if not piece:
            return {}
        received += piece
    # A worker killed between its reply and the nursery's report leaves two lines; the first is what was asked for.
    return cast("dict[str, Any]", json.loads(received.split(b"\n", 1)[0]))
