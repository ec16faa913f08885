"""The worker pool: processes that compare two answers by computer algebra within a limit of processor time.

Importing SymPy takes most of a second, so one process, the fork server, imports it once and forks a worker whenever the
grader asks for one: replacing a killed worker takes milliseconds. It is a plain subprocess rather than Python's own
fork server because that one runs the user's script again in every worker.

    grader ── control socket ──> fork server ── forks ──> worker 1, worker 2, …
       └──────────── one socket per worker ───────────────────┘

A worker's time limit is processor time, enforced by the kernel (`ITIMER_PROF`, whose signal kills): it cannot be missed
by code that never returns to the interpreter, and a busy machine does not change a grade. When a worker dies, the
fork server says of what on the worker's socket and closes it. When the grader is gone, every socket ends and all exit.
Where the system refuses a process, `InProcess` compares in the calling thread.
"""

import contextlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from mada.errors import GradingError

START_LIMIT = 120.0  # seconds of wall time for the fork server's imports, on a very busy machine
# Wall time is only a backstop, for a worker that somebody stopped: the kernel enforces the limit on processor time.
WALL_GRACE = 60.0
WALL_FACTOR = 20.0
WATCHING = 4.0  # how much slower a comparison is in this process, with its calls counted
MEMORY_LIMIT = 4 << 30  # bytes of address space a worker may ask for
_START = (
    "import sys; sys.path[:] = {path!r}; from mada.grading.worker_pool import fork_workers; fork_workers({descriptor})"
)

# Both libraries build tables on first use, ten times as slow as later ones; workers inherit what is built here.
WARM_UP = (
    ("x^{2}+2x+1", "(x+1)^{2}"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    ("2x+3y=6", "y=2"),
)
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, 0)


class WorkerDiedError(Exception):
    """A worker ended while it was being asked. `timed_out` tells its own time limit from any other death."""

    def __init__(self, *, signal_number: int | None) -> None:
        super().__init__(f"grading worker ended by signal {signal_number}")
        self.timed_out = signal_number == signal.SIGPROF
        self.crashed = signal_number in _CRASHES


class NoMoreWorkersError(Exception):
    """The system refuses another process or socket: too many, or no memory."""


class _OutOfTime(BaseException):
    """Ends a comparison in this process; no `except Exception` of the libraries stops it."""


class InProcess:
    """Compares in the calling thread. The limit holds between calls of Python functions only."""

    _one_at_a_time = threading.Lock()

    def ask(self, gold: str, given: str, *, limit: float) -> str:
        """Do what `Worker.ask` does."""

        def check(*_: object) -> None:
            if next(calls) % 256 == 0 and time.thread_time() > deadline:
                raise _OutOfTime

        with self._one_at_a_time:
            compare = _warm_comparison()
            before = sys.getprofile()
            calls = itertools.count()
            deadline = time.thread_time() + WATCHING * limit
            sys.setprofile(check)
            try:
                return compare(gold, given)
            except _OutOfTime:
                raise WorkerDiedError(signal_number=signal.SIGPROF) from None
            finally:
                sys.setprofile(before)

    def close(self) -> None:
        """Do nothing: there is no process to end."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One forked process that compares one pair of answers at a time."""

    pid: int
    connection: socket.socket

    def ask(self, gold: str, given: str, *, limit: float) -> str:
        """Compare two answers within `limit` seconds of processor time, or raise `WorkerDiedError`."""
        question = json.dumps({"gold": gold, "given": given, "limit": limit}).encode() + b"\n"
        self.connection.settimeout(WALL_GRACE + WALL_FACTOR * limit)
        with contextlib.suppress(BrokenPipeError):  # died while idle; the fork server's report is there to be read
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


