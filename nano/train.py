"""Make the embedded model: teach a Qwen2 model of two million parameters the built-in task, slips included.

    python nano/train.py FOLDER [--steps N] [--seed S]

Takes three minutes on one H200; on a CPU it runs, and is too slow to be of use for more than a trial of a few steps. It
writes tokenizer, weights and configuration to FOLDER, and at the end prints how often the model is right. What it
learns is in `training_examples.py`.
"""

import argparse
import asyncio
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from mada.debate.prompts import Prompts
from mada.grading.extraction import extract_answer
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.problems import Problem
from mada.problems.abacus import abacus_problems
from mada.seeds import rng, seed_for
from training_examples import Example, debate_example, direct_example
from vocabulary import ASSISTANT, END, PAD, USER, make_tokenizer, save_tokenizer

WINDOW = 1024
IGNORED = -100
BENCHMARKS = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")
SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Training:
    """How the model is taught."""

    steps: int
    peak: float
    """The highest learning rate."""
    direct_batch: int
    debate_batch: int
    seed: int
    workers: int
    """Processes that write examples, for each kind; 0 writes them in this one."""


class ExampleBatches(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Endless batches of one kind of example: token ids, and the same with everything but the reply ignored."""

    def __init__(self, make: Callable[..., Example], tokenizer: Tokenizer, *, batch: int, seed: int) -> None:
        self._make, self._tokenizer, self._batch, self._seed = make, tokenizer, batch, seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        worker = get_worker_info()
        # "lesson", as when the committed model was made: the name decides the random numbers.
        name = self._make.__name__.replace("example", "lesson")
        random = rng(self._seed, name, worker.id if worker else 0)
        while True:
            yield self._batch_of([self._make(random) for _ in range(self._batch)])

    def _batch_of(self, drawn: list[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        asked = self._tokenizer.encode_batch([f"{USER}{example.prompt}{END}{ASSISTANT}" for example in drawn])
        replied = self._tokenizer.encode_batch([f"{example.reply}{END}" for example in drawn])
        pairs = list(zip(asked, replied, strict=True))
        width = -(-max(len(prompt.ids) + len(reply.ids) for prompt, reply in pairs) // 32) * 32
        ids = torch.full((len(pairs), width), token_id(self._tokenizer, PAD))
        labels = torch.full((len(pairs), width), IGNORED)
        for row, (prompt, reply) in enumerate(pairs):
            end = len(prompt.ids) + len(reply.ids)
            ids[row, :end] = torch.tensor(prompt.ids + reply.ids)
            labels[row, len(prompt.ids) : end] = torch.tensor(reply.ids)
        return ids, labels


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the number of a token that the vocabulary is sure to have."""
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return number


def make_model(tokenizer: Tokenizer) -> Qwen2ForCausalLM:
    """Return the model before its first example."""
    config = Qwen2Config(
        vocab_size=-(-tokenizer.get_vocab_size() // 16) * 16,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=token_id(tokenizer, END),
        pad_token_id=token_id(tokenizer, PAD),
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id, do_sample=True
    )
    return model


def learning_rate(step: int, *, steps: int, peak: float) -> float:
    """Warm up for a twentieth of the steps, then fall to a fiftieth along a cosine."""
    warm_up = max(1, steps // 20)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))))


def batches(
    make: Callable[..., Example], tokenizer: Tokenizer, *, batch: int, training: Training
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches of a kind of example, written ahead by other processes if there are any."""
    examples = ExampleBatches(make, tokenizer, batch=batch, seed=training.seed)
    ahead = 8 if training.workers else None
    return iter(DataLoader(examples, batch_size=None, num_workers=training.workers, prefetch_factor=ahead))


def teach(model: Qwen2ForCausalLM, tokenizer: Tokenizer, training: Training) -> None:
    """Imitate examples of both kinds, half and half."""
    device, steps = model.device, training.steps
    loaders = [
        batches(direct_example, tokenizer, batch=training.direct_batch, training=training),
        batches(debate_example, tokenizer, batch=training.debate_batch, training=training),
    ]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.peak, betas=(0.9, 0.98), weight_decay=0.01, fused=device.type == "cuda"
    )
    started = time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps=steps, peak=training.peak)
        losses: list[torch.Tensor] = []
        for loader in loaders:
            ids, labels = (part.to(device, non_blocking=True) for part in next(loader))
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = model(input_ids=ids, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=IGNORED
            )
            loss.backward()
            losses.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 99:
            direct, debate = (float(loss) for loss in losses)
            left = (time.monotonic() - started) / (step + 1) * (steps - step - 1)
            done = f"step {step + 1:,} of {steps:,}"
            print(f"{done}: loss {direct:.3f} direct, {debate:.3f} debate; {left:.0f} s left", flush=True)


async def accuracy(
    model: Any, tokenizer: Tokenizer, benchmark: str, *, problems: int, temperature: float = 1.0
) -> float:
    """Return how often a reply to a benchmark's questions is right; the likeliest (temperature 0) is asked for once.

    Every problem has a seed of its own: with a common one, the first samples of all problems would be drawn with the
    same random numbers, and the mean over them would be worth little more than a few samples.
    """
    engine = LocalEngine(model, context=512)
    stop_tokens = (token_id(tokenizer, END),)
    samples = SAMPLES if temperature else 1

    async def right(problem: Problem) -> float:
        ids = tokenizer.encode(f"{USER}{Prompts().ask(problem.question)}{END}{ASSISTANT}").ids
        sampling = Sampling(128, temperature, stop_tokens=stop_tokens, seed=seed_for(0, problem.id))
        replies = await engine.sample(None, ids, sampling, n=samples)
        answers = [extract_answer(tokenizer.decode(list(reply.token_ids))) for reply in replies]
        return answers.count(problem.answer) / samples

    asked = list(abacus_problems(benchmark, limit=problems))
    return sum(await asyncio.gather(*(right(problem) for problem in asked))) / len(asked)


def main() -> None:
    """Read the command line and make the model."""
    parser = argparse.ArgumentParser(description="Train the embedded model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--peak", type=float, default=1.5e-3, help="highest learning rate")
    parser.add_argument("--direct-batch", type=int, default=256, help="examples of a question alone in a step")
    parser.add_argument("--debate-batch", type=int, default=192, help="examples of a debate in a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes that write examples, for each kind")
    parser.add_argument("--problems", type=int, default=200, help="problems of each benchmark to ask at the end")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    random = rng(arguments.seed, "vocabulary")
    examples = [direct_example(random) for _ in range(4000)]
    texts = [part for example in examples for part in (example.prompt, example.reply)]
    tokenizer = make_tokenizer(texts)
    save_tokenizer(tokenizer, arguments.folder, window=WINDOW)
    torch.manual_seed(arguments.seed)
    model: Any = make_model(tokenizer).to("cuda" if torch.cuda.is_available() else "cpu")  # pyright: ignore[reportArgumentType]
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters, {tokenizer.get_vocab_size()} tokens")
    training = Training(
        steps=arguments.steps,
        peak=arguments.peak,
        direct_batch=arguments.direct_batch,
        debate_batch=arguments.debate_batch,
        seed=arguments.seed,
        workers=arguments.workers,
    )
    teach(model, tokenizer, training)
    model.to(torch.bfloat16).save_pretrained(arguments.folder)
    if model.device.type == "cpu":
        model.float()  # the saved numbers, in the format that a CPU is quick with
    model.eval()
    for benchmark in BENCHMARKS:
        sampled, likeliest = (
            asyncio.run(accuracy(model, tokenizer, benchmark, problems=arguments.problems, temperature=temperature))
            for temperature in (1.0, 0.0)
        )
        print(f"{benchmark}: right {sampled:.1%} sampled, {likeliest:.1%} likeliest", flush=True)


if __name__ == "__main__":
    main()
