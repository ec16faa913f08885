"""TRL's GRPOTrainer for one agent, twice: tuned, and as it comes.

Both are given the task's own numbers (grpo_task.py). *As it comes* leaves everything else to TRL 1.16: a float32 base
under bfloat16 autocast, gradient checkpointing, an importance-sampling correction between vLLM and the learner with the
forward pass that it costs, its loss, 8 sequences in a pass. *Tuned* is the fastest that it offers within a third of the
GPU:

- A bfloat16 base, no gradient checkpointing, no importance-sampling correction, the loss that mada has.
- 8 sequences in a pass forward and backward, or 16 where a trainer has the GPU to itself.
- A step's completions are sampled in one batch, and `steps_per_generation` is the number of passes in an update, so it
  needs no pass for old log-probabilities.

The fused head, fused AdamW and a new adapter through `peft_config`, whose reference is then the bare base, are in both.
Nothing is logged, saved or evaluated.

Both use the same vLLM, which TRL would start more slowly and with less: in colocate mode, never asleep, with captured
steps for a few batch sizes and 6 GiB for keys and values, twice what a step's completions need. TRL has no argument for
either, so the constructor that it calls is wrapped here; a fixed cache also keeps three vLLMs that start at once from
counting each other's memory as their own. No text is made of tokens inside vLLM (`detokenize`), and no end token ends
anything (`ignore_eos`). The wrapped constructor gives every further trainer of a process the vLLM that is there.

After every step TRL merges the adapter into the base, writes all weights into vLLM and takes the adapter out again;
that is part of the step, as handing over adapters is for mada.
"""

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_results import GIB
from grpo_task import (
    ALPHA,
    CLIP_RANGE,
    DROPOUT,
    KL_COEFFICIENT,
    LEARNING_RATE,
    MAX_GRADIENT_NORM,
    RANK,
    Workload,
    model_folder,
    reward_of,
)
from workload import CONTEXT

