"""Which engine is chosen and why, and what is logged about it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Qwen2Config

from mada.errors import EngineError
from mada.models.engines.starting import MIN_LOCAL_ROWS, Hardware, choose_engine, choose_model_engine, start_local
from mada.models.loading import load_config
from mada.models.memory import GIB, cache_bytes_per_token
from mada.recipe.schema import EngineSection, ModelSection

# The shape of a Qwen2 of 1.5 billion parameters: 2 × 28 layers × 2 heads × 128 numbers of 2 bytes are 28,672 a token.
CONFIG = Qwen2Config(num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, hidden_size=1536)
H200 = Hardware(gpu_bytes=139 * GIB, has_vllm=True)


def choice(wanted: Any = "auto", *, window=4_608, hardware=H200, parameters=1_543_714_304, **settings):
    return choose_engine(wanted, CONFIG, window=window, parameters=lambda: parameters, hardware=hardware, **settings)


def test_many_rows_are_for_the_local_engine_and_few_for_paging():
    # By hand: 0.4 · (139 GiB − 3.09 GB) / (28,672 · 4,608) = 442.51…
    assert str(choice()) == "local engine: 442 rows of 4,608 tokens fit, enough for it to be the faster one"
    assert choice().should_log
    assert str(choice(window=131_072)).startswith("vllm engine: only 15 rows of 131,072 tokens fit")
    without = choice(window=131_072, hardware=Hardware(139 * GIB, has_vllm=False))
    assert str(without).startswith("local engine: vLLM is not installed; only 15 rows")
    assert "only 0 rows" in choice(hardware=Hardware(GIB, has_vllm=False)).reason


def test_more_rows_fit_without_a_learner():
    # By hand: 0.4 and 0.7 · (139 GiB − 3.09 GB) / (28,672 · 32,768) = 62.2… and 108.9…
    beside, alone = choice(window=32_768), choice(window=32_768, alone=True)
    assert (beside.kind, alone.kind) == ("vllm", "local")
    assert "only 62 rows" in beside.reason
    assert "108 rows" in alone.reason


def test_the_border():
    free = MIN_LOCAL_ROWS * 28_672 * 1_000 / 0.4
    hardware = Hardware(int(free) + 1 + 2 * 10**9, has_vllm=True)
    assert choice(window=1_000, hardware=hardware, parameters=10**9).kind == "local"
    assert choice(window=1_001, hardware=hardware, parameters=10**9).kind == "vllm"


def test_without_a_gpu_parameters_are_not_counted():
    def refuse():
        raise AssertionError("counting takes a second")

    chosen = choose_engine("auto", CONFIG, window=4_608, parameters=refuse, hardware=Hardware(None, has_vllm=True))
    assert (chosen.kind, chosen.should_log) == ("local", False)


def test_an_engine_can_be_requested():
    assert choice("local", window=10**6).kind == "local"
    assert choice("vllm").kind == "vllm"
    assert choice("openai", url="http://here/v1").kind == "openai"
    assert str(choice(url="http://here/v1")) == "openai engine: completions come from http://here/v1"


@pytest.mark.parametrize(
    ("wanted", "url", "hardware", "message"),
    [
        ("openai", None, H200, "engine.url"),
        ("local", "http://here", H200, "http://here with the engine 'local'"),
        ("vllm", "http://here", H200, "http://here with the engine 'vllm'"),
        ("vllm", None, Hardware(None, has_vllm=True), "no GPU"),
        ("vllm", None, Hardware(GIB, has_vllm=False), r"pip install 'mada-rl\[vllm\]'"),
    ],
)
def test_unavailable_engines_are_refused(wanted, url, hardware, message):
    with pytest.raises(EngineError, match=message):
        choice(wanted, url=url, hardware=hardware)


def test_hardware_detection():
    assert isinstance(Hardware.detect().has_vllm, bool)


@pytest.mark.parametrize(
    ("hardware", "says"),
    [
        (Hardware(None, has_vllm=False), []),
        (Hardware(2**34, has_vllm=True), ["local engine: "]),
        (Hardware(2**25, has_vllm=True), ["vllm engine: only 8 rows of 1,024 tokens fit without paging"]),
    ],
)
def test_a_choice_is_logged_unless_it_is_obvious(monkeypatch, hardware, says):
    monkeypatch.setattr(Hardware, "detect", classmethod(lambda cls: hardware))
    said = []
    choice = choose_model_engine(
        EngineSection(), ModelSection(name="mada-nano"), window=1024, alone=False, log=said.append
    )
    assert [text.startswith(start) for text, start in zip(said, says, strict=True)] == [True] * len(says)
    assert all(text.endswith("; it starts in a minute or two") == (choice.kind == "vllm") for text in said)


@pytest.mark.parametrize(
    ("dtype", "slots", "rows", "notes"),
    [
        (torch.bfloat16, 49, None, 1),
        (torch.bfloat16, 50, None, 0),
        (torch.bfloat16, 9, 20, 1),
        (torch.bfloat16, 10, 20, 0),
        (torch.float32, 23, None, 1),
        (torch.float32, 24, None, 0),
    ],
)
def test_far_fewer_rows_than_fit_are_logged(monkeypatch, dtype, slots, rows, notes):
    # By hand: what a learner leaves of such a GPU holds 100 rows in bfloat16. In float32 it would be 50, but the model
    # itself takes twice as much too, as much as two of them.
    config = load_config("mada-nano")
    row = 64 * cache_bytes_per_token(config)
    parameters = 5 * row
    memory = int(100 * row / 0.4) + 1 + 2 * parameters
    monkeypatch.setattr(Hardware, "detect", classmethod(lambda cls: Hardware(memory, has_vllm=False)))
    monkeypatch.setattr(
        "mada.models.engines.starting.LocalEngine", lambda *args, **options: SimpleNamespace(slots=slots)
    )
    model: Any = SimpleNamespace(
        device=torch.device("cuda"), dtype=dtype, config=config, num_parameters=lambda: parameters
    )
    said = []
    start_local(EngineSection(rows=rows), model, None, window=64, alone=False, log=said.append)
    assert said == [f"only {slots} rows fit, because something else holds memory of the GPU"] * notes
