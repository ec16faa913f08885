"""Engines and commands against vLLM itself, on a CPU: `make vllm` installs it apart and runs this."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import torch

from mada.debate.prompts import ChatTokenizer, Prompts, render
from mada.errors import EngineError
from mada.models.adapters import AdapterStack, Lora, save_adapter
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.openai import OpenAIEngine
from mada.models.loading import Base, load_base
from vllm_server.running import running_vllm

PYTHON = os.environ.get("MADA_VLLM_PYTHON")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="MADA_VLLM_PYTHON names no Python with vLLM; `make vllm` does")

UPDATES = Path(__file__).resolve().parents[1] / "vllm_server" / "updates.py"
SOURCES = Path(__file__).resolve().parents[2] / "src"
NANO = SOURCES / "mada" / "models" / "nano"
AGENTS = ("generator-1", "generator-2", "critic-1")
MODELS = {None: "mada-nano", **{agent: agent for agent in AGENTS}}
QUESTIONS = ("Calculate 64 + 57 - 38.", "Calculate 9 - 4 + 71.", "Calculate 12 + 30 - 7 + 5.")


@dataclass(frozen=True)
class Served:
    """The address of the server, and the very model and adapters that it serves."""

    url: str
    base: Base
    local: LocalEngine

    def connect(self, **models: str) -> OpenAIEngine:
        return OpenAIEngine(self.url, models={**MODELS, **models}, tokenizer=self.base.tokenizer)

    def prompts(self) -> list[list[int]]:
        tokenizer = cast("ChatTokenizer", self.base.tokenizer)
        texts = [render(Prompts().ask(question), tokenizer=tokenizer) for question in QUESTIONS]
        return [self.base.tokenizer.encode(text, add_special_tokens=False) for text in texts]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vllm")
    base = load_base("mada-nano")
    stack = AdapterStack.attach(base.model, AGENTS, Lora(rank=4, alpha=8))
    with torch.no_grad():
        for number, parameter in enumerate(stack.parameters().values()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter.copy_(noise * 0.03)
    adapters = {agent: folder / agent for agent in AGENTS}
    for agent, path in adapters.items():
        save_adapter(stack, agent, path, base_name="mada-nano")
    assert PYTHON is not None
    with running_vllm(PYTHON, NANO, name="mada-nano", adapters=adapters, log=folder / "vllm.log") as url:
        yield Served(url, base, LocalEngine(base.model, stack, context=512))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def all_of(engine, prompts, sampling, *, n=1):
    """Every agent's answers to every prompt, asked at the same time."""
    asked = [(agent, index) for agent in MODELS for index in range(len(prompts))]
    answers = await asyncio.gather(*(engine.sample(agent, prompts[index], sampling, n=n) for agent, index in asked))
    return dict(zip(asked, answers, strict=True))


def test_every_adapter_answers_as_it_does_here(served):
    greedy = Sampling(max_tokens=60, temperature=0.0, stop_tokens=(1,))

    async def both():
        engine = served.connect()
        await engine.check()
        there = await all_of(engine, served.prompts(), greedy)
        await engine.close()
        return there, await all_of(served.local, served.prompts(), greedy)

    there, here = asyncio.run(both())
    assert {key: one.token_ids for key, [one] in there.items()} == {key: one.token_ids for key, [one] in here.items()}
    for key, [one] in there.items():
        torch.testing.assert_close(torch.tensor(one.log_probs), torch.tensor(here[key][0].log_probs), atol=2e-3, rtol=0)
    # The adapters are not all the same, nor the bare base's.
    assert len({one.token_ids for (_, index), [one] in there.items() if index == 0}) > 1


def test_samples_have_the_log_probs_that_the_model_here_gives_them(served):
    sampling = Sampling(max_tokens=40, temperature=1.0, stop_tokens=(1,), seed=5)

    async def sampled():
        engine = served.connect()
        found = await all_of(engine, served.prompts(), sampling, n=4)
        await engine.close()
        return found

    stack = served.local._stack
    assert stack is not None
    found = asyncio.run(sampled())
    distinct = [len({one.token_ids for one in group}) for group in found.values()]
    assert max(distinct) > 1, "a group's samples are drawn apart"
    for (agent, index), group in found.items():
        for one in group:
            prompt = served.prompts()[index]
            ids = torch.tensor([[*prompt, *one.token_ids]])
            with torch.no_grad(), stack.routed([agent]):
                likely = stack.model(ids).logits[0].log_softmax(-1)[len(prompt) - 1 : -1]
            own = likely.gather(1, torch.tensor(one.token_ids)[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(one.log_probs), own, atol=2e-3, rtol=0)


def test_an_adapter_that_the_server_lacks_is_named(served):
    async def ask():
        engine = served.connect(**{"critic-9": "critic-9"})
        try:
            await engine.check()
        finally:
            await engine.close()

    with pytest.raises(EngineError, match=r"critic-9.*generator-1"):
        asyncio.run(ask())


def test_a_debate_through_the_server_is_the_debate_held_here(served):
    def said(*more: str) -> list[list[str]]:
        command = [*(sys.executable, "-m", "mada", "debate", "--model", "mada-nano", "--temperature", "0", "--json")]
        done = subprocess.run([*command, *more, QUESTIONS[0]], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return [[turn["response"]["text"] for turn in one["turns"]] for one in json.loads(done.stdout)["rounds"]]

    there = said("--server", served.url)
    assert [len(one) for one in there] == [3, 3]
    assert there == said()


def test_an_update_reaches_vllm_and_nothing_of_before_is_left(tmp_path):
    """VllmEngine in the other environment, which has no pytest: a script there prints what is asserted here."""
    assert PYTHON is not None
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, UPDATES],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    for when in ("first", "updated"):
        found = report[when]
        assert found["adapters"] < 1e-3
        assert found["base"] < 1e-3
        assert found["greedy as here"] == found["greedy"] == 9
        assert found["distinct greedy"] >= 3
    assert report["older samples"] > 0.1, "what was sampled before the update is unlikely after it"
    assert report["loaded"] == report["current"] == [3, 4]
    assert report["files"] == 2
