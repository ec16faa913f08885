"""Sharing: each distinct request once, and nobody's end is another's."""

import asyncio

import pytest

from mada.errors import EngineError
from mada.evaluation.sample_cache import CachingEngine, InMemoryCache, SampleKey
from mada.models.engines import ScriptedEngine
from mada.models.engines.engine import Completion, Sampling

SAMPLING = Sampling(max_tokens=8, seed=3)


def spelled(request):
    """Tokens that depend on all of the request."""
    return [len(request.agent or ""), *request.prompt_ids, request.sampling.seed, request.index]


def test_equal_requests_are_sampled_once_whether_together_or_later():
    async def ask():
        below = ScriptedEngine(spelled)
        engine = CachingEngine(below)
        together = await asyncio.gather(*(engine.sample("a", [1, 2], SAMPLING, n=2) for _ in range(3)))
        later = await engine.sample("a", (1, 2), SAMPLING, n=2)
        return below, engine, [*together, later]

    below, engine, answers = asyncio.run(ask())
    assert [[one.token_ids for one in answer] for answer in answers] == [[(1, 1, 2, 3, 0), (1, 1, 2, 3, 1)]] * 4
    assert len(below.requests) == 2
    assert (engine.asked, engine.sampled) == (8, 2)


def test_a_caller_cannot_change_what_the_next_one_gets():
    async def ask():
        engine = CachingEngine(ScriptedEngine(spelled))
        (await engine.sample("a", [1], SAMPLING)).clear()
        return await engine.sample("a", [1], SAMPLING)

    assert len(asyncio.run(ask())) == 1


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


async def cancelled(*tasks):
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [isinstance(result, asyncio.CancelledError) for result in results]


def test_one_callers_end_does_not_reach_the_others():
    async def ask():
        gate = Gate()
        engine = CachingEngine(ScriptedEngine(gate))
        first, second, third = await started(engine, 3)
        assert await cancelled(first, third) == [True, True]
        assert gate.cancelled == 0
        gate.open.set()
        assert [one.token_ids for one in await second] == [(7,)]
        assert engine.sampled == 1

    asyncio.run(ask())


def test_what_all_callers_gave_up_is_given_up_and_can_be_asked_for_again():
    async def ask():
        gate = Gate()
        engine = CachingEngine(ScriptedEngine(gate))
        assert await cancelled(*await started(engine, 2)) == [True, True]
        assert gate.cancelled == 1
        gate.open.set()
        assert len(await engine.sample("a", [1], SAMPLING)) == 1
        assert (engine.asked, engine.sampled) == (3, 1)

    asyncio.run(ask())


def test_who_asks_while_an_equal_request_is_being_given_up_gets_a_new_one():
    async def ask():
        gate = Gate()
        engine = CachingEngine(ScriptedEngine(gate))
        [first] = await started(engine, 1)
        first.cancel()
        [second] = await started(engine, 1)
        await asyncio.gather(first, return_exceptions=True)
        gate.open.set()
        assert len(await second) == 1
        assert len(await engine.sample("a", [1], SAMPLING)) == 1
        assert engine.sampled == 1

    asyncio.run(ask())


def test_a_failure_reaches_all_who_wait_and_is_not_remembered():
    failures = [EngineError("too long")]

    def script(request):
        if failures:
            raise failures.pop()
        return [7]

    async def ask():
        engine = CachingEngine(ScriptedEngine(script))
        results = await asyncio.gather(*(engine.sample("a", [1], SAMPLING) for _ in range(2)), return_exceptions=True)
        assert [str(result) for result in results] == ["too long"] * 2
        assert len(await engine.sample("a", [1], SAMPLING)) == 1
        assert (engine.asked, engine.sampled) == (3, 1)

    asyncio.run(ask())


def test_closing_gives_up_what_is_under_way_and_leaves_the_engine_below_open():
    class Below(ScriptedEngine):
        closed = False

        async def close(self):
            self.closed = True

    async def ask():
        gate = Gate()
        below = Below(gate)
        engine = CachingEngine(below)
        [task] = await started(engine, 1)
        await engine.close()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert gate.cancelled == 1
        assert not below.closed

    asyncio.run(ask())


class Notebook:
    """A cache that notes, in order, what it is asked and what it is given."""

    def __init__(self, known=None):
        self.known, self.notes = dict(known or {}), []

    def get(self, key):
        self.notes.append(("get", key))
        return self.known.get(key)

    def put(self, key, completions):
        self.notes.append(("put", key))
        self.known[key] = list(completions)


KEY = SampleKey("a", (1, 2), SAMPLING, 2)


def test_the_cache_is_asked_first_and_told_afterwards():
    async def ask():
        cache = Notebook()
        below = ScriptedEngine(lambda request: cache.notes.append("sample") or [7, request.index])
        engine = CachingEngine(below, cache)
        first = await engine.sample("a", [1, 2], SAMPLING, n=2)
        assert cache.notes == [("get", KEY), "sample", "sample", ("put", KEY)]
        assert cache.known == {KEY: first}
        cache.notes.clear()
        assert await engine.sample("a", [1, 2], SAMPLING, n=2) == first
        assert cache.notes == [("get", KEY)]
        assert (engine.asked, engine.sampled) == (4, 2)

    asyncio.run(ask())


def test_what_the_cache_holds_is_never_sampled():
    known = [Completion((9,), (-0.5,), "length"), Completion((8,), (-0.25,), "end")]

    async def ask():
        cache = Notebook({KEY: [*known]})
        below = ScriptedEngine(spelled)
        engine = CachingEngine(below, cache)
        found = await engine.sample("a", [1, 2], SAMPLING, n=2)
        assert found == known
        found.clear()
        assert cache.known[KEY] == known, "callers get a list of their own"
        assert (below.requests, engine.asked, engine.sampled) == ([], 2, 0)

    asyncio.run(ask())


def test_engines_can_share_a_cache():
    async def ask():
        cache, below = InMemoryCache(), ScriptedEngine(spelled)
        first = await CachingEngine(below, cache).sample("a", [1, 2], SAMPLING)
        assert await CachingEngine(below, cache).sample("a", [1, 2], SAMPLING) == first
        assert len(below.requests) == 1

    asyncio.run(ask())


def test_who_asks_when_a_sample_is_under_way_waits_for_it_and_it_is_kept_once():
    async def ask():
        cache, gate = Notebook(), Gate()
        engine = CachingEngine(ScriptedEngine(gate), cache)
        tasks = await started(engine, 3)
        gate.open.set()
        await asyncio.gather(*tasks)
        assert [what for what, _ in cache.notes] == ["get", "put"]

    asyncio.run(ask())


def test_neither_failures_nor_what_was_given_up_is_kept():
    def failing(request):
        raise EngineError("too long")

    async def ask():
        cache, gate = Notebook(), Gate()
        failed = CachingEngine(ScriptedEngine(failing), cache)
        with pytest.raises(EngineError, match="too long"):
            await failed.sample("a", [1], SAMPLING)
        await cancelled(*await started(CachingEngine(ScriptedEngine(gate), cache), 1))
        assert cache.known == {}
        assert [what for what, _ in cache.notes] == ["get", "get"]

    asyncio.run(ask())
