"""Which engine is chosen, and what is said about it."""

from typing import Any

import pytest
from transformers import Qwen2Config

from mada.errors import EngineError
from mada.models.engines.choosing import FEWEST_ROWS, Surroundings, cache_bytes_per_token, choose_engine

# The shape of a Qwen2 of 1.5 billion parameters: 2 × 28 layers × 2 heads × 128 numbers of 2 bytes.
CONFIG = Qwen2Config(num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, hidden_size=1536)
PER_TOKEN = 28_672
GIB = 2**30
H200 = Surroundings(gpu_bytes=139 * GIB, has_vllm=True)


def choice(wanted: Any = "auto", *, window=4_608, url=None, alone=False, around=H200, parameters=1_543_714_304):
    return choose_engine(
        wanted, CONFIG, window=window, parameters=lambda: parameters, url=url, alone=alone, surroundings=around
    )


def test_what_a_token_takes():
    assert cache_bytes_per_token(CONFIG) == PER_TOKEN
    assert cache_bytes_per_token(CONFIG, width=4) == 2 * PER_TOKEN
    wide = Qwen2Config(num_hidden_layers=2, num_attention_heads=4, hidden_size=64, num_key_value_heads=4)
    assert cache_bytes_per_token(wide) == 2 * 2 * 4 * 16 * 2


def test_many_rows_are_ours():
    # By hand: 0.4 · (139 GiB − 3.09 GB) / (28,672 · 4,608) = 442.51…
    chosen = choice()
    assert (chosen.kind, chosen.is_matter_of_course) == ("local", False)
    assert chosen.reason == "442 rows of 4,608 tokens fit, and with so many it is the faster one"
    assert str(chosen).startswith("local engine: 442 rows")


def test_few_rows_are_for_pages_where_there_are_any():
    long = 131_072
    assert str(choice(window=long)) == (
        "vllm engine: only 15 rows of 131,072 tokens fit as whole slots, and vLLM keeps pages"
    )
    without = choice(window=long, around=Surroundings(139 * GIB, has_vllm=False))
    assert without.kind == "local"
    assert without.reason.startswith("vLLM is not installed; only 15 rows of 131,072 tokens fit")


def test_more_rows_fit_where_no_learner_is():
    # By hand: 0.4 and 0.7 · (139 GiB − 3.09 GB) / (28,672 · 32,768) = 62.2… and 108.9…
    beside, alone = choice(window=32_768), choice(window=32_768, alone=True)
    assert (beside.kind, alone.kind) == ("vllm", "local")
    assert "only 62 rows" in beside.reason
    assert "108 rows" in alone.reason


def test_the_border():
    parameters = 10**9
    free = FEWEST_ROWS * PER_TOKEN * 1_000 / 0.4
    around = Surroundings(int(free) + 1 + 2 * parameters, has_vllm=True)
    assert choice(window=1_000, around=around, parameters=parameters).kind == "local"
    assert choice(window=1_001, around=around, parameters=parameters).kind == "vllm"


def test_a_model_that_does_not_even_fit_has_no_rows():
    around = Surroundings(GIB, has_vllm=False)
    assert "only 0 rows" in choice(around=around).reason


def test_without_a_gpu_nobody_counts_anything():
    def refuse():
        raise AssertionError("counting takes a second")

    chosen = choose_engine(
        "auto", CONFIG, window=4_608, parameters=refuse, surroundings=Surroundings(None, has_vllm=True)
    )
    assert (chosen.kind, chosen.is_matter_of_course) == ("local", True)


def test_what_is_asked_for_is_taken():
    assert choice("local", window=10**6).kind == "local"
    assert choice("vllm").kind == "vllm"
    assert choice("openai", url="http://here/v1").kind == "openai"
    assert str(choice(url="http://here/v1")) == "openai engine: completions come from http://here/v1"


@pytest.mark.parametrize(
    ("wanted", "url", "around", "message"),
    [
        ("openai", None, H200, "without the address of a server; set engine.url"),
        ("local", "http://here", H200, "http://here with the engine 'local'"),
        ("vllm", "http://here", H200, "http://here with the engine 'vllm'"),
        ("vllm", None, Surroundings(None, has_vllm=True), "there is no GPU here"),
        ("vllm", None, Surroundings(GIB, has_vllm=False), r"pip install 'mada-rl\[vllm\]'"),
    ],
)
def test_what_cannot_be_had_is_refused(wanted, url, around, message):
    with pytest.raises(EngineError, match=message):
        choice(wanted, url=url, around=around)


def test_this_machine_can_be_looked_at():
    assert isinstance(Surroundings.here().has_vllm, bool)
