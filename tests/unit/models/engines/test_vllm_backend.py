"""The arguments that vLLM gets, and how its outputs and failures are read; tests/gpu runs vLLM itself."""

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mada.errors import EngineError
from mada.models.engines import Sampling, vllm_backend
from mada.models.engines.vllm_backend import (
    GIB,
    AdapterVersion,
    VllmBackend,
    VllmSettings,
    capture_sizes,
    engine_arguments,
    lora_rank,
    memory_share,
    sampling_arguments,
)

SETTINGS = VllmSettings(
    model="base", revision="abc", dtype="bfloat16", context=4608, rows=100, memory=0.5, seed=3, agents=6, rank=20,
    can_sleep=True,
)  # fmt: skip
VERSION = AdapterVersion("one@3", 7, Path("/dev/shm/7"))


def test_engine_arguments():
    arguments = engine_arguments(SETTINGS)
    wanted = {
        "enable_lora": True, "max_loras": 7, "max_cpu_loras": 13, "max_lora_rank": 32,
        "logprobs_mode": "processed_logprobs", "generation_config": "vllm", "max_model_len": 4608, "max_num_seqs": 100,
        "gpu_memory_utilization": 0.5, "enable_sleep_mode": True, "revision": "abc", "enforce_eager": False, "seed": 3,
        "max_num_batched_tokens": 8192,
    }  # fmt: skip
    assert wanted.items() <= arguments.items()
    plain = engine_arguments(VllmSettings("base", None, "auto", 64, 10_000, 0.5, 0, eager=True))
    assert not [name for name in plain if "lora" in name]
    assert (plain["max_num_batched_tokens"], plain["enforce_eager"]) == (10_000, True)
    assert "cudagraph_capture_sizes" not in plain


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (32, [1, 2, 4, 8, 12, 16, 24, 32]),
        (100, [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 100]),
    ],
)
def test_capture_sizes(rows, sizes):
    assert capture_sizes(rows) == sizes


def test_ranks_are_rounded_up():
    assert [lora_rank(rank) for rank in (1, 2, 8, 9, 257, 512)] == [1, 8, 8, 16, 320, 512]
    with pytest.raises(EngineError, match="rank 513"):
        lora_rank(513)


def test_sampling_arguments():
    sampling = Sampling(max_tokens=9, temperature=0.7, top_p=0.9, stop_tokens=(5, 2))
    assert sampling_arguments(sampling, seed=11, limit=4) == {
        "temperature": 0.7, "top_p": 0.9, "top_k": 0, "seed": 11, "max_tokens": 4, "ignore_eos": True,
        "stop_token_ids": [5, 2], "logprobs": 0, "flat_logprobs": True, "detokenize": False, "skip_clone": True,
    }  # fmt: skip
    assert sampling_arguments(Sampling(max_tokens=9, top_k=20), seed=0, limit=9)["top_k"] == 20
    for temperature in (0.0, 0.01, 2.0):
        sampling = Sampling(max_tokens=1, temperature=temperature)
        assert sampling_arguments(sampling, seed=0, limit=1)["temperature"] == temperature
    for temperature in (0.005, 2.5):
        with pytest.raises(EngineError, match=str(temperature)):
            sampling_arguments(Sampling(max_tokens=1, temperature=temperature), seed=0, limit=1)


def test_memory_share():
    assert memory_share(100 * GIB, 140 * GIB, reserve=20 * GIB) == pytest.approx(77 / 140)
    assert memory_share(139 * GIB, 140 * GIB, reserve=0) == 0.92
    with pytest.raises(EngineError, match=r"10\.0 GiB free, of which 7\.0 GiB are reserved"):
        memory_share(10 * GIB, 140 * GIB, reserve=7 * GIB)


def test_a_missing_vllm_names_the_extra(monkeypatch):
    for name in (*vllm_backend._ENVIRONMENT, "VLLM_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "?")
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match=r"mada-rl\[vllm\]"):
        asyncio.run(VllmBackend.start(SETTINGS))
    assert os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert os.environ["VLLM_LOGGING_LEVEL"] == "?"


def test_a_completion_is_read_whole():
    flat = SimpleNamespace(logprobs=[-0.5, -9.0, -0.25], start_indices=[0, 2])
    completion = SimpleNamespace(token_ids=[4, 8], logprobs=flat, finish_reason="stop")
    found = vllm_backend._output(SimpleNamespace(outputs=[completion], prompt_token_ids=[1] * 40, num_cached_tokens=32))
    assert (found.token_ids, found.log_probs, found.finish_reason, found.prompt_tokens) == (
        (4, 8),
        (-0.5, -0.25),
        "stop",
        8,
    )


class FakeAsyncLLM:
    """As much of AsyncLLM as `load` needs: it llm, fails, or stays silent."""

    def __init__(self, *, failure=None, errored=False, silent=False):
        self.failure, self.errored, self.silent = failure, errored, silent
        self.asked = []

    async def add_lora(self, request):
        self.asked.append(request)
        if self.silent:
            await asyncio.Event().wait()
        if self.failure:
            raise self.failure
        return True


def load(llm):
    vllm = SimpleNamespace(LoRARequest=lambda *given: given)
    asyncio.run(asyncio.wait_for(VllmBackend(llm, vllm).load(VERSION), timeout=10))


def test_an_adapter_is_loaded_by_name_number_and_folder():
    llm = FakeAsyncLLM()
    load(llm)
    assert llm.asked == [("one@3", 7, "/dev/shm/7")]


def test_what_fails_over_there_is_an_engine_error():
    with pytest.raises(EngineError, match="cannot load one@3: no such module"):
        load(FakeAsyncLLM(failure=Exception("no such module")))


@pytest.mark.parametrize("how", [{"silent": True}, {"failure": RuntimeError("dead")}])
def test_a_dead_process_is_not_waited_for(monkeypatch, how):
    monkeypatch.setattr(vllm_backend, "_LIVENESS_INTERVAL", 0.01)
    with pytest.raises(EngineError, match="process has ended"):
        load(FakeAsyncLLM(errored=True, **how))
