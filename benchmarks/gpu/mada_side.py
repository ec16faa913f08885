"""mada's side of the GRPO step, with either engine, in a process of its own; started by grpo_step.py.

    python benchmarks/gpu/mada_side.py RESULTS.jsonl SCRATCH/ local|vllm --workloads paper,run --steps 3 [--tiny]

`local` samples inside the process that learns. `vllm` starts a `VllmEngine`, which sleeps during the update and is
given the new adapters after it, as the trainer does it; vLLM has 60 % of the memory.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_results import GIB, DeviceMemory, add_line
from grpo_task import (
    ALPHA,
    CLIP_RANGE,
    DROPOUT,
    KL_COEFFICIENT,
    LEARNING_RATE,
    MAX_GRADIENT_NORM,
    RANK,
    Workload,
    chosen,
    learning_flops,
    model_folder,
    reward_of,
)
from workload import AGENTS, CONTEXT

if TYPE_CHECKING:
    from mada.learning.passes import UpdateReport
    from mada.models.engines import Completion, Engine

PEAK = 989e12  # dense bf16 of an H200, by the vendor's datasheet
WARM_UP = {"local": 2, "vllm": 1}  # Triton compiles in the first step of `local`, and the second is captured
VLLM_MEMORY = 0.6
KV_MEMORY = 24 * GIB


class MadaSide:
    """Three agents in one stack, sampled in one batch and moved in one update."""

    def __init__(self, folder: Path, wanted: Sequence[Workload]) -> None:
        import torch
        from transformers import Qwen2ForCausalLM

        from mada.learning.learner import Learner
        from mada.models.adapters import AdapterStack, Lora
        from mada.recipe.schema import TrainingSettings

        self.folder = folder
        self.on_gpu = torch.cuda.is_available()
        loaded: Any = Qwen2ForCausalLM.from_pretrained(folder, dtype="auto")
        self.model: Any = loaded.to("cuda" if self.on_gpu else "cpu").eval()
        self.vocabulary: int = self.model.config.vocab_size
        self.stack = AdapterStack.attach(self.model, AGENTS, Lora(rank=RANK, alpha=ALPHA, dropout=DROPOUT))
        self.rows = len(AGENTS) * max(workload.completions for workload in wanted)
        self.context = max(CONTEXT if self.on_gpu else 0, *(each.prompt + each.length for each in wanted))
        settings = TrainingSettings(
            learning_rate=LEARNING_RATE, schedule="constant", warmup_ratio=0.0, kl_coefficient=KL_COEFFICIENT,
            clip_range=CLIP_RANGE, max_gradient_norm=MAX_GRADIENT_NORM, temperature=1.0,
            max_new_tokens=max(workload.length for workload in wanted),
            canary_tolerance=10.0,  # it is reported here, and must not end the measurement
        )  # fmt: skip
        self.learner = Learner(self.stack, settings, total_steps=10**6)
        self.taken = 0

    async def engine(self, side: str) -> "Engine":
        """Start the engine of a side."""
        if side == "vllm":
            from mada.models.engines.vllm import VllmEngine

            return await VllmEngine.start(
                self.folder, stack=self.stack, context=self.context, rows=self.rows, memory=VLLM_MEMORY
            )
        from mada.models.engines.local import LocalEngine

        budget = KV_MEMORY if self.on_gpu else None
        return LocalEngine(self.model, self.stack, context=self.context, rows=self.rows, kv_memory=budget)

    async def step(
        self, engine: "Engine", workload: Workload, prompts: dict[str, list[list[int]]], place: int
    ) -> tuple[dict[str, float], "UpdateReport"]:
        """Take one step as `Trainer` does; return its seconds by part, and what the update reported."""
        from mada.learning.advantages import Credit, credit_groups
        from mada.learning.rollouts import GroupRequest, Reward, TrainingPrompt, sample_groups
        from mada.models.engines import Sampling
        from mada.seeds import seed_for

        async def score(prompt: TrainingPrompt, completions: "Sequence[Completion]") -> list[Reward]:
            return [Reward(reward_of(completion.token_ids, self.vocabulary)) for completion in completions]

        started = time.perf_counter()
        own = slice(place * workload.prompts, (place + 1) * workload.prompts)
        requests = [
            GroupRequest(agent, TrainingPrompt(f"{number}", tuple(ids)), seed_for(0, agent, self.taken, number))
            for agent in AGENTS
            for number, ids in enumerate(prompts[agent][own])
        ]
        sampling = Sampling(workload.length, temperature=1.0)
        groups = await sample_groups(engine, requests, score, sampling=sampling, size=workload.group)
        sampled = time.perf_counter()
        credited = credit_groups(groups, Credit(), truncated="learn")
        completions = [completion for group in credited for completion in group.for_learner()]
        resting = time.perf_counter()
        await engine.sleep()
        rested = time.perf_counter()
        report = self.learner.update(completions, step=self.taken)
        updated = time.perf_counter()
        await engine.wake_up()
        ended = time.perf_counter()
        self.taken += 1
        for agent in report.agents.values():
            assert agent.tokens_learnt == workload.completions * workload.length, agent
        parts = {"rollout": sampled - started, "going to rest": rested - resting, **report.seconds,
                 "resuming": ended - updated}  # fmt: skip
        return {**parts, "other": ended - started - sum(parts.values())}, report


async def measure(options: argparse.Namespace) -> None:
    """Measure all workloads with one engine."""
    import torch

    began = time.perf_counter()
    wanted = chosen(options.workloads, tiny=options.tiny)
    ours = MadaSide(model_folder(options.scratch, tiny=options.tiny), wanted)
    engine = await ours.engine(options.side)
    startup = time.perf_counter() - began
    warm_up = WARM_UP[options.side]
    for workload in wanted:
        prompts = {agent: workload.prompt_ids(agent, ours.vocabulary, warm_up + options.steps) for agent in AGENTS}
        taken: list[tuple[dict[str, float], UpdateReport]] = []
        with DeviceMemory() as memory:
            for place in range(warm_up + options.steps):
                if place == warm_up and ours.on_gpu:
                    torch.cuda.reset_peak_memory_stats()
                taken.append(await ours.step(engine, workload, prompts, place))
                print(workload.name, "step", place, {name: round(each, 3) for name, each in taken[-1][0].items()},
                      flush=True)  # fmt: skip
        counted = taken[warm_up:]
        parts = {name: statistics.median(step[name] for step, _ in counted) for name in counted[0][0]}
        canaries = [agent.canary.mean for _, report in counted for agent in report.agents.values() if agent.canary]
        last = counted[-1][1]
        sampled = len(AGENTS) * workload.completions * workload.length
        flops = learning_flops(workload, len(AGENTS))
        add_line(
            options.results, side=options.side, workload=workload.name,
            seconds=[sum(step.values()) for step, _ in counted],
            parts=parts, canary=statistics.mean(canaries) if canaries else None, startup=startup,
            rollout_tokens_per_second=round(sampled / parts["rollout"]),
            learning_tokens_per_second=round(sampled / parts["learning"]),
            learning_share_of_peak=flops / parts["learning"] / PEAK if ours.on_gpu else None,
            micro_batches=last.micro_batches, out_of_memory=last.out_of_memory,
            micro_batch_tokens=ours.learner.micro_batch_tokens,
            torch_peak_gib=torch.cuda.max_memory_allocated() / GIB if ours.on_gpu else 0.0,
            device_peak_gib=memory.peak,
        )  # fmt: skip
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("side", choices=sorted(WARM_UP))
    parser.add_argument("--workloads", type=lambda text: text.split(","), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--tiny", action="store_true")
    asyncio.run(measure(parser.parse_args()))
    sys.stdout.flush()
    os._exit(0)  # all is written and closed; a thread of some library must not keep the GPU waiting


if __name__ == "__main__":
    main()
