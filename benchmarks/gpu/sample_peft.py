"""transformers' generate with PEFT's mixed adapters on the workload.

    python benchmarks/gpu/sample_peft.py RESULTS [ROWS …]

Only 48 tokens per completion are made: its speed does not depend on how many, and 512 would take minutes.
"""

import sys
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from workload import AGENTS, Results, asks, random_model

TOKENS = 48


def main() -> None:
    results = Results(Path(sys.argv[1]), "transformers+peft")
    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(random_model(), config, adapter_name=AGENTS[0])
    for agent in AGENTS[1:]:
        model.add_adapter(agent, config)
    model.eval()
    for rows in [int(each) for each in sys.argv[2:]] or [16, 48, 192, 512]:
        wanted = asks(rows, ragged=False)
        ids = torch.tensor([ask.prompt_ids for ask in wanted], device="cuda")
        given = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "adapter_names": [ask.agent for ask in wanted],
        }
        settings = {
            "do_sample": True,
            "top_k": 0,
            "top_p": 1.0,
            "temperature": 1.0,
            "eos_token_id": -1,
            "pad_token_id": 0,
        }
        with torch.inference_mode():
            model.generate(**given, **settings, max_new_tokens=4)
            torch.cuda.synchronize()
            started = time.perf_counter()
            made = model.generate(**given, **settings, max_new_tokens=TOKENS)
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        results.add(rows=rows, pattern="fixed", tokens=made[:, ids.shape[1] :].numel(), seconds=seconds)


if __name__ == "__main__":
    main()
