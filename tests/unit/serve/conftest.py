"""A server's application in this process, on engines whose replies a test writes."""

import asyncio
from dataclasses import replace

import httpx2
import pytest

from factories import byte_tokenizer
from mada.agents import DebateSettings, LoadedModel
from mada.models.engines import EngineStatistics, ScriptedEngine
from mada.models.loading import ChatModel
from mada.recipe.schema import EngineSection, ModelSection
from mada.serve.app import make_app
from mada.serve.service import ServerLimits, Service
from mada.serve.store import DebateStore
from mada.serve.teams import Catalogue
from mada.team import TeamSpec

WINDOW = 2000


class Engine(ScriptedEngine):
    """A scripted engine with room for eight rows."""

    slots = 8
    statistics = EngineStatistics()
    rows_in_use = 0


class Application:
    """An application: `post` and `get` as clients do, and what it is made of."""

    def __init__(self, service, loads):
        self.service, self.loads = service, loads
        self.app = make_app(service)

    def client(self, **headers):
        transport = httpx2.ASGITransport(self.app)
        return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    async def get(self, path, **headers):
        async with self.client(**headers) as client:
            return await client.get(path)

    async def post(self, path, body, **headers):
        async with self.client(**headers) as client:
            return await client.post(path, json=body)

    async def chat(self, *messages, model="mada", **fields):
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
        return await self.post("/v1/chat/completions", {"model": model, "messages": said, **fields})


@pytest.fixture
def tokenizer():
    return byte_tokenizer()


@pytest.fixture
def serve(tokenizer, monkeypatch):
    """Return a function that runs a coroutine function of an application; `script` gets requests and gives text."""

    def run(use, *, script, limits=None, keys=(), critics=3, engines=None, max_new_tokens=200):
        end = tokenizer.eos_token_id

        def written(reply):
            return [*tokenizer.encode(reply), end] if isinstance(reply, str) else reply

        def tokens(request):
            text = tokenizer.decode(request.prompt_ids, skip_special_tokens=False)
            reply = script(request, text)
            if asyncio.iscoroutine(reply):

                async def later():
                    return written(await reply)

                return later()
            return written(reply)

        made = iter(engines or [])
        loads = []

        async def load_model(model, adapters, **_):
            loads.append(model.name)
            engine = next(made, None) or Engine(tokens)
            return LoadedModel(ChatModel("tiny", tokenizer, (end,), WINDOW), engine, WINDOW, "none", "none", 0)

        monkeypatch.setattr("mada.serve.teams.load_model", load_model)

        async def main():
            spec = TeamSpec.untrained(
                ModelSection(name="tiny"),
                generators=3,
                critics=critics,
                settings=replace(DebateSettings(), max_new_tokens=max_new_tokens),
                engine=EngineSection(kind="local"),
            )
            own = limits or ServerLimits()
            catalogue = Catalogue({"team": spec})
            await catalogue.load(queue=own.queue, at_once=own.at_once)
            service = Service(catalogue, DebateStore(None), limits=own, keys=keys)
            application = Application(service, loads)
            try:
                return await asyncio.wait_for(use(application), 60)
            finally:
                await service.close()

        return asyncio.run(main())

    return run
