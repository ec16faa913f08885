"""vLLM on the workload; FOLDER takes the adapters and the shape.

python benchmarks/gpu/sample_vllm.py RESULTS FOLDER [ROWS …]
"""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

from workload import AGENTS, CONTEXT, Results, asks, write_shape


def write_adapters(folder: Path) -> dict[str, Path]:
    """Random adapters in PEFT's format, on the CPU."""
    import json

    import torch
    from safetensors.torch import save_file
    from workload import SHAPE

    sizes = {
        "self_attn.q_proj": (1536, 1536), "self_attn.k_proj": (1536, 256), "self_attn.v_proj": (1536, 256),
        "self_attn.o_proj": (1536, 1536), "mlp.gate_proj": (1536, 8960), "mlp.up_proj": (1536, 8960),
        "mlp.down_proj": (8960, 1536),
    }  # fmt: skip
    paths = {}
    for agent in AGENTS:
        target = paths[agent] = folder / agent
        target.mkdir(parents=True, exist_ok=True)
        tensors = {}
        for layer in range(SHAPE["num_hidden_layers"]):
            for name, (into, out) in sizes.items():
                key = f"base_model.model.model.layers.{layer}.{name}"
                tensors[f"{key}.lora_A.weight"] = torch.randn(16, into, dtype=torch.bfloat16) * 0.01
                tensors[f"{key}.lora_B.weight"] = torch.randn(out, 16, dtype=torch.bfloat16) * 0.01
        save_file(tensors, target / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "bias": "none",
                  "target_modules": [name.split(".")[1] for name in sizes], "task_type": "CAUSAL_LM"}  # fmt: skip
        (target / "adapter_config.json").write_text(json.dumps(config))
    return paths


def main() -> None:
    from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]
    from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

    results = Results(Path(sys.argv[1]), "vllm")
    folder = Path(sys.argv[2])
    sizes = [int(each) for each in sys.argv[3:]] or [16, 48, 192, 512]
    adapters = write_adapters(folder / "adapters")
    started = time.perf_counter()
    llm = LLM(
        str(write_shape(folder / "shape")), load_format="dummy", dtype="bfloat16", skip_tokenizer_init=True,
        enable_lora=True, max_loras=4, max_lora_rank=16, max_num_seqs=max(sizes), max_model_len=CONTEXT,
        gpu_memory_utilization=0.6, generation_config="vllm",
        compilation_config={"cudagraph_capture_sizes": [1, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]},
    )  # fmt: skip
    print("vllm started in", round(time.perf_counter() - started), "s", flush=True)
    lora = {agent: LoRARequest(agent, number + 1, str(adapters[agent])) for number, agent in enumerate(AGENTS)}
    engine = llm.llm_engine

    def run(wanted, rows: int) -> tuple[int, float]:
        """Keep at most `rows` completions under way; return tokens and seconds."""
        waiting, alive, tokens = list(enumerate(wanted)), 0, 0
        started = time.perf_counter()
        while waiting or alive:
            while waiting and alive < rows:
                number, ask = waiting.pop(0)
                parameters = SamplingParams(
                    max_tokens=ask.max_tokens, temperature=1.0, seed=None, ignore_eos=True, logprobs=0, detokenize=False
                )
                prompt = {"prompt_token_ids": ask.prompt_ids}
                engine.add_request(f"{started}-{number}", prompt, parameters, lora_request=lora[ask.agent])
                alive += 1
            for output in engine.step():
                if output.finished:
                    alive -= 1
                    tokens += len(output.outputs[0].token_ids)
        return tokens, time.perf_counter() - started

    for rows in sizes:
        for pattern in ("fixed", "ragged"):
            wanted = asks(rows, ragged=pattern == "ragged")
            run(wanted[: max(rows, 24)] if pattern == "fixed" else wanted[:rows], rows)  # loads adapters, warms up
            tokens, seconds = run(wanted, rows)
            results.add(rows=rows, pattern=pattern, tokens=tokens, seconds=seconds)


if __name__ == "__main__":
    main()