class WorkerPool:
    """Starts the process that forks workers, and starts it again if somebody killed it. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start_worker(self) -> Worker:
        """Return a new worker, ready to be asked, or raise `NoMoreWorkersError`."""
        with self._lock:
            for _ in range(3):
                try:
                    return self._fork_worker()
                except OSError:  # the fork server has died; the next turn starts another
                    self._stop()
            raise GradingError(
                "the process that starts grading workers died three times in a row; "
                "look for a memory limit or a process killer on this machine"
            )

    def close(self) -> None:
        """Stop the fork server; workers end when their own connections do."""
        with self._lock:
            self._stop()

    def _fork_worker(self) -> Worker:
        control = self._control or self._start()
        ours, theirs = _socket_pair()
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
            if "refused" in hello:
                raise NoMoreWorkersError(hello["refused"])
            raise ConnectionError("the worker ended before it said hello")
        return Worker(pid=hello["pid"], connection=ours)

    def _start(self) -> socket.socket:
        ours, theirs = _socket_pair()
        with theirs:
            command = _START.format(path=sys.path, descriptor=theirs.fileno())
            # A session of its own, so that Ctrl-C in the terminal reaches the grader and not its workers.
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", command],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as refusal:
                ours.close()
                raise NoMoreWorkersError(str(refusal)) from None
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


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair()
    except OSError as refusal:
        raise NoMoreWorkersError(str(refusal)) from None


def _receive(connection: socket.socket) -> dict[str, Any]:
    """Read the worker's one line; an end of file reads as an empty message."""
    received = b""
    while not received.endswith(b"\n"):
        piece = connection.recv(4096)
        if not piece:
            return {}
        received += piece
    # A worker killed between its reply and the fork server's report leaves two lines; the first is what was asked for.
    return cast("dict[str, Any]", json.loads(received.split(b"\n", 1)[0]))


def fork_workers(control_descriptor: int) -> None:
    """Be the fork server: fork a worker for every socket that comes, until the grader closes the control socket."""
    compare = _warm_comparison()
    # The imports went well: the grader reads standard error only to explain a failed start.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, _ignore)  # but write to the wake-up pipe
    workers: dict[int, socket.socket] = {}
    with socket.socket(fileno=control_descriptor) as control:
        control.sendall(b"ready\n")
        while True:
            readable, _, _ = select.select([control, wake_reader], [], [])
            if wake_reader in readable:
                os.read(wake_reader, 4096)
                _report_deaths(workers)
            if control in readable:
                message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                if not message:
                    return
                for descriptor in descriptors:
                    own_socket = socket.socket(fileno=descriptor)
                    try:
                        pid = os.fork()
                    except OSError as refusal:
                        with own_socket:
                            own_socket.sendall(_line(refused=str(refusal)))
                        continue
                    if pid == 0:
                        inherited = [control, *workers.values()]
                        _become_worker(own_socket, inherited=inherited, compare=compare)
                    workers[pid] = own_socket


@cache
def _warm_comparison() -> Callable[[str, str], str]:
    from mada.grading.symbolic import symbolic_equivalence

    for gold, given in WARM_UP:
        symbolic_equivalence(gold, given)
    return symbolic_equivalence


def _ignore(_signal: int, _frame: object) -> None:
    """Do nothing."""


def _report_deaths(workers: dict[int, socket.socket]) -> None:
    """Tell the grader which signal ended each dead worker, then close its socket."""
    while workers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        own_socket = workers.pop(pid)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        with contextlib.suppress(OSError):  # the grader has hung up, which is also how it ends a worker
            own_socket.sendall(_line(died=ended_by))
        own_socket.close()


def _become_worker(
    own_socket: socket.socket, *, inherited: list[socket.socket], compare: Callable[[str, str], str]
) -> None:
    """Turn this fresh fork into a worker; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with contextlib.suppress(ValueError, OSError):  # not every system lets a process limit itself
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        for other in inherited:
            other.close()
        _serve(own_socket, compare=compare)
    finally:
        os._exit(0)


def _serve(own_socket: socket.socket, *, compare: Callable[[str, str], str]) -> None:
    """Answer questions one by one until the grader hangs up."""
    with own_socket.makefile("rb") as questions:
        own_socket.sendall(_line(pid=os.getpid()))
        for line in questions:
            question = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, question["limit"])
            equivalence = compare(question["gold"], question["given"])
            signal.setitimer(signal.ITIMER_PROF, 0)
            own_socket.sendall(_line(outcome=equivalence))


def _line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"
