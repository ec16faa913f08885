"""One GRPO step of three agents, rollout and update apart, with the canary: python benchmarks/gpu/team_step.py"""

import asyncio
import random
import sys
import time

import torch
from workload import AGENTS, CONTEXT, PROMPT, VOCABULARY, random_model

from mada.learning.learner import CreditedCompletion, Learner
from mada.learning.settings import TrainingSettings
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine


async def rollout(engine: LocalEngine, source: random.Random, step: int) -> list[CreditedCompletion]:
    """Two prompts for each agent, eight completions of 512 tokens each, random advantages."""
    asked = [(agent, [source.randrange(VOCABULARY) for _ in range(PROMPT)]) for agent in AGENTS for _ in range(2)]
    groups = await asyncio.gather(
        *(
            engine.sample(agent, prompt, Sampling(max_tokens=512, seed=step * 10 + place), n=8)
            for place, (agent, prompt) in enumerate(asked)
        )
    )
    return [
        CreditedCompletion(agent, tuple(prompt), one.token_ids, one.log_probs, source.gauss(0, 1))
        for (agent, prompt), group in zip(asked, groups, strict=True)
        for one in group
    ]


def main() -> None:
    model = random_model()
    stack = AdapterStack.attach(model, AGENTS, Lora(dropout=0.05))
    engine = LocalEngine(model, stack, context=CONTEXT, rows=48, kv_memory=8 * 2**30)
    settings = TrainingSettings(temperature=1.0, learning_rate=1e-3, warmup_ratio=0.0)
    learner = Learner(stack, settings, total_steps=100)
    source = random.Random(0)
    for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 6):
        started = time.perf_counter()
        completions = asyncio.run(rollout(engine, source, step))
        sampled = time.perf_counter()
        report = learner.update(completions, step=step)
        torch.cuda.synchronize()
        canaries = [agent.canary.mean for agent in report.agents.values() if agent.canary]
        print(
            f"step {step}: rollout {sampled - started:.2f} s, update {time.perf_counter() - sampled:.2f} s "
            f"({', '.join(f'{name} {seconds:.2f}' for name, seconds in report.seconds.items())}), "
            f"canary {max(canaries):.4f} nats per token"
        )


if __name__ == "__main__":
    main()
