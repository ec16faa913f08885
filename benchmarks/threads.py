"""Seconds for ten steps of the quickstart's generators, by the number of threads, alone and beside a busy core.

    python benchmarks/threads.py [--rounds 3] [--threads 1 2]

A run is `mada run recipes/quickstart.toml` up to the generators, in a process of its own; what is measured is the stage
as its mark has it, loading and both looks at the validation set included. The busy core is a process that counts.
Rounds are interleaved: every number of threads, alone and beside the busy process, before the next round. Programs that
others run on the machine count as busy too; the load average is printed at the start.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

RECIPE = Path(__file__).parents[1] / "recipes" / "quickstart.toml"
STEPS = 10


def count_forever() -> None:
    """Keep a core busy."""
    number = 0
    while True:
        number += 1


def seconds(threads: int, *, busy: bool) -> float:
    """Train in a new process, beside a busy one or not, and return what the stage took."""
    other = multiprocessing.get_context("spawn").Process(target=count_forever, daemon=True)
    if busy:
        other.start()
    try:
        with TemporaryDirectory() as folder:
            fields = [f"generators.steps={STEPS}", f"engine.threads={threads}", f"training.validate_every={STEPS}"]
            command = [sys.executable, "-m", "mada", "run", str(RECIPE), *fields, "--run", folder]
            subprocess.run([*command, "--until", "generators"], check=True, capture_output=True)
            return json.loads((Path(folder) / "stages" / "generators.json").read_text())["seconds"]
    finally:
        if busy:
            other.kill()
            other.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    cases = [(threads, busy) for threads in options.threads for busy in (False, True)]
    found: dict[tuple[int, bool], list[float]] = {case: [] for case in cases}
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for _ in range(options.rounds):
        for threads, busy in cases:
            found[threads, busy].append(seconds(threads, busy=busy))
            shown = f"{threads} threads, {'beside a busy core' if busy else 'alone'}"
            print(f"{shown:<30}{found[threads, busy][-1]:>8.1f}", flush=True)
    print(f"\n{'threads':<10}{'alone':>8}{'busy':>8}")
    for threads in options.threads:
        alone, busy = (statistics.median(found[threads, one]) for one in (False, True))
        print(f"{threads:<10}{alone:>8.1f}{busy:>8.1f}")


if __name__ == "__main__":
    main()
