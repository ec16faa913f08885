"""Seconds for one GRPO step of three agents: mada, all together, against three TRL trainers one after another.

    python benchmarks/grpo_step.py [--rounds 5] [--steps 3] [--threads 2]

A step is the whole of it: sample 2 prompts × 8 completions for each agent, score them, take the base's
log-probabilities for the KL term, go forward and backward, move the adapters. Both sides have the same random model of
2 million parameters (the size of the embedded one), prompts of 64 tokens, completions of exactly 64 tokens drawn at
temperature 1 from all tokens, a reward that is a function of the token ids, LoRA (rank 16, alpha 128, all linear
layers, dropout 0.05), β = 0.04, one update per rollout, AdamW, gradients clipped at norm 1, float32, no gradient
checkpointing.

TRL has what makes it fastest here: a step's 16 completions in one batch to sample and one to learn from
(per_device_train_batch_size=16, gradient_accumulation_steps=1, steps_per_generation=1, so it needs no pass for old
log-probabilities), a new adapter through peft_config (its reference is then the bare base; for an adapter that it is
given, TRL computes a frozen copy), its default fused AdamW and fused head, plain `generate` (its continuous batching is
three times slower on a CPU), no vLLM, no data-loading workers or pinned memory; nothing is logged, saved or reported.
Its end token is one that the model cannot draw. TRL leaves the adapter's dropout on while it samples, a tenth of its
time; mada does not.

Rounds are interleaved, and a round begins with a step that does not count, on both sides; making trainers is not
measured. A TRL step lasts from one step's end to the next one's, as its callback sees it; mada's is what its trainer
does between two looks at the validation set. Beside the median stands the fastest round of each side, which other
programs on the machine disturbed least.

The lines on memory come from processes of their own: how much the highest resident memory (VmHWM) grew from after the
imports until after three steps. One TRL trainer is what agents trained one after another need; three are what this
benchmark holds.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mada.learning.advantages import Credit, credit_groups
from mada.learning.learner import Learner
from mada.learning.rollouts import GroupRequest, Reward, TrainingPrompt, sample_groups
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Completion, Sampling
from mada.models.engines.local import LocalEngine
from mada.recipe.schema import TrainingSettings
from mada.seeds import seed_for

AGENTS = ("one", "two", "three")
PROMPTS, GROUP = 2, 8
PROMPT = COMPLETION = 64
VOCABULARY = 2048
LEARNING_RATE, KL_COEFFICIENT, CLIP_RANGE, MAX_GRADIENT_NORM = 1e-6, 0.04, 0.2, 1.0
PARTS = ("rollout", "reference", "learning", "optimizer", "rest")
MEMORY_STEPS = 3


def small_model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=192, intermediate_size=512, num_hidden_layers=5, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True, pad_token_id=0,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


def make_prompts(agent: str, count: int) -> list[list[int]]:
    source = random.Random(agent)
    return [[source.randrange(VOCABULARY) for _ in range(PROMPT)] for _ in range(count)]


def reward_of(token_ids: Sequence[int]) -> float:
    """Large tokens are good: within a group rewards always differ, so every completion is learnt from."""
    return sum(token_ids) / (VOCABULARY * len(token_ids))


class Mada:
    """Three agents in one stack, sampled in one batch and moved in one update."""

    def __init__(self, steps: int) -> None:
        model = small_model()
        self.stack = AdapterStack.attach(model, AGENTS, Lora(rank=16, alpha=128, dropout=0.05))
        self.engine = LocalEngine(model, self.stack, context=PROMPT + COMPLETION, rows=len(AGENTS) * PROMPTS * GROUP)
        settings = TrainingSettings(
            batch_size=PROMPTS * GROUP, group_size=GROUP, learning_rate=LEARNING_RATE, kl_coefficient=KL_COEFFICIENT,
            clip_range=CLIP_RANGE, max_gradient_norm=MAX_GRADIENT_NORM, temperature=1.0, max_new_tokens=COMPLETION,
        )  # fmt: skip
        self.learner = Learner(self.stack, settings, total_steps=10**6)
        self.prompts = {
            agent: [
                TrainingPrompt(f"{index}", tuple(ids)) for index, ids in enumerate(make_prompts(agent, steps * PROMPTS))
            ]
            for agent in AGENTS
        }
        self.steps = steps
        self.taken = 0

    def round(self) -> list[dict[str, float]]:
        """Take all steps; return the seconds of each by part."""
        return asyncio.run(self._round())

    async def _round(self) -> list[dict[str, float]]:
        return [await self._step(index) for index in range(self.steps)]

    async def _step(self, index: int) -> dict[str, float]:
        started = time.perf_counter()
        requests = [
            GroupRequest(agent, prompt, seed_for(0, "rollout", agent, self.taken, prompt.id))
            for agent in AGENTS
            for prompt in self.prompts[agent][index * PROMPTS : (index + 1) * PROMPTS]
        ]
        groups = await sample_groups(
            self.engine, requests, self._score, sampling=Sampling(COMPLETION, temperature=1.0), size=GROUP
        )
        sampled = time.perf_counter()
        credited = credit_groups(groups, Credit(), truncated="learn")
        completions = [completion for group in credited for completion in group.for_learner()]
        report = self.learner.update(completions, step=self.taken)
        self.taken += 1
        seconds = {"rollout": sampled - started, **report.seconds}
        total = time.perf_counter() - started
        for agent in report.agents.values():
            assert agent.tokens_learnt == PROMPTS * GROUP * COMPLETION, agent
        return {**seconds, "rest": total - sum(seconds.values())}

    @staticmethod
    async def _score(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        return [Reward(reward_of(completion.token_ids)) for completion in completions]


class StepEnds(TrainerCallback):
    """Notes when each step of a `train()` ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, args, state, control, **_) -> None:
        self.times = []

    def on_step_end(self, args, state, control, **_) -> None:
        self.times.append(time.perf_counter())


