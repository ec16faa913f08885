"""The completion server as a process, for as long as a block lasts."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

SCRIPT = Path(__file__).with_name("server.py")


@dataclass(frozen=True)
class RunningServer:
    """A server that plays any server: its flags are part of the address (see server.py)."""

    root: str

    def url(self, flags: str) -> str:
        return f"{self.root}/{flags}/v1"

    def seen(self, flags: str) -> dict[str, Any]:
        return httpx2.get(f"{self.root}/{flags}/seen", trust_env=False).json()


@contextmanager
def running_server(*options: str) -> Generator[RunningServer]:
    """Start the server, with its options, on a free port; when the block ends, however it ends, so does the process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()  # it is printed when the port is open
        if not port:
            raise RuntimeError(f"the completion server did not start; run {SCRIPT} to see why")
        yield RunningServer(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
