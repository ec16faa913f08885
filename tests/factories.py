"""What many tests make: tiny models, adapters that do something, tokenizers, a tiny recipe. Import it by name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    SmolLM3Config,
)

from mada.evaluation.scores import Score
from mada.models.adapters import AdapterStack, Lora, save_adapter
from mada.models.loading import load_base
from mada.recipe import Recipe
from mada.runs import Run

SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CONFIGS = {
    "qwen2": lambda: Qwen2Config(**SIZES),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=8),
    "llama": lambda: LlamaConfig(**SIZES),
    "smollm": lambda: LlamaConfig(**SIZES, tie_word_embeddings=True, rms_norm_eps=1e-5),
    "smollm3": lambda: SmolLM3Config(**SIZES, no_rope_layer_interval=2),
    "gemma": lambda: GemmaConfig(**SIZES, head_dim=8),
    "gemma2": lambda: Gemma2Config(
        **SIZES, head_dim=8, sliding_window=4, query_pre_attn_scalar=8, final_logit_softcapping=0.5
    ),
    "mistral": lambda: MistralConfig(**SIZES, sliding_window=4),
}


def tiny_model(architecture: str = "qwen2", *, seed: int = 0, **changes: Any):
    """Make a tiny random model of an architecture."""
    torch.manual_seed(seed)
    config = CONFIGS[architecture]()
    for name, value in changes.items():
        setattr(config, name, value)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms are born alike
                parameter.add_(torch.randn_like(parameter) * 0.1)
            else:
                parameter.mul_(3)
    return model


def tiny_qwen2(vocabulary: int, *, seed: int = 0, **sizes: Any) -> Any:
    """Make a Qwen2 straight from its configuration; `initializer_range` far from 0 makes errors show."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=vocabulary, **{**shape, "num_key_value_heads": 2, **sizes})).eval()


def fill_adapters(stack, *, seed: int = 1, scale: float = 0.2) -> None:
    """Give every agent of a stack an adapter that does something."""
    generator = torch.Generator().manual_seed(seed)
    for agent in stack.agents:
        own = stack.tensors(agent)
        stack.assign(agent, {name: torch.randn(one.shape, generator=generator) * scale for name, one in own.items()})


def save_trained_run(folder: Path, *, scale: float) -> Path:
    """Save a run of the embedded model whose training is over: every agent has an adapter that does something."""
    recipe = {
        "model": {"name": "mada-nano"},
        "team": {"generators": 2, "critics": 1},
        "lora": {"rank": 4, "alpha": 8.0},
        "inference": {"max_new_tokens": 96},
    }
    with Run.open(folder, Recipe.model_validate(recipe)):
        pass
    agents = ("generator-1", "generator-2", "critic-1")
    stack = AdapterStack.attach(load_base("mada-nano", device="cpu").model, agents, Lora(rank=4, alpha=8, dropout=0.0))
    fill_adapters(stack, scale=scale)
    for agent in agents:
        save_adapter(stack, agent, folder / "adapters" / agent, base_name="mada-nano")
    return folder


def word_tokenizer(words: int = 50):
    """Make a tokenizer of `<pad> <s> </s> <unk> w0 w1 …`, split at spaces."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(words))]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(known)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_tokenizer(template: str | None = CHAT_TEMPLATE):
    """Make a tokenizer that knows every byte and three tokens of a chat."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # type: ignore[assignment]
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", chat_template=template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|assistant|>"]})
    return tokenizer


def save_chat_model(folder: Path, **sizes: Any) -> Path:
    """Save a tiny random chat model with a byte tokenizer as a folder that `load_base` takes."""
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(folder)
    model = tiny_qwen2(len(tokenizer), **{"max_position_embeddings": 4096, "initializer_range": 0.3, **sizes})
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, 7]
    model.save_pretrained(folder)
    return folder


TINY_RECIPE = """
name = "tiny"
[model]
name = "mada-nano"
window = 512
[data]
subset_size = 6
validation_size = 4
decontaminate = ["abacus-easy"]
[team]
generators = 3
critics = 3
rounds = 2
[lora]
rank = 4
alpha = 8
[grading]
workers = 1
[training]
batch_size = 8
group_size = 4
max_new_tokens = 64
steps = 2
validate_every = 2
checkpoint_every = 1
[engine]
rows = 64
[inference]
max_new_tokens = 96
[evaluation]
benchmarks = ["abacus-easy", "abacus-medium"]
seeds = 2
problems = 2
prompt_price = 0.1
"""


def trained_run(folder: Path, *, critics_too: bool = True, **fields: Any) -> Path:
    """Make a run of two generators and a critic on the embedded model as if they had been trained."""
    from mada.models.adapters import AdapterStack, Lora, save_adapter
    from mada.models.loading import load_base
    from mada.recipe import Recipe
    from mada.runs import Run

    recipe = {
        "name": "tiny",
        "model": {"name": "mada-nano", "window": 512},
        "data": {"train": "abacus-short"},
        "team": {"generators": 2, "critics": 1, "rounds": 2},
        "lora": {"rank": 4, "alpha": 8.0, "dropout": 0.0},
        "training": {"max_new_tokens": 60},
        "inference": {"max_new_tokens": 60},
        "evaluation": {"benchmarks": ["abacus-easy"]},
    }
    agents = ("generator-1", "generator-2", "critic-1")
    stack = AdapterStack.attach(load_base("mada-nano", device="cpu").model, agents, Lora(4, 8.0, dropout=0.0))
    fill_adapters(stack, scale=0.03)
    with Run.open(folder, Recipe.model_validate({**recipe, **fields})) as run:
        for role in ("generator", "critic")[: 1 + critics_too]:
            with run.stage(f"{role}s") as stage:
                for agent in (one for one in agents if one.startswith(role)):
                    save_adapter(stack, agent, run.path("adapters", agent), base_name="mada-nano")
                    stage.add_results(run.path("adapters", agent).iterdir())
    return folder


def stage_summary(**given: Any) -> dict[str, Any]:
    """Make the summary of a stage's mark: what is given, with zeros for all that any stage reports."""
    from mada.pipeline.results import KEYS

    counts = dict.fromkeys([*KEYS.values(), "problems", "learnable", "steps", "examples", "systems", "questions"], 0)
    return {**counts, "by right answers": {}, "best": {}, "learnt from": None, "file": "", "content": "", **given}


def stage_result(summary: dict[str, Any]) -> Any:
    """Make what a stage's function returns, with any summary for the stage's mark."""
    return SimpleNamespace(to_summary=lambda: summary)


def make_score(system: str, key: tuple[str, int, str], correct: Sequence[Sequence[bool]], **changes: Any) -> Score:
    """Make the score of a system on (benchmark, seed, problem); `correct` has a row per round, a column per seat."""
    benchmark, seed, problem = key

    def filled(value: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple((value,) * len(row) for row in correct)

    score = Score(
        system=system,
        benchmark=benchmark,
        seed=seed,
        problem=problem,
        agents=filled("g"),
        answers=filled("1"),
        groups=filled(0),
        correct=tuple(map(tuple, correct)),
        verdict_correct=correct[-1][0],
        first_vote_correct=correct[0][0],
        tie=False,
        tokens=filled(1),
        prompts=filled(1),
        truncated=0,
        shortened=0,
    )
    return replace(score, **changes)
