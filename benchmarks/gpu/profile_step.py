"""Where the time of one decoding step goes, kernel by kernel: python benchmarks/gpu/profile_step.py [ROWS …]"""

import sys
import time

import torch
from workload import AGENTS, CONTEXT, random_model

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines.local import LocalEngine
from mada.models.engines.local.cuda import GraphBatch

LENGTH = 384  # tokens that every row has: the middle of the workload's rows
REPLAYS = 50


def main() -> None:
    model = random_model()
    stack = AdapterStack.attach(model, AGENTS, Lora(rank=16, alpha=32, dropout=0))
    for rows in [int(each) for each in sys.argv[1:]] or [16, 48, 192, 512]:
        engine = LocalEngine(model, stack, context=CONTEXT, rows=rows, kv_memory=40 * 2**30)
        batch = engine._batch
        assert isinstance(batch, GraphBatch)
        with torch.inference_mode():
            batch.lengths_S.fill_(LENGTH)
            batch.agents_S.copy_(torch.arange(rows) % len(AGENTS))
            graph = batch._capture(rows, longest=CONTEXT, filtered=False)
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(REPLAYS):
                graph.replay()
            torch.cuda.synchronize()
            seconds = (time.perf_counter() - started) / REPLAYS
            print(f"{rows} rows: {1000 * seconds:.2f} ms a step, {rows / seconds:,.0f} tokens/s")
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                graph.replay()
                torch.cuda.synchronize()
        print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=16, max_name_column_width=60))
        del engine, batch, graph
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
