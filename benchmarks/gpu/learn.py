"""One learning pass over 48 completions of 1,024 tokens: mada's learner beside a plain PEFT loop.

    python benchmarks/gpu/learn.py RESULTS

The loop is what people write: one adapter, gradient checkpointing, logits of the whole sequence, a float32 log-softmax.
It is also run without checkpointing, in the largest micro-batches that fit. Neither side computes a reference here; the
last line shows mada's whole update with one.
"""

import random
import sys
import time
from pathlib import Path

import torch
from workload import AGENTS, SHAPE, VOCABULARY, Results, random_model

from mada.learning.batches import CreditedCompletion
from mada.learning.learner import Learner
from mada.models.adapters import AdapterStack, Lora
from mada.recipe.schema import TrainingSettings

ROWS, PROMPT, LENGTH = 48, 128, 1024
PEAK = 989e12  # dense bf16, by the vendor's datasheet


def completions() -> list[CreditedCompletion]:
    source = random.Random(0)
    made = []
    for row in range(ROWS):
        ids = [source.randrange(VOCABULARY) for _ in range(LENGTH)]
        made.append(
            CreditedCompletion(AGENTS[row // 16], tuple(ids[:PROMPT]), tuple(ids[PROMPT:]), None, source.uniform(-1, 1))
        )
    return made


def peft_loop(model, rows_per_pass: int) -> None:
    data = completions()
    for start in range(0, ROWS, rows_per_pass):
        part = data[start : start + rows_per_pass]
        ids = torch.tensor([[*each.prompt_ids, *each.completion_ids] for each in part], device="cuda")
        advantages = torch.tensor([each.advantage for each in part], device="cuda")
        logits = model(input_ids=ids, use_cache=False).logits[:, PROMPT - 1 : -1]
        log_probs = logits.float().log_softmax(dim=-1).gather(2, ids[:, PROMPT:, None])[..., 0]
        ratio = torch.exp(log_probs - log_probs.detach())
        (-(ratio * advantages[:, None]).mean() * len(part) / ROWS).backward()
    model.zero_grad()


def timed(work, times: int = 2) -> float:
    work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / times


def flops(recomputed: bool) -> float:
    """Multiply-adds counted twice: weights forward and backward (inputs only: they are frozen), and attention."""
    hidden, layers, inner = SHAPE["hidden_size"], SHAPE["num_hidden_layers"], SHAPE["intermediate_size"]
    weights = layers * (hidden * (2 * hidden + 512) + 3 * hidden * inner)
    head = hidden * VOCABULARY * (LENGTH - PROMPT) / LENGTH
    attention = layers * hidden * LENGTH  # causal: half of all pairs, two products
    per_token = 2 * (weights + head + attention) * (3 if recomputed else 2)
    return per_token * ROWS * LENGTH


def main() -> None:
    tokens = ROWS * LENGTH
    results = Results(Path(sys.argv[1]), "mada")
    model = random_model()
    stack = AdapterStack.attach(model, AGENTS, Lora(dropout=0.05))
    for name, settings in {
        "learn": TrainingSettings(kl_coefficient=0.0),
        "whole update with reference": TrainingSettings(),
        "learn, checkpointing": TrainingSettings(kl_coefficient=0.0, gradient_checkpointing=True),  # stays on: last
    }.items():
        learner = Learner(stack, settings.model_copy(update={"micro_batch_tokens": 16384}), total_steps=100)
        data = completions()
        seconds = timed(lambda learner=learner, data=data: learner.update(data, step=50))
        share = flops(settings.gradient_checkpointing) / seconds / PEAK
        more = {} if "whole" in name else {"share_of_peak": round(share, 3)}
        results.add(rows=ROWS, pattern=name, tokens=tokens, seconds=seconds,
                    gibibytes=round(torch.cuda.max_memory_allocated() / 2**30, 1), **more)  # fmt: skip
        del learner
    del model, stack
    torch.cuda.empty_cache()

    from peft import LoraConfig, get_peft_model

    results = Results(Path(sys.argv[1]), "transformers+peft")
    plain = random_model()
    plain = get_peft_model(plain, LoraConfig(r=16, lora_alpha=128, lora_dropout=0.05, target_modules="all-linear"))
    for rows in (8, 4):
        try:
            plain.train()
            seconds = timed(lambda rows=rows: peft_loop(plain, rows))
        except torch.OutOfMemoryError:
            plain.zero_grad()
            torch.cuda.empty_cache()
            continue
        results.add(rows=ROWS, pattern=f"learn, {rows} a pass", tokens=tokens, seconds=seconds,
                    gibibytes=round(torch.cuda.max_memory_allocated() / 2**30, 1))  # fmt: skip
        break
    plain.enable_input_require_grads()
    plain.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    seconds = timed(lambda: peft_loop(plain, 8))
    results.add(rows=ROWS, pattern="learn, checkpointing", tokens=tokens, seconds=seconds,
                gibibytes=round(torch.cuda.max_memory_allocated() / 2**30, 1))  # fmt: skip


if __name__ == "__main__":
    main()
