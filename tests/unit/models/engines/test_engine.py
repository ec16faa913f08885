"""Checks of requests, and the engine for tests."""

import asyncio

import pytest

from mada.errors import EngineError
from mada.models.engines import Completion, Sampling, ScriptedEngine, ScriptedRequest
from mada.models.engines.engine import check_request


@pytest.mark.parametrize("field", ["max_tokens", "temperature", "top_p", "top_k"])
def test_sampling_settings_are_checked(field):
    with pytest.raises(ValueError, match=field):
        Sampling(**{"max_tokens": 5, field: -1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [([], "empty"), ([4] * 64, "64 tokens and the engine's context is 64"), ([61], "token 61"), ([-1], "token -1")],
)
def test_prompts_are_checked(prompt, message):
    with pytest.raises(EngineError, match=message):
        check_request(prompt, 1, vocabulary=61, context=64)


def test_a_scripted_engine_calls_a_function_and_keeps_its_requests():
    engine = ScriptedEngine(lambda request: [request.index, *request.prompt_ids])
    completions = asyncio.run(engine.sample("critic-2", [8, 9], Sampling(max_tokens=10), n=2))
    assert completions == [Completion((0, 8, 9), (0.0, 0.0, 0.0), "end"), Completion((1, 8, 9), (0.0, 0.0, 0.0), "end")]
    assert engine.requests == [
        ScriptedRequest("critic-2", (8, 9), Sampling(max_tokens=10), index) for index in range(2)
    ]


def test_scripted_replies_are_cut_like_sampled_ones():
    engine = ScriptedEngine(lambda request: [1, 2, 3, 4])

    def reply(**settings):
        return asyncio.run(engine.sample(None, [1], Sampling(**settings)))[0]

    assert reply(max_tokens=2) == Completion((1, 2), (0.0, 0.0), "length")
    assert reply(max_tokens=9, stop_tokens=(2, 3)) == Completion((1, 2), (0.0, 0.0), "end")
    assert reply(max_tokens=4) == Completion((1, 2, 3, 4), (0.0,) * 4, "end")


def test_a_script_may_be_a_coroutine_and_return_a_completion():
    completion = Completion((5,), (-0.5,), "length")

    async def script(request):
        await asyncio.sleep(0)
        return completion

    assert asyncio.run(ScriptedEngine(script).sample(None, [1], Sampling(max_tokens=1))) == [completion]
