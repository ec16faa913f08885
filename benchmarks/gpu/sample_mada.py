"""LocalEngine on the workload: python benchmarks/gpu/sample_mada.py RESULTS [ROWS …]"""

import asyncio
import sys
import time
from pathlib import Path

import torch
from workload import AGENTS, CONTEXT, GROUP, Results, asks, random_model

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine


async def sample_all(engine: LocalEngine, wanted) -> int:
    async def one(ask) -> int:
        sampling = Sampling(max_tokens=ask.max_tokens, temperature=1.0, seed=ask.seed)
        return len((await engine.sample(ask.agent, ask.prompt_ids, sampling))[0].token_ids)

    async def group(members) -> int:
        first = members[0]
        sampling = Sampling(max_tokens=first.max_tokens, temperature=1.0, seed=first.seed)
        return sum(
            len(c.token_ids) for c in await engine.sample(first.agent, first.prompt_ids, sampling, n=len(members))
        )

    groups = [wanted[start : start + GROUP] for start in range(0, len(wanted), GROUP)]
    same = all(len({ask.max_tokens for ask in members}) == 1 for members in groups)
    jobs = [group(members) for members in groups] if same else [one(ask) for ask in wanted]
    return sum(await asyncio.gather(*jobs))


def main() -> None:
    results = Results(Path(sys.argv[1]), "mada")
    model = random_model()
    stack = AdapterStack.attach(model, AGENTS, Lora(rank=16, alpha=32, dropout=0))
    with torch.no_grad():
        for parameter in stack.parameters().values():
            parameter.normal_(std=0.01)
    for rows in [int(each) for each in sys.argv[2:]] or [16, 48, 192, 512]:
        engine = LocalEngine(model, stack, context=CONTEXT, rows=rows, kv_memory=40 * 2**30)
        for pattern in ("fixed", "ragged"):
            wanted = asks(rows, ragged=pattern == "ragged")
            if pattern == "fixed":
                started = time.perf_counter()
                asyncio.run(sample_all(engine, wanted))  # captures the graphs
                print("first pass", round(time.perf_counter() - started, 1), "s", flush=True)
            else:
                asyncio.run(sample_all(engine, wanted[: rows + rows // 2]))
            for _ in range(2):
                before = engine.statistics.steps, engine.statistics.rows_stepped
                torch.cuda.synchronize()
                started = time.perf_counter()
                tokens = asyncio.run(sample_all(engine, wanted))
                seconds = time.perf_counter() - started
                steps = engine.statistics.steps - before[0]
                results.add(rows=rows, pattern=pattern, tokens=tokens, seconds=seconds, steps=steps,
                            milliseconds_per_step=round(1000 * seconds / steps, 2),
                            network=type(engine._batch.network).__name__)  # fmt: skip
        del engine
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
