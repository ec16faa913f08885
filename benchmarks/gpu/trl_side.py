"""TRL's side of the GRPO step: one agent, one of several processes that share a GPU; started by grpo_step.py.

    python benchmarks/gpu/trl_side.py RESULTS.jsonl SCRATCH/ AGENT --meeting FOLDER --workloads paper,run --steps 2
        [--tiny]

First all agents train at once. A step then lasts from the moment when the last of them has ended one step until the
last has ended the next. After that the first agent goes on alone, when the other processes are gone, in the same
process and with the same vLLM; three one after another take three times as long as it does. Every measurement is a
fresh GRPOTrainer with a fresh adapter (trl_trainer.py).
"""

import argparse
import gc
import json
import os
import socket
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from grpo_results import GIB, DeviceMemory, add_line
from grpo_task import chosen
from trl_trainer import KINDS, WARM_UP, Trl, one_vllm
from workload import AGENTS

DISTRIBUTED = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


class Meeting:
    """Where the processes wait for each other, and leave what they measured: files in a folder."""

    def __init__(self, folder: Path, agent: str, agents: Sequence[str]) -> None:
        self.folder, self.agent, self.agents = folder, agent, agents

    def leave(self, stage: str, value: object) -> list[Any]:
        """Leave a value and wait for everybody's, in the agents' order."""
        whole = self._file(stage, self.agent)
        part = whole.with_suffix(".part")
        part.write_text(json.dumps(value), encoding="utf-8")
        part.rename(whole)  # nobody sees half a file
        while not all(self._file(stage, agent).exists() for agent in self.agents):
            time.sleep(0.01)
        return [json.loads(self._file(stage, agent).read_text(encoding="utf-8")) for agent in self.agents]

    def _file(self, stage: str, agent: str) -> Path:
        return self.folder / f"{stage}-{agent}.json"


def measure(options: argparse.Namespace) -> None:
    """All workloads at the same time as the other agents, then, in one process, alone."""
    from trl.generation import vllm_generation

    began = time.perf_counter()
    everybody = Meeting(options.meeting, options.agent, AGENTS)
    alone = Meeting(options.meeting, options.agent, [options.agent])
    processes = everybody.leave("process", os.getpid())
    is_first = options.agent == AGENTS[0]
    wanted = chosen(options.workloads, tiny=options.tiny)
    if not options.tiny:
        one_vllm(vllm_generation, rows=max(workload.completions for workload in wanted))
    output, steps = options.meeting / "output", WARM_UP + options.steps
    plan = [
        Trl(kind, workload, scratch=options.scratch, output=output, steps=steps, tiny=options.tiny)
        for kind in KINDS
        if kind.at_once or is_first
        for workload in wanted
    ]
    startup = 0.0
    for number, trl in enumerate(plan):
        if not trl.kind.at_once:
            wait_for_ends([process for process in processes if process != os.getpid()])
        meeting = everybody if trl.kind.at_once else alone
        with DeviceMemory() as memory:
            trl.train(options.agent, lambda meeting=meeting, number=number: meeting.leave(f"ready-{number}", None))
        startup = startup or trl.ends[0] - began
        found = meeting.leave(f"done-{number}", {"ends": trl.ends, "parts": trl.seconds_by_part()})
        if is_first:
            add_result(options.results, trl, found, startup=startup, device_peak_gib=memory.peak)
        clean_up()


def add_result(results: Path, trl: Trl, found: list[dict[str, Any]], **more: object) -> None:
    """Write down what the processes of one measurement found."""
    import torch

    last = [max(ends) for ends in zip(*(one["ends"] for one in found), strict=True)][WARM_UP - 1 :]
    times = 1 if trl.kind.at_once else len(AGENTS)
    parts = {part: times * statistics.mean(one["parts"][part] for one in found) for part in found[0]["parts"]}
    add_line(
        results, side=trl.kind.name, workload=trl.workload.name,
        seconds=[times * (end - before) for before, end in pairwise(last)], parts=parts, batch=trl.batch,
        torch_peak_gib=torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else 0.0, **more,
    )  # fmt: skip


def wait_for_ends(others: Sequence[int]) -> None:
    """Wait until the other processes are gone, so that their memory and their share of the GPU are free."""
    while any(is_running(process) for process in others):
        time.sleep(0.1)
    time.sleep(1)


def is_running(process: int) -> bool:
    """Whether a process is there and more than an entry that its parent has not read yet."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def clean_up() -> None:
    """Free the last trainer; vLLM has declared all that was there when it started to be permanent."""
    import torch

    for name in DISTRIBUTED:
        os.environ.pop(name, None)
    gc.unfreeze()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("--meeting", type=Path, required=True)
    parser.add_argument("--workloads", type=lambda text: text.split(","), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    # vLLMs that compile the same at the same time must not write into the same files.
    os.environ["VLLM_CACHE_ROOT"] = str(options.scratch / "vllm-cache" / options.agent)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # TRL would look for a free port too, beginning with the same one in all processes at the same time.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(probe.getsockname()[1]))
    for name in DISTRIBUTED:
        os.environ.pop(name, None)
    warnings.simplefilter("ignore")
    measure(options)
    sys.stdout.flush()
    os._exit(0)  # nothing is left to be saved, and taking down vLLM would keep the GPU from whoever is next


if __name__ == "__main__":
    main()
