"""A served team on a GPU, with the local engine and with vLLM: streams, seeds, clients that go away."""

import asyncio
import gc
import importlib.util
from dataclasses import replace

import httpx2
import pytest
import torch

from factories import save_chat_model
from mada.agents import DebateSettings
from mada.recipe.schema import EngineSection, ModelSection
from mada.serve.app import make_app
from mada.serve.service import ServerLimits, Service
from mada.serve.store import DebateStore
from mada.serve.teams import Catalogue
from mada.team import TeamSpec
from mada_server import chunks

# vLLM and what it imports warn of much that is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")
NEEDS_VLLM = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="needs vLLM: pip install 'mada-rl[vllm]'"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    # Of a real model's shape: of a tiny one's cache there would be millions of blocks.
    return save_chat_model(
        tmp_path_factory.mktemp("base"),
        hidden_size=896,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=14,
        num_key_value_heads=2,
        initializer_range=0.05,
        torch_dtype=torch.bfloat16,
    )


@pytest.mark.parametrize("kind", ["local", pytest.param("vllm", marks=NEEDS_VLLM)])
def test_a_team_is_served(model, kind):
    async def main():
        spec = TeamSpec.untrained(
            ModelSection(name=str(model), dtype="bfloat16", window=4096),
            generators=3,
            critics=2,
            settings=replace(DebateSettings(), max_new_tokens=200),
            engine=EngineSection(kind=kind, rows=16),
        )
        catalogue = Catalogue({"team": spec})
        await catalogue.load(queue=100, at_once=None)
        service = Service(catalogue, DebateStore(None), limits=ServerLimits(queue=100))
        try:
            await use(service)
        finally:
            await service.close()

    async def use(service):
        body = {"model": "mada", "messages": [{"role": "user", "content": "What is 6 × 7?"}], "seed": 3}
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(make_app(service)), base_url="http://localhost", timeout=300
        ) as client:
            path = "/v1/chat/completions"
            whole = (await client.post(path, json=body)).json()
            assert whole["usage"]["completion_tokens"] > 100
            made = chunks(await client.post(path, json={**body, "stream": True}))
            deltas = [one["choices"][0]["delta"] for one in made if one["choices"]]
            texts = [one["reasoning_content"] for one in deltas if "reasoning_content" in one]
            assert len(texts) > 2, "the turns came at once"
            # In bfloat16 the batch's size may change a token, and with it the rest of a reply.
            said = whole["choices"][0]["message"]["reasoning_content"]
            assert "".join(texts)[:40] == said[:40]
            many = await asyncio.gather(*(client.post(path, json={**body, "seed": seed}) for seed in range(40)))
            assert {reply.status_code for reply in many} == {200}
            leaving = [asyncio.create_task(client.post(path, json={**body, "seed": seed})) for seed in range(20)]
            await asyncio.sleep(0.3)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
            assert (await client.post(path, json=body)).status_code == 200
            [served] = service.catalogue.models
            assert (served.admission.working, served.admission.waiting) == (0, 0)

    with asyncio.Runner() as runner:
        runner.run(main())
    # Other tests count the memory that is free.
    gc.collect()
    torch.cuda.empty_cache()
