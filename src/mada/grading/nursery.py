"""The process that raises grading workers, and the workers themselves.

Importing SymPy takes most of a second, so one process, the nursery, imports it once and forks a worker whenever the
grader asks for one: replacing a killed worker takes milliseconds. It is a plain subprocess rather than Python's own
fork server because that one runs the user's script again in every worker.

    grader ── control socket ──> nursery ── forks ──> worker 1, worker 2, …
       └──────────── one socket per worker ─────────────────┘

A worker's time limit is processor time, enforced by the kernel (`ITIMER_PROF`, whose signal kills): it cannot be missed
by code that never returns to the interpreter, and a busy machine does not change a grade. When a worker dies, the
nursery says of what on the worker's socket and closes it. When the grader is gone, every socket ends and all exit.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
from collections.abc import Callable

MEMORY_LIMIT = 4 << 30  # bytes of address space a worker may ask for

# Both libraries build tables on first use, ten times as slow as later ones; workers inherit what is built here.
WARM_UP = (
    ("x^{2}+2x+1", "(x+1)^{2}"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    ("2x+3y=6", "y=2"),
)


def main(control_descriptor: int) -> None:
    """Raise workers until the grader closes the control socket."""
    from mada.grading.symbolic import symbolic_equivalence

    for gold, given in WARM_UP:
        symbolic_equivalence(gold, given)
    _silence_standard_error()
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, _only_wake)
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
                    pid = os.fork()
                    if pid == 0:
                        inherited = [control, *workers.values()]
                        _become_worker(own_socket, inherited=inherited, compare=symbolic_equivalence)
                    workers[pid] = own_socket


def _only_wake(_signal: int, _frame: object) -> None:
    """Let the signal do nothing but write to the wake-up pipe."""


def _silence_standard_error() -> None:
    """Stop talking once the imports went well: the grader reads standard error only to explain a failed start."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


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
