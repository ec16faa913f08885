"""Everything here needs a CUDA device, and says so where there is none."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, MistralConfig, Qwen2Config, Qwen3Config

from mada.models.adapters import AdapterStack, Lora

SIZES: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
CONFIGS = {
    "qwen2": lambda: Qwen2Config(**SIZES),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32),
    "mistral": lambda: MistralConfig(**SIZES, sliding_window=40),
    "gemma2": lambda: Gemma2Config(**SIZES, head_dim=32, sliding_window=40),
}


def pytest_collection_modifyitems(items):
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))


@pytest.fixture
def make_stack():
    """A tiny random model with agents `a` and `b` whose adapters do something."""

    def make(architecture="qwen2", *, dtype=torch.float32, device="cuda", dropout=0.0, std=0.2, **sizes):
        torch.manual_seed(0)
        config = CONFIGS[architecture]()
        config.update(sizes)
        model = AutoModelForCausalLM.from_config(config).eval().to(device=device, dtype=dtype)
        stack = AdapterStack.attach(model, ["a", "b"], Lora(rank=4, alpha=8, dropout=dropout))
        with torch.no_grad():
            for parameter in stack.parameters().values():
                generator = torch.Generator().manual_seed(parameter.numel())
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
        return stack

    return make
