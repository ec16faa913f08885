"""What every engine is given: a Qwen2-1.5B shape with random weights, three adapters, prompts in groups, two patterns.

`fixed`: as many completions as rows, 512 tokens each. `ragged`: three times as many completions as rows, 64 to 960
tokens each, so that rows end one by one and must be refilled.
"""

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

AGENTS = ("one", "two", "three")
GROUP = 8
PROMPT = 128
VOCABULARY = 151_936
CONTEXT = 1_152
SHAPE = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960,
    "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
    "tie_word_embeddings": True, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
    "rope_theta": 1000000.0, "hidden_act": "silu", "bos_token_id": 151643, "eos_token_id": 151643,
}  # fmt: skip


@dataclass(frozen=True)
class Ask:
    agent: str
    prompt_ids: list[int]
    max_tokens: int
    seed: int


def asks(rows: int, *, ragged: bool) -> list[Ask]:
    """One ask per completion; completions of a group share their prompt and agent."""
    source = random.Random(rows)
    made: list[Ask] = []
    for group in range(rows * (3 if ragged else 1) // GROUP):
        prompt = [source.randrange(VOCABULARY) for _ in range(PROMPT)]
        for place in range(GROUP):
            length = source.randint(64, 960) if ragged else 512
            made.append(Ask(AGENTS[group % 3], prompt, length, group * GROUP + place))
    return made


def write_shape(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    return folder


def random_model():
    """The shape on the GPU, with weights as a fresh model has them."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**{key: value for key, value in SHAPE.items() if key not in ("architectures", "torch_dtype")})
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen2ForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


class Results:
    """Lines of JSON, written as they come, so that a run cut short leaves what it had."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path = path
        self.engine = engine

    def add(self, *, rows: int, pattern: str, tokens: int, seconds: float, **more: object) -> None:
        line = {"engine": self.engine, "rows": rows, "pattern": pattern, "tokens": tokens, "seconds": round(seconds, 3),
                "tokens_per_second": round(tokens / seconds), "at": round(time.time()), **more}  # fmt: skip
        print(json.dumps(line), flush=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