class Trl:
    """One agent with a GRPOTrainer of its own."""

    def __init__(self, agent: str, steps: int, folder: Path) -> None:
        self.steps = steps
        self.ends = StepEnds()
        self.tokens = 0
        rows = [{"prompt": " ".join(f"w{token}" for token in ids)} for ids in make_prompts(agent, steps * PROMPTS)]
        arguments = GRPOConfig(
            output_dir=str(folder), max_steps=steps,
            per_device_train_batch_size=PROMPTS * GROUP, gradient_accumulation_steps=1, steps_per_generation=1,
            num_generations=GROUP, max_completion_length=COMPLETION, temperature=1.0, top_p=1.0, top_k=0,
            num_iterations=1, beta=KL_COEFFICIENT, epsilon=CLIP_RANGE, loss_type="grpo", scale_rewards="group",
            use_bias_correction_kl=False, learning_rate=LEARNING_RATE, warmup_steps=0.1,
            max_grad_norm=MAX_GRADIENT_NORM, gradient_checkpointing=False, bf16=False, use_cpu=True,
            shuffle_dataset=False, dataloader_num_workers=0, dataloader_pin_memory=False,
            logging_strategy="no", save_strategy="no", eval_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        self.trainer = GRPOTrainer(
            model=small_model(),
            args=arguments,
            reward_funcs=self._reward,
            train_dataset=Dataset.from_list(rows),
            processing_class=word_tokenizer(),
            callbacks=[self.ends],
            peft_config=LoraConfig(r=16, lora_alpha=128, lora_dropout=0.05, target_modules="all-linear"),
        )
        self.trainer.remove_callback(PrinterCallback)

    def round(self) -> list[float]:
        """Take all steps; return the seconds of each but the first."""
        self.tokens = 0
        self.trainer.train()
        assert self.tokens == self.steps * PROMPTS * GROUP * COMPLETION, self.tokens
        return [end - before for before, end in zip(self.ends.times, self.ends.times[1:], strict=False)]

    def _reward(self, prompts, completion_ids, **_) -> list[float | None]:
        self.tokens += sum(map(len, completion_ids))
        return [reward_of(ids) for ids in completion_ids]


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A word for every token of the model, and an end that it cannot draw."""
    words = {**{f"w{token}": token for token in range(VOCABULARY)}, "<end>": VOCABULARY}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0", eos_token="<end>")


def highest_memory() -> float:
    """The highest resident memory of this process so far, in MiB.

    Not ru_maxrss: a child started from a large process inherits that one's.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def memory_here(side: str) -> dict[str, float]:
    before = highest_memory()
    with TemporaryDirectory() as folder:
        if side == "mada":
            Mada(MEMORY_STEPS).round()
        else:
            agents = AGENTS[:1] if side == "one" else AGENTS
            trainers = [Trl(agent, MEMORY_STEPS, Path(folder)) for agent in agents]
            for trainer in trainers:
                trainer.round()
    return {"before": before, "growth": highest_memory() - before}


def memory_of(side: str, *, threads: int) -> dict[str, float]:
    """Ask a process of its own how much memory a side needs."""
    command = [sys.executable, __file__, "--threads", str(threads), "--memory-of", side]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="steps that count in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", choices=["mada", "one", "three"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    if options.memory_of:
        print(json.dumps(memory_here(options.memory_of)))
        return

    with TemporaryDirectory() as folder:
        steps = options.steps + 1  # the first of each round is for warming up
        ours = Mada(steps)
        theirs = [Trl(agent, steps, Path(folder)) for agent in AGENTS]
        parts: list[dict[str, float]] = []
        rounds: list[tuple[float, float]] = []
        print(f"{'seconds per step':<18}{'mada':>8}{'TRL x3':>8}{'ratio':>8}")
        for number in range(options.rounds + 1):
            taken = ours.round()[1:]
            mada = statistics.median(sum(step.values()) for step in taken)
            trl = sum(statistics.median(trainer.round()) for trainer in theirs)
            if number == 0:
                continue  # a whole round to warm up
            parts += taken
            rounds.append((mada, trl))
            print(f"{f'round {number}':<18}{mada:>8.3f}{trl:>8.3f}{trl / mada:>8.2f}", flush=True)
    ratio = statistics.median(trl / mada for mada, trl in rounds)
    mada, trl = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{'median':<18}{mada:>8.3f}{trl:>8.3f}{ratio:>8.2f}")
    mada, trl = (min(column) for column in zip(*rounds, strict=True))
    print(f"{'fastest':<18}{mada:>8.3f}{trl:>8.3f}{trl / mada:>8.2f}")
    print(f"\n{'mada':<18}{'seconds':>8}{'share':>8}")
    middle = {part: statistics.median(step[part] for step in parts) for part in PARTS}
    for part, seconds in middle.items():
        print(f"{part:<18}{seconds:>8.3f}{seconds / sum(middle.values()):>8.0%}")
    print(f"\n{'MiB, at most':<18}{'growth':>8}{'before':>8}")
    for side, name in {"mada": "mada, three", "one": "TRL, one trainer", "three": "TRL, three"}.items():
        memory = memory_of(side, threads=options.threads)
        print(f"{name:<18}{memory['growth']:>8.0f}{memory['before']:>8.0f}", flush=True)
    print(f"\nratio: {ratio:.1f} (one step of three agents together against three TRL trainers one after another)")


if __name__ == "__main__":
    main()
