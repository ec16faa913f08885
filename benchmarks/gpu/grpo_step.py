"""Seconds for one GRPO step of three agents on one GPU: mada with either engine, against TRL with vLLM inside.

    python benchmarks/gpu/grpo_step.py RESULTS.jsonl SCRATCH/ [--sides local,vllm,trl-vllm] [--workloads paper,run]
        [--steps 3] [--trl-steps 2] [--budget 560] [--tiny]

A step is the whole of it: sample, score, take the base's log-probabilities for the KL term, go forward and backward,
move the adapters, hand them to whatever samples next. All sides load the same random Qwen2-1.5B from SCRATCH/model,
which is written where it is missing; grpo_task.py has the task's numbers. *paper*: 4 prompts × 4 completions for each
agent; *run*: 16 × 8.

- `local`: three agents in one batch, one update (mada_side.py).
- `vllm`: the same through `VllmEngine`.
- `trl-vllm`: GRPOTrainers, each in a process with a vLLM of its own (trl_trainer.py says what they are given): three at
  once, tuned; then one of them alone, as it comes and tuned, times three. A time limit cuts the last of these first.

Every side runs in processes of its own, with a log beside RESULTS and a time limit after which it is killed; the others
go on, and all together have `--budget` seconds. What a side had measured until then stays. Steps that warm up do not
count: two for `local`, one elsewhere. `--tiny` tries the script on a CPU with a toy model and TRL's plain `generate`;
its numbers mean nothing. Ends with 0, with 1 if a side failed or was killed, with 2 if it was called wrongly.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_results import device_memory, has_gpu, print_table
from grpo_task import WORKLOADS, is_written, model_folder, write_model
from processes import end, last_lines, start
from workload import AGENTS

if TYPE_CHECKING:
    import subprocess

HERE = Path(__file__).resolve().parent
# Seconds after which a side is killed. Three TRL trainers compile three vLLMs at once and then run three times.
LIMITS = {"model": 120, "local": 150, "vllm": 240, "trl-vllm": 360}
NEEDED = {"local": ["mada"], "vllm": ["mada", "vllm"], "trl-vllm": ["trl", "peft", "vllm"]}


def run_side(commands: Sequence[list[str]], logs: Sequence[Path], *, limit: float) -> str | None:
    """Run a side's processes at the same time; say what went wrong, None if nothing did."""
    started = time.monotonic()
    running: list[subprocess.Popen[bytes]] = []
    problem: str | None = None
    try:
        for command, log in zip(commands, logs, strict=True):
            running.append(start(command, log, {"HF_HUB_OFFLINE": "1"}))
        while problem is None and any(process.poll() is None for process in running):
            time.sleep(0.2)
            if time.monotonic() - started > limit:
                problem = f"killed after {limit:.0f} s, see {logs[0]}"
            problem = _broken(running, logs) or problem
        problem = problem or _broken(running, logs)
    finally:
        for process in running:
            end(process)
    until = time.monotonic() + 20  # the driver takes its time to free what a killed process held
    while device_memory() > 3 and time.monotonic() < until:
        time.sleep(0.5)
    return problem


def _broken(running: "Sequence[subprocess.Popen[bytes]]", logs: Sequence[Path]) -> str | None:
    """What the first process that failed has said."""
    for process, log in zip(running, logs, strict=True):
        if process.poll():
            return "\n".join([f"failed, see {log}:", *last_lines(log, 8)])
    return None


def commands_of(side: str, options: argparse.Namespace) -> list[list[str]]:
    """The processes of a side."""
    paths = [str(options.results), str(options.scratch)]
    tiny = ["--tiny"] if options.tiny else []
    if side == "model":
        return [[sys.executable, str(HERE / "grpo_step.py"), *paths, "--write-model", *tiny]]
    steps = options.trl_steps if side == "trl-vllm" else options.steps
    common = ["--workloads", ",".join(options.workloads), "--steps", str(steps), *tiny]
    if side != "trl-vllm":
        return [[sys.executable, str(HERE / "mada_side.py"), *paths, side, *common]]
    meeting = tempfile.mkdtemp(prefix="meeting-", dir=options.scratch)
    script = [sys.executable, str(HERE / "trl_side.py"), *paths]
    return [[*script, agent, "--meeting", meeting, *common] for agent in AGENTS]


def parse() -> argparse.Namespace:
    """What the user wants; a mistake ends in one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--sides", type=lambda text: text.split(","), help="default: all; with --tiny all but vllm")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=list(WORKLOADS))
    parser.add_argument("--steps", type=int, default=3, help="steps of mada that count")
    parser.add_argument("--trl-steps", type=int, default=2, help="steps of TRL that count")
    parser.add_argument("--budget", type=float, default=560, help="seconds for all sides together")
    parser.add_argument("--tiny", action="store_true", help="a toy model on a CPU, to try the script")
    parser.add_argument("--write-model", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.sides = options.sides or [side for side in NEEDED if side != "vllm" or not options.tiny]
    mistake = _mistake(options)
    if mistake:
        parser.exit(2, f"grpo_step: {mistake}\n")
    options.results, options.scratch = options.results.resolve(), options.scratch.resolve()
    return options


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with these options."""
    for kind, given, known in (("side", options.sides, NEEDED), ("workload", options.workloads, WORKLOADS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            return f"there is no {kind} {unknown[0]!r}; there are {', '.join(known)}"
    if options.steps < 1 or options.trl_steps < 1:
        return "at least one step must count"
    if not options.tiny and not has_gpu():
        return "there is no GPU here (no nvidia-smi); --tiny tries the script on a CPU"
    if options.tiny and "vllm" in options.sides:
        return "the side vllm needs a GPU; leave it out of --sides with --tiny"
    for side in options.sides:
        missing = [name for name in NEEDED[side] if not find_spec(name) and not (options.tiny and name == "vllm")]
        if missing:
            return f"the side {side} needs {', '.join(missing)}, not installed here"
    if options.results.is_dir():
        return f"{options.results} is a folder; RESULTS is a file of JSON lines"
    try:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{error.filename}: {error.strerror}; RESULTS and SCRATCH must be where files can be written"
    return None


def main() -> int:
    options = parse()
    model = model_folder(options.scratch, tiny=options.tiny)
    if options.write_model:
        write_model(model, tiny=options.tiny)
        return 0
    # The sides are in sessions of their own: whoever ends this process must not leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    since = time.time()
    went_wrong = False
    for side in [*([] if is_written(model) else ["model"]), *options.sides]:
        started = time.monotonic()
        commands = commands_of(side, options)
        logs = [options.results.parent / f"{options.results.stem}.{side}.{place}.log" for place in range(len(commands))]
        left = options.budget - (time.time() - since)
        problem = run_side(commands, logs, limit=min(left, LIMITS[side])) if left > 0 else "no time left"
        print(f"{side}: {problem or 'done'} ({time.monotonic() - started:.0f} s)", flush=True)
        went_wrong = went_wrong or problem is not None
        if problem and side == "model":
            return 1
    print_table(options.results, since)
    return 1 if went_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
