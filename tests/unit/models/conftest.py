"""Tiny random models of the architectures that are tested, and a tokenizer made on the spot."""

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

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


@pytest.fixture(params=CONFIGS)
def architecture(request):
    return request.param


@pytest.fixture(scope="session")
def tiny_model():
    """Make a tiny random model of an architecture."""

    def make(architecture="qwen2", *, seed=0, **changes):
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

    return make


@pytest.fixture(scope="session")
def fill():
    """Give every agent of a stack an adapter that does something."""

    def give(stack, *, seed=1):
        generator = torch.Generator().manual_seed(seed)
        for agent in stack.agents:
            own = stack.tensors(agent)
            stack.assign(agent, {name: torch.randn(one.shape, generator=generator) * 0.2 for name, one in own.items()})

    return give


@pytest.fixture(scope="session")
def token_ids():
    """Make a batch of random token ids."""

    def draw(rows, *, length=9, seed=2):
        return torch.randint(3, 61, (rows, length), generator=torch.Generator().manual_seed(seed))

    return draw


@pytest.fixture(scope="session")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(50))]
    inner = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
