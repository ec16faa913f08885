"""Sharing: each distinct request once, and nobody's end is another's."""

import asyncio

import pytest

from mada.errors import EngineError
from mada.evaluation.sample_cache import CachingEngine, Sample, SampleStore
from mada.models.engines import ScriptedEngine
from mada.models.engines.engine import Sampling
from mada.runs import Records

SAMPLING = Sampling(max_tokens=8, seed=3)


@pytest.fixture
def caching(tmp_path):
    """Make an engine that stores what another samples, in one file."""
    with Records(tmp_path / "samples.jsonl", Sample) as records:
        yield lambda below: CachingEngine(below, SampleStore(records), {"a": "weights of a"})


def spelled(request):
    """Tokens that depend on all of the request."""
    return [len(request.agent or ""), *request.prompt_ids, request.sampling.seed, request.index]


def test_equal_requests_are_sampled_once_whether_together_later_or_by_another_engine(caching):
    async def ask():
        below = ScriptedEngine(spelled)
        engine, other = caching(below), caching(below)
        together = await asyncio.gather(*(engine.sample("a", [1, 2], SAMPLING, n=2) for _ in range(3)))
        together[0].clear()  # callers get lists of their own
        later = await engine.sample("a", (1, 2), SAMPLING, n=2)
        third = caching(below)
        return below, [*together[1:], later, await third.sample("a", [1, 2], SAMPLING, n=2)], engine, other, third

    below, answers, *engines = asyncio.run(ask())
    assert [[one.token_ids for one in answer] for answer in answers] == [[(1, 1, 2, 3, 0), (1, 1, 2, 3, 1)]] * 4
    assert len(below.requests) == 2
    assert [engine.sampled for engine in engines] == [2, 0, 0]


class Gate:
    """A script that waits until it is let through, and notes what became of its requests."""

    def __init__(self):
        self.open = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, request):
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [7]


async def started(engine, count):
    tasks = [asyncio.create_task(engine.sample("a", [1], SAMPLING)) for _ in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("give_up", [2, 3])
def test_one_callers_end_does_not_reach_the_others(caching, give_up):
    async def ask():
        gate = Gate()
        engine = caching(ScriptedEngine(gate))
        tasks = await started(engine, 3)
        for task in tasks[:give_up]:
            task.cancel()
        await asyncio.gather(*tasks[:give_up], return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [True] * give_up + [False] * (3 - give_up)
        gate.open.set()
        assert [one.token_ids for one in await engine.sample("a", [1], SAMPLING)] == [(7,)]
        assert (gate.cancelled, engine.sampled) == (0, 1)

    asyncio.run(ask())


def test_a_failure_reaches_all_who_wait_and_is_not_remembered(caching):
    failures = [EngineError("too long")]

    def script(request):
        if failures:
            raise failures.pop()
        return [7]

    async def ask():
        engine = caching(ScriptedEngine(script))
        results = await asyncio.gather(*(engine.sample("a", [1], SAMPLING) for _ in range(2)), return_exceptions=True)
        assert [str(result) for result in results] == ["too long"] * 2
        assert len(await engine.sample("a", [1], SAMPLING)) == 1
        assert engine.sampled == 1

    asyncio.run(ask())


def test_closing_gives_up_what_is_under_way_and_leaves_the_engine_below_open(caching):
    class Below(ScriptedEngine):
        closed = False

        async def close(self):
            self.closed = True

    async def ask():
        gate = Gate()
        below = Below(gate)
        engine = caching(below)
        [task] = await started(engine, 1)
        await engine.close()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert gate.cancelled == 1
        assert not below.closed
        gate.open.set()
        assert len(await engine.sample("a", [1], SAMPLING)) == 1

    asyncio.run(ask())
