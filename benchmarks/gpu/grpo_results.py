"""What the sides of the GRPO step measured: lines of JSON, the GPU's memory, and the table."""

import json
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

GIB = 2**30


class DeviceMemory:
    """The most memory that was taken on the GPU, by whomever, while this was open: in GiB, 0 without a GPU.

    Asked of the driver, because vLLM may be another process and TRL is three of them.
    """

    def __init__(self) -> None:
        self.peak = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1):
            self.peak = max(self.peak, device_memory())


def has_gpu() -> bool:
    """Whether there is an NVIDIA driver to ask, found out without importing torch."""
    return shutil.which("nvidia-smi") is not None


def device_memory() -> float:
    """What is taken on the GPU now, in GiB."""
    if not has_gpu():
        return 0.0
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = done.stdout.split()
    return int(found[0]) / 1024 if found and found[0].isdigit() else 0.0


def versions(*packages: str) -> dict[str, str]:
    """The versions of those packages that are there."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def add_line(results: Path, *, side: str, workload: str, seconds: Sequence[float], **more: object) -> None:
    """Write a result as soon as it is there, so that a side cut short leaves what it had."""
    line = {"benchmark": "grpo_step", "side": side, "workload": workload, "median": statistics.median(seconds),
            "seconds": list(seconds), **more, "at": time.time(),
            "versions": versions("torch", "transformers", "peft", "trl", "vllm")}  # fmt: skip
    text = json.dumps(json.loads(json.dumps(line), parse_float=lambda number: round(float(number), 4)))
    print(text, flush=True)
    with results.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def print_table(results: Path, since: float) -> None:
    """What this run measured, with ratios against `local`, of this run or the last before it."""
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    lines = [line for line in map(json.loads, text.splitlines()) if line.get("benchmark") == "grpo_step"]
    local = {line["workload"]: line["median"] for line in lines if line["side"] == "local"}
    lines = [line for line in lines if line["at"] >= since]
    print(f"\n{'workload':<10}{'side':<38}{'seconds':>9}{'ratio':>7}{'GPU GiB':>9}  parts")
    for line in sorted(lines, key=lambda line: line["workload"]):
        own = local.get(line["workload"])
        ratio = f"{line['median'] / own:.2f}" if own else ""
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in line["parts"].items())
        print(f"{line['workload']:<10}{line['side']:<38}{line['median']:>9.2f}{ratio:>7}"
              f"{line['device_peak_gib']:>9.1f}  {parts}")  # fmt: skip
