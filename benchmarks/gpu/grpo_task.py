"""The task of the GRPO step: one random model, prompts, a reward and the numbers that all sides are given.

Prompts of 128 random tokens, completions of exactly 512, temperature 1, a reward that is a function of the token ids,
LoRA of rank 16 and alpha 128 with dropout 0.05 on all linear layers, β = 0.04, one update per rollout, AdamW, gradients
clipped at norm 1.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workload import SHAPE, VOCABULARY

LEARNING_RATE, KL_COEFFICIENT, CLIP_RANGE, MAX_GRADIENT_NORM = 1e-6, 0.04, 0.2, 1.0
RANK, ALPHA, DROPOUT = 16, 128, 0.05
TINY: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """What every agent does in a step."""

    name: str
    prompts: int
    group: int
    prompt: int = 128
    length: int = 512

    @property
    def completions(self) -> int:
        """Completions of one agent."""
        return self.prompts * self.group

    def prompt_ids(self, agent: str, vocabulary: int, steps: int) -> list[list[int]]:
        """An agent's prompts of all steps, the same on every side."""
        source = random.Random(f"{self.name} {agent}")
        return [[source.randrange(vocabulary) for _ in range(self.prompt)] for _ in range(steps * self.prompts)]


WORKLOADS = {"paper": Workload("paper", 4, 4), "run": Workload("run", 16, 8)}
TINY_WORKLOADS = {"paper": Workload("paper", 2, 4, 12, 16), "run": Workload("run", 4, 4, 12, 16)}


def chosen(names: Sequence[str], *, tiny: bool) -> list[Workload]:
    """The workloads of these names."""
    return [(TINY_WORKLOADS if tiny else WORKLOADS)[name] for name in names]


def reward_of(token_ids: Sequence[int], vocabulary: int) -> float:
    """Large tokens are good: within a group rewards always differ, so every completion is learnt from."""
    return sum(token_ids) / (vocabulary * len(token_ids))


def model_folder(scratch: Path, *, tiny: bool) -> Path:
    """Where the model lies; the toy has a place of its own, so that nobody measures it by mistake."""
    return scratch / ("tiny-model" if tiny else "model")


def is_written(folder: Path) -> bool:
    """Whether the whole model is there."""
    return (folder / "whole").exists()


def write_model(folder: Path, *, tiny: bool) -> None:
    """The random model and a tokenizer with a word for every token, in a folder that all sides load.

    The end token is one that the model cannot draw, so completions have their full length everywhere.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from workload import random_model

    vocabulary = TINY["vocab_size"] if tiny else VOCABULARY
    if tiny:
        torch.manual_seed(0)
        model: Any = Qwen2ForCausalLM(Qwen2Config(**TINY, tie_word_embeddings=True))
    else:
        model = random_model()
    for settings in (model.config, model.generation_config):
        settings.eos_token_id = settings.bos_token_id = settings.pad_token_id = None
    model.save_pretrained(folder)
    if not tiny:
        # The shape in the words that vLLM has been seen to understand.
        shape = {**SHAPE, "dtype": "bfloat16", "bos_token_id": None, "eos_token_id": None}
        (folder / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    words = {**{f"w{token}": token for token in range(vocabulary)}, "<end>": vocabulary}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="w0", eos_token="<end>", padding_side="left", truncation_side="left"
    )
    wrapped.save_pretrained(folder)
    (folder / "whole").touch()


def learning_flops(workload: Workload, agents: int) -> float:
    """Operations that a step's learning pass needs: forward, and backward through the inputs of frozen weights.

    A group's prompt counts once, adapters and the logits' second making not at all, so shares of the peak are modest.
    """
    hidden, layers, inner = SHAPE["hidden_size"], SHAPE["num_hidden_layers"], SHAPE["intermediate_size"]
    weights = layers * (hidden * (2 * hidden + 512) + 3 * hidden * inner)
    completion_tokens = agents * workload.completions * workload.length
    prompt_tokens = agents * workload.prompts * workload.prompt
    attention = layers * hidden * (2 * workload.prompt + workload.length)  # causal: two products over half the pairs
    each = completion_tokens * (weights + attention + hidden * VOCABULARY) + prompt_tokens * weights
    return 2 * each * 2
