"""Parameters and bytes without weights: the paper's numbers (T2), and those of a real stack and cache."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config

from mada.errors import AdapterError, EngineError, ModelError
from mada.models.adapters import AdapterStack, Lora
from mada.models.memory import CacheShape, LayerKind, cache_bytes_per_token, count_parameters

PAPER = str(Path(__file__).parents[2] / "fixtures" / "deepseek-r1-distill-qwen-1.5b")


@pytest.mark.parametrize(
    ("rank", "agents", "trainable"),
    [(16, 1, 18_464_768), (16, 6, 110_788_608), (32, 1, 36_929_536), (128, 1, 147_718_144)],
)
def test_the_papers_counts(rank, agents, trainable):
    count = count_parameters(PAPER, lora=Lora(rank=rank), agents=agents)
    assert count.base == 1_777_088_000
    assert count.trainable == trainable
    assert count.per_agent * agents == trainable
    assert (count.adapter_bytes, count.optimizer_bytes) == (4 * trainable, 8 * trainable)


def test_kinds_of_layers():
    count = count_parameters(PAPER, lora=Lora(rank=2, targets=("k_proj", "down_proj")))
    assert count.kinds == (
        LayerKind("k_proj", 28, 28 * 2 * (1536 + 256)),
        LayerKind("down_proj", 28, 28 * 2 * (8960 + 1536)),
    )


def test_counts_are_those_of_the_real_thing(architecture, tiny_model, tmp_path):
    model = tiny_model(architecture)
    model.config.save_pretrained(tmp_path)
    own = sum(parameter.numel() for parameter in model.parameters())
    count = count_parameters(str(tmp_path / "config.json"), lora=Lora(rank=3), agents=2)
    stack = AdapterStack.attach(model, ["one", "two"], Lora(rank=3))
    assert count.base == own
    assert count.per_agent == stack.trainable_parameters("one")
    assert count.trainable == sum(parameter.numel() for parameter in stack.parameters().values())


def test_refusals(tmp_path):
    with pytest.raises(AdapterError, match="no linear layer called 'x'"):
        count_parameters(PAPER, lora=Lora(targets=("x",)))
    (tmp_path / "config.json").write_text('{"model_type": "qwen2", "num_attention_heads": 0}')
    with pytest.raises(ModelError, match="cannot be built"):
        count_parameters(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ModelError, match="is not a causal language model"):
        count_parameters(str(tmp_path))


def test_bytes_of_a_tokens_keys_and_values():
    # By hand: 2 · layers · key-value heads · head size · bytes of a number.
    paper = Qwen2Config(num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, hidden_size=1536)
    assert cache_bytes_per_token(paper) == 2 * 28 * 2 * 128 * 2
    assert cache_bytes_per_token(paper, dtype=torch.float32) == 2 * 28 * 2 * 128 * 4
    wide = Qwen2Config(num_hidden_layers=2, num_attention_heads=4, hidden_size=64, num_key_value_heads=4)
    assert cache_bytes_per_token(wide) == 2 * 2 * 4 * 16 * 2
    shape = CacheShape(layers=2, heads=2, head_size=8, dtype=torch.float32)
    assert shape.rows(context=64, budget=5 * 64 * 256 + 100, wanted=9) == 5
    assert shape.rows(context=64, budget=5 * 64 * 256, wanted=3) == 3
    with pytest.raises(EngineError, match="lower the context to 63"):
        shape.rows(context=64, budget=64 * 256 - 1, wanted=1)
