"""Tiny random models, adapters and completions to learn from."""

import random

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Qwen2Config

from mada.learning.batches import CreditedCompletion
from mada.models.adapters import AdapterStack, Lora
from mada.recipe.schema import TrainingSettings

VOCABULARY = 40
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # far from uniform distributions, so that errors show
}
CONFIGS = {
    "qwen2": lambda: Qwen2Config(**SHAPE, tie_word_embeddings=False),
    "gemma2": lambda: Gemma2Config(**SHAPE, head_dim=4, final_logit_softcapping=2.0),
}


@pytest.fixture
def make_model():
    def make(kind="qwen2", seed=0, dtype=torch.float32):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(CONFIGS[kind](), dtype=dtype).eval()

    return make


@pytest.fixture
def make_stack(make_model):
    """Agents' adapters on a fresh copy of the tiny model, B random too; an agent's values depend on its name only."""

    def make(*agents, dropout=0.0, rank=2, dtype=torch.float32):
        stack = AdapterStack.attach(make_model(dtype=dtype), agents, Lora(rank=rank, alpha=4.0, dropout=dropout))
        for agent in agents:
            generator = torch.Generator().manual_seed(sum(map(ord, agent)))
            drawn = {name: torch.randn(own.shape, generator=generator) for name, own in stack.tensors(agent).items()}
            stack.assign(agent, {name: 0.2 * value for name, value in drawn.items()})
        return stack

    return make


@pytest.fixture
def make_completions():
    """Random completions of mixed lengths, `each` per agent; an agent's are the same whoever else is there."""

    def make(*agents, each=4, seed=0):
        made = []
        for agent in agents:
            drawn = random.Random(f"{agent} {seed}")
            for _ in range(each):
                prompt, completion = drawn.randint(1, 6), drawn.randint(1, 9)
                ids = tuple(drawn.randrange(VOCABULARY) for _ in range(prompt + completion))
                made.append(CreditedCompletion(agent, ids[:prompt], ids[prompt:], None, drawn.gauss(0, 1)))
        return made

    return make


@pytest.fixture
def settings():
    """The paper's settings with a learning rate that shows in a few steps, from the first step on."""
    return TrainingSettings(learning_rate=1e-2, warmup_ratio=0.0, schedule="constant", max_new_tokens=16)
