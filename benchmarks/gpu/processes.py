"""Processes of a benchmark: each with a log and a session of its own, so that it ends with all that it started."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
}
UNLESS_SET = {"VLLM_LOGGING_LEVEL": "WARNING", "OMP_NUM_THREADS": "4"}


def start(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a process that writes into a log."""
    whole = {**UNLESS_SET, **os.environ, **ENVIRONMENT, **environment}
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=whole, start_new_session=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and what it has started, those that outlive it included, so that no memory stays taken."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_lines(log: Path, count: int) -> list[str]:
    """The end of a log."""
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
