"""The engine that tests are written with."""

import asyncio

from mada.models.engines import Completion, Sampling, ScriptedEngine, ScriptedRequest


def test_it_replies_from_a_function_and_remembers_what_it_was_asked():
    engine = ScriptedEngine(lambda request: [request.index, *request.prompt_ids])
    completions = asyncio.run(engine.sample("critic-2", [8, 9], Sampling(max_tokens=10), n=2))
    assert completions == [Completion((0, 8, 9), (0.0, 0.0, 0.0), "end"), Completion((1, 8, 9), (0.0, 0.0, 0.0), "end")]
    assert engine.requests == [
        ScriptedRequest("critic-2", (8, 9), Sampling(max_tokens=10), place) for place in range(2)
    ]


def test_replies_are_cut_as_sampled_ones_are():
    engine = ScriptedEngine(lambda request: [1, 2, 3, 4])

    def reply(**settings):
        return asyncio.run(engine.sample(None, [1], Sampling(**settings)))[0]

    assert reply(max_tokens=2) == Completion((1, 2), (0.0, 0.0), "length")
    assert reply(max_tokens=9, stop_tokens=(2, 3)) == Completion((1, 2), (0.0, 0.0), "end")
    assert reply(max_tokens=4) == Completion((1, 2, 3, 4), (0.0,) * 4, "end")


def test_a_script_may_take_its_time_and_return_a_whole_completion():
    whole = Completion((5,), (-0.5,), "length")

    async def script(request):
        await asyncio.sleep(0)
        return whole

    assert asyncio.run(ScriptedEngine(script).sample(None, [1], Sampling(max_tokens=1))) == [whole]
