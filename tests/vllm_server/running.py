"""vLLM's own server as a process, for as long as a block lasts; it needs a Python that has a CPU build of vLLM."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

SECONDS_TO_START = 300.0


@contextmanager
def running_vllm(python: str, model: Path, *, name: str, adapters: Mapping[str, Path], log: Path) -> Generator[str]:
    """Serve a model and its adapters on a free port, and give the address; afterwards the process is gone."""
    command = [
        # Not `vllm serve`: the CPU build is a package of another name, which that command does not find.
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", name),
        *("--max-model-len", "512", "--enable-lora", "--max-lora-rank", "8", "--max-loras", str(len(adapters) + 1)),
        *("--lora-modules", *(f"{agent}={folder}" for agent, folder in adapters.items())),
    ]
    with running_server(command, log=log) as url:
        yield url


@contextmanager
def running_server(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> Generator[str]:
    """Run a command that starts vLLM's server, on a free port and in float32; afterwards the process is gone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings, **(environment or {})},
            start_new_session=True,
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        # The server has processes of its own; all of them are in its session.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < until:
        try:
            if httpx2.get(health, trust_env=False, timeout=2).is_success:
                return
        except httpx2.HTTPError:
            time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    raise RuntimeError(f"vLLM's server did not start:\n{said}")
