"""How fast the engine reads prompts on a GPU: norms and activations in one kernel each, against plain operations.

    python benchmarks/gpu/read_prompts.py [--agents 3,6,9] [--profile]

A random Qwen2-1.5B shape in bfloat16 with adapters of rank 16 on all linear layers reads 12 prompts of 1,300 tokens,
about what critics are shown, into the engine's cache. The ways take turns, 10 rounds of each; what is printed are
medians, and the share of the chip's bf16 peak that the products with the base's weights alone come to. `--profile`
adds the kernels of one pass.
"""

import argparse
import statistics
import time

import torch
from grpo_results import has_gpu
from mada_side import PEAK
from workload import VOCABULARY, random_model

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines.local import LocalEngine
from mada.models.engines.local.llama import LlamaNetwork
from mada.models.engines.local.network import PromptBatch
from mada.models.forward import no_cudnn_attention

PROMPTS, LENGTH = 12, 1300
ROUNDS, WARM_UPS = 10, 2


def seconds_of(engine: LocalEngine, prompts: PromptBatch) -> float:
    """Read the prompts once, from launching to the last kernel's end."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    with torch.inference_mode(), no_cudnn_attention(engine._batch.device):
        engine._batch.network.prefill(prompts, engine._batch.cache)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(agents: int, *, profile: bool) -> None:
    """Print both ways with so many agents."""
    from mada.models.engines.local.cuda import CudaLlamaNetwork  # needs Triton, which comes with CUDA

    # What does the second half of a block.
    ways = {"plain": LlamaNetwork._output_and_mlp, "fused": CudaLlamaNetwork._output_and_mlp}
    model = random_model()
    weights = sum(each.numel() for name, each in model.named_parameters() if "embed" not in name)
    stack = AdapterStack.attach(model, [str(number) for number in range(agents)], Lora(rank=16, alpha=32))
    engine = LocalEngine(model, stack, context=LENGTH + 1, rows=PROMPTS, kv_memory=8 * 2**30)
    places = torch.arange(PROMPTS, device="cuda")
    prompts = PromptBatch(
        ids_PT=torch.randint(0, VOCABULARY, (PROMPTS, LENGTH), device="cuda"),
        lengths_P=torch.full((PROMPTS,), LENGTH, device="cuda"),
        gate_PK=engine._batch.gate(places % agents),
        slots_N=places,
        prompts_N=places,
    )
    found: dict[str, list[float]] = {way: [] for way in ways}
    for round_ in range(WARM_UPS + ROUNDS):
        for way, rest in ways.items():
            CudaLlamaNetwork._output_and_mlp = rest
            seconds = seconds_of(engine, prompts)
            if round_ >= WARM_UPS:
                found[way].append(seconds)
    tokens = PROMPTS * LENGTH
    medians = {way: statistics.median(each) for way, each in found.items()}
    for way, seconds in medians.items():
        share, ratio = 2 * weights * tokens / seconds / PEAK, medians["plain"] / seconds
        print(
            f"{agents} agents, {way}: {1000 * seconds:.1f} ms, {tokens / seconds:,.0f} tokens/s, {share:.0%} of peak, "
            f"ratio {ratio:.2f}",
            flush=True,
        )
    if profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as kernels:
            seconds_of(engine, prompts)
        print(kernels.key_averages().table(sort_by="cuda_time_total", row_limit=20, max_name_column_width=60))


def counts(text: str) -> list[int]:
    """Read numbers with commas between."""
    return [int(count) for count in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=counts, default=[3, 6, 9])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if not has_gpu():
        parser.exit(2, "read_prompts: there is no GPU here (no nvidia-smi)\n")
    for agents in options.agents:
        measure(agents, profile=options.profile)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