CAPTURED = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128]
CACHE = 6 * GIB
WARM_UP = 1
VLLM: dict[str, Any] = {
    "use_vllm": True, "vllm_max_model_length": CONTEXT,
    # With a cache of fixed size, only the share that must be free at the start.
    "vllm_gpu_memory_utilization": 0.1,
    "generation_kwargs": {"ignore_eos": True, "detokenize": False},
}  # fmt: skip
TUNED: dict[str, Any] = {
    "epsilon": CLIP_RANGE, "loss_type": "grpo", "scale_rewards": "group", "use_bias_correction_kl": False,
    "lr_scheduler_type": "constant", "max_grad_norm": MAX_GRADIENT_NORM, "shuffle_dataset": False,
    "gradient_checkpointing": False, "bf16": True, "model_init_kwargs": {"dtype": "bfloat16"},
    "vllm_importance_sampling_correction": False,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One of the ways in which TRL is measured."""

    name: str
    at_once: bool
    tuned: bool
    batch: int
    """per_device_train_batch_size"""


# The most important first: a time limit cuts the last.
KINDS = (
    Kind("TRL, three at once, tuned", at_once=True, tuned=True, batch=8),
    Kind("TRL, one after another, as it comes", at_once=False, tuned=False, batch=8),
    Kind("TRL, one after another, tuned", at_once=False, tuned=True, batch=16),
)


def one_vllm(names: Any, *, rows: int) -> None:
    """Have TRL make its vLLM with what TRL has no argument for, once in this process, for the largest workload."""
    make = names.LLM
    made: list[Any] = []

    def wrapped(**arguments: Any) -> Any:
        if not made:
            made.append(
                make(
                    **{**arguments, "max_num_seqs": rows},
                    kv_cache_memory_bytes=CACHE,
                    compilation_config={"cudagraph_capture_sizes": [size for size in CAPTURED if size <= rows]},
                    # TRL gives it token ids and takes token ids; the random model's words are none of Qwen2's.
                    skip_tokenizer_init=True,
                    tokenizer_mode="hf",
                    generation_config="vllm",
                )
            )
        return made[0]

    names.LLM = wrapped


class Trl:
    """A trainer of one kind for one workload."""

    def __init__(self, kind: Kind, workload: Workload, *, scratch: Path, output: Path, steps: int, tiny: bool) -> None:
        """Make the trainer's arguments.

        All of them are made before the first vLLM: making some resets accelerate's state, which would then find the
        variables that vLLM wants (RANK, WORLD_SIZE) and wrap the model for several GPUs.
        """
        from trl.trainer.grpo_config import GRPOConfig

        self.kind, self.workload, self.steps = kind, workload, steps
        self.folder = model_folder(scratch, tiny=tiny)
        self.vocabulary = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        self.ends: list[float] = []
        self.parts: list[dict[str, float]] = []
        self.running: dict[str, float] = defaultdict(float)
        self.tokens = 0
        self.batch = min(kind.batch, workload.completions)
        passes = workload.completions // self.batch
        chosen: dict[str, Any] = {**(TUNED if kind.tuned else {}), **({"use_cpu": True} if tiny else VLLM)}
        self.arguments = GRPOConfig(
            max_steps=steps, per_device_train_batch_size=self.batch, gradient_accumulation_steps=passes,
            steps_per_generation=passes,  # TRL's default too
            num_generations=workload.group, max_completion_length=workload.length, temperature=1.0,
            beta=KL_COEFFICIENT, learning_rate=LEARNING_RATE,
            **chosen, output_dir=str(output),
            logging_strategy="no", save_strategy="no", eval_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip

    def train(self, agent: str, ready: Callable[[], object]) -> None:
        """Make the trainer, say that it is ready, take all steps."""
        from datasets import Dataset
        from peft import LoraConfig
        from transformers import PreTrainedTokenizerFast
        from transformers.trainer_callback import PrinterCallback
        from trl.trainer.grpo_trainer import GRPOTrainer

        prompts = self.workload.prompt_ids(agent, self.vocabulary, self.steps)
        rows = [{"prompt": " ".join(f"w{token}" for token in ids)} for ids in prompts]
        trainer = GRPOTrainer(
            model=str(self.folder),
            args=self.arguments,
            reward_funcs=self._reward,
            train_dataset=Dataset.from_list(rows),
            processing_class=PreTrainedTokenizerFast.from_pretrained(self.folder),
            callbacks=[self._note_steps()],
            peft_config=LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=DROPOUT, target_modules="all-linear"),
        )
        trainer.remove_callback(PrinterCallback)
        ready()
        self.running.clear()
        trainer.train()
        wanted = self.steps * self.workload.completions * self.workload.length
        if self.tokens != wanted:
            raise RuntimeError(f"TRL sampled {self.tokens} tokens, wanted {wanted}: completions ended early")

    def seconds_by_part(self) -> dict[str, float]:
        """Medians over the steps that count, of this process.

        Parts are what TRL's own profiling contexts measure, without waiting for the GPU in between, so what `scoring`
        (log-probabilities of the reference, and as it comes of the policy too) leaves running counts as `learning`.
        """
        found: dict[str, list[float]] = defaultdict(list)
        for at in range(WARM_UP, self.steps):
            measured = defaultdict(float, self.parts[at])
            syncing, rollout, prepared = (measured[name] for name in ("sync_weights", "generate", "_prepare_inputs"))
            found["syncing"].append(syncing)
            found["rollout"].append(rollout)
            found["scoring"].append(prepared - syncing - rollout)
            found["learning"].append(self.ends[at] - self.ends[at - 1] - prepared)
        return {name: statistics.median(values) for name, values in found.items()}

    def _reward(self, prompts: object, completion_ids: list[list[int]], **_: object) -> list[float | None]:
        self.tokens += sum(map(len, completion_ids))
        return [reward_of(ids, self.vocabulary) for ids in completion_ids]

    def _note_steps(self) -> Any:
        """A callback that notes when each step ended, and what its parts took."""
        import torch
        from transformers import TrainerCallback
        from trl.extras.profiling import ProfilingContext

        notes = self

        def note(self: ProfilingContext, duration: float) -> None:
            notes.running[self.name.rpartition(".")[2]] += duration

        class StepEnds(TrainerCallback):
            def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                notes.ends.append(time.perf_counter())
                notes.parts.append(dict(notes.running))
                notes.running.clear()
                print(notes.kind.name, notes.workload.name, "step", len(notes.ends), flush=True)

        ProfilingContext._log_metrics = note  # it has nobody else to tell: report_to is "none"
        return StepEnds()
