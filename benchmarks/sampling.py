"""Tokens sampled per second on a CPU: LocalEngine against transformers' generate with PEFT adapters.

    python benchmarks/sampling.py [--rows 48] [--repeats 3] [--threads 2]

A random model of 2 million parameters (the size of the embedded one). Two patterns, rounds interleaved:

- mixed: 48 completions of 64 tokens, three adapters in one batch, in groups of 8 with one prompt as in GRPO; the rival
  is PEFT's `adapter_names`, which is given every prompt 8 times.
- ragged: 192 completions of 8 to 256 tokens, one adapter, 48 rows at a time; the rival pads: a batch of 48 runs until
  its longest row is done. Only tokens that were wanted count, on both sides.
"""

import argparse
import asyncio
import random
import statistics
import time
import warnings

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine

AGENTS = ("one", "two", "three")
GROUP = 8
PROMPT = 64
VOCABULARY = 2048
SETTINGS = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0, "eos_token_id": -1, "pad_token_id": 0}


def small_model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=192, intermediate_size=512, num_hidden_layers=5, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


def peft_model(agents):
    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(small_model(), config, adapter_name=agents[0])
    for agent in agents[1:]:
        model.add_adapter(agent, config)
    return model.eval()


def engine(agents, rows: int) -> LocalEngine:
    model = small_model()
    return LocalEngine(
        model, AdapterStack.attach(model, agents, Lora(rank=16, alpha=32, dropout=0)), context=384, rows=rows
    )


def ours(made: LocalEngine, wanted, *, group: int) -> int:
    """Sample everything asked for, (agent, prompt, length) each; return the tokens."""

    async def all_of_it() -> int:
        jobs = [
            made.sample(agent, prompt, Sampling(max_tokens=length, seed=seed), n=group)
            for seed, (agent, prompt, length) in enumerate(wanted[::group])
        ]
        return sum(len(one.token_ids) for group in await asyncio.gather(*jobs) for one in group)

    return asyncio.run(all_of_it())


def theirs(model, wanted, rows: int, *, mixed: bool) -> int:
    for start in range(0, len(wanted), rows):
        part = wanted[start : start + rows]
        ids = torch.tensor([prompt for _, prompt, _ in part])
        names = {"adapter_names": [agent for agent, _, _ in part]} if mixed else {}
        with torch.inference_mode():
            longest = max(length for _, _, length in part)
            model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=longest, **names, **SETTINGS
            )
    return sum(length for _, _, length in wanted)


def rates(repeats: int, work) -> dict[str, float]:
    """Tokens per second of each, the median of interleaved rounds."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for one in work.values():
        one()
    for _ in range(repeats):
        for name, one in work.items():
            started = time.perf_counter()
            tokens = one()
            found[name].append(tokens / (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    source = random.Random(0)

    def prompt() -> list[int]:
        return [source.randrange(VOCABULARY) for _ in range(PROMPT)]

    groups = [(AGENTS[index % 3], prompt(), 64) for index in range(options.rows // GROUP)]
    mixed = [member for member in groups for _ in range(GROUP)]
    ragged = [("one", prompt(), source.randint(8, 256)) for _ in range(4 * options.rows)]
    three, alone = engine(AGENTS, options.rows), engine(("one",), options.rows)
    peft_three, peft_alone = peft_model(AGENTS), peft_model(("one",))
    table = {
        "three adapters mixed": rates(
            options.repeats,
            {
                "mada": lambda: ours(three, mixed, group=GROUP),
                "peft": lambda: theirs(peft_three, mixed, options.rows, mixed=True),
            },
        ),
        "ragged, 8 to 256 tokens": rates(
            options.repeats,
            {
                "mada": lambda: ours(alone, ragged, group=1),
                "peft": lambda: theirs(peft_alone, ragged, options.rows, mixed=False),
            },
        ),
    }
    print(f"{'tokens per second':<26}{'mada':>8}{'peft':>8}{'ratio':>8}")
    for name, row in table.items():
        print(f"{name:<26}{row['mada']:>8.0f}{row['peft']:>8.0f}{row['mada'] / row['peft']:>8.1f}")
    for name, row in table.items():
        print(f"ratio: {row['mada'] / row['peft']:.1f} (LocalEngine against transformers with PEFT, {name})")


if __name__ == "__main__":
    main()
