"""`mada serve` as a process for as long as a block lasts, and the lines and numbers it gives."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2


@dataclass
class Served:
    """A running server: its address, its process, and the file of its log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def metrics(self) -> dict[str, float]:
        """Return metrics by name, summed over their labels."""
        found: dict[str, float] = {}
        for line in httpx2.get(f"{self.url}/metrics", trust_env=False).text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.partition("{")[0]
                found[name] = found.get(name, 0) + float(value)
        return found

    def wait_until_idle(self, seconds: float = 30) -> dict[str, float]:
        """Return the metrics once nothing works, waits or is sampled."""
        until = time.monotonic() + seconds
        while True:
            found = self.metrics()
            busy = {
                name: found[name] for name in ("mada_requests_working", "mada_requests_waiting", "mada_engine_rows")
            }
            if not any(busy.values()):
                return found
            assert time.monotonic() < until, busy
            time.sleep(0.1)


@contextmanager
def serving(log: Path, *words: object, **environment: str) -> Generator[Served]:
    """Serve on a free port; afterwards the process is gone."""
    command = [sys.executable, "-m", "mada", "serve", *map(str, words), "--port", "0", "--log", "json"]
    # The clients share the cores: one thread each is faster than two that wait for each other.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MADA_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stderr=output, stdout=output, env=own | {"OMP_NUM_THREADS": "1"} | environment
        )
    try:
        yield Served(_address(process, log), process, log)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r" at (http://\S+)/v1,", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-3000:]}")


def lines_of(log: Path) -> list[dict]:
    """Return the lines of a log that are JSON."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def chunks(reply: httpx2.Response) -> list[dict]:
    """Return the chunks of a streamed reply, the end mark left out."""
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
