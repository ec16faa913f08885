"""The engine of a completion server, against a real one: what it samples is what the model there samples."""

import asyncio
from dataclasses import replace

import pytest

from completion_server.running import running_server
from completion_server.server import make_engine
from mada.debate.prompts import Prompts, render
from mada.debate.protocol import run_debate
from mada.errors import EngineError
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Completion, PacedEngine, Sampling
from mada.models.engines.openai import OpenAIEngine

AGENTS = ("generator-1", "generator-2", "critic-1")
MODELS = {None: "mada-nano", **{agent: agent for agent in AGENTS}}
GREEDY = Sampling(max_tokens=60, temperature=0.0, stop_tokens=(1,))


@pytest.fixture(scope="module")
def server():
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def local():
    """The tokenizer and the engine that the server has too, in this process."""
    return make_engine()


@pytest.fixture(scope="module")
def prompt(local):
    text = render(Prompts().ask("Calculate 64 + 57 - 38."), tokenizer=local[0])
    return local[0].encode(text, add_special_tokens=False)


@pytest.fixture(scope="module")
def wanted(local, prompt):
    """What each agent says to the prompt, likeliest tokens only."""

    async def all_of():
        return {agent: (await local[1].sample(agent, prompt, GREEDY))[0] for agent in MODELS}

    return asyncio.run(all_of())


@pytest.fixture
def connect(server, local, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def make(flags, **settings):
        return OpenAIEngine(server.url(flags), **{"models": MODELS, "tokenizer": local[0], **settings})

    return make


def test_greedy_replies_are_the_local_engines_token_for_token(connect, wanted, prompt):
    engine: PacedEngine = connect("plain")
    asyncio.run(connect("plain").check())
    found = {}
    for agent in MODELS:
        want = wanted[agent]
        [found[agent]] = asyncio.run(engine.sample(agent, prompt, GREEDY))
        assert (found[agent].token_ids, found[agent].stop) == (want.token_ids, "end")
        assert found[agent].log_probs == pytest.approx(want.log_probs, abs=1e-4)
    assert len({one.token_ids for one in found.values()}) > 2, "adapters that say the same prove nothing"
    assert engine.statistics.prompt_tokens == len(prompt) * 4
    assert engine.statistics.generated_tokens == sum(len(one.token_ids) for one in found.values())
    assert engine.statistics.seconds > 0


def test_a_seed_decides_a_group_and_its_order(connect, local, prompt, server):
    sampling = Sampling(max_tokens=40, stop_tokens=(1,), seed=2**63 + 11, top_k=20, top_p=0.95)
    want = asyncio.run(local[1].sample("critic-1", prompt, replace(sampling, seed=11), n=4))
    one, two = (asyncio.run(connect("seeds").sample("critic-1", prompt, sampling, n=4)) for _ in range(2))
    other = asyncio.run(connect("seeds").sample("critic-1", prompt, replace(sampling, seed=12), n=4))
    assert [each.token_ids for each in one] == [each.token_ids for each in want]
    assert one == two
    assert other != one
    assert len({each.token_ids for each in one}) > 1
    sent = server.seen("seeds")["bodies"][0]
    assert sent["seed"] == 11
    assert (sent["n"], sent["top_k"], sent["top_p"], sent["prompt"]) == (4, 20, 0.95, prompt)


def test_a_greedy_reply_is_sampled_once(connect, prompt, server):
    engine = connect("greedy")
    completions = asyncio.run(engine.sample(None, prompt, GREEDY, n=3))
    assert len(completions) == 3
    assert completions[0] == completions[1] == completions[2]
    assert [body["n"] for body in server.seen("greedy")["bodies"]] == [1]
    assert engine.statistics.generated_tokens == len(completions[0].token_ids)


def test_stop_tokens_and_length_end_a_reply(connect, local, prompt):
    engine = connect("ends")
    [whole] = asyncio.run(engine.sample(None, prompt, GREEDY))
    newline = local[0].encode("\n", add_special_tokens=False)[0]
    end = whole.token_ids.index(newline)
    [line] = asyncio.run(engine.sample(None, prompt, replace(GREEDY, stop_tokens=(1, newline))))
    assert line == Completion(whole.token_ids[: end + 1], pytest.approx(whole.log_probs[: end + 1]), "end")  # type: ignore[arg-type]
    [short] = asyncio.run(engine.sample(None, prompt, replace(GREEDY, max_tokens=5)))
    assert (short.token_ids, short.stop) == (whole.token_ids[:5], "length")


@pytest.mark.parametrize(
    ("flags", "has_log_probs"),
    [
        ("ids-in-logprobs", True),
        ("no-logprobs,no-usage", False),
        ("no-ids", False),
        ("no-ids,no-logprobs,text-only,strict=400", False),
        ("no-stop-ids", False),
        ("ids-in-logprobs,no-stop-ids", False),
        ("ignores-stop", True),
        ("text-only,strict=422", False),
    ],
)
def test_servers_with_fewer_features_give_the_same(connect, wanted, prompt, flags, has_log_probs):
    engine = connect(flags)
    for agent in (None, "critic-1"):
        want = wanted[agent]
        [got] = asyncio.run(engine.sample(agent, prompt, GREEDY))
        assert (got.token_ids, got.stop) == (want.token_ids, "end")
        assert got.log_probs == (pytest.approx(want.log_probs, abs=1e-4) if has_log_probs else ())
    if "no-usage" in flags:
        assert engine.statistics.prompt_tokens == 2 * len(prompt)


def test_log_probs_at_another_temperature_are_not_taken_for_those_of_the_request(connect, prompt):
    async def log_probs(temperature):
        [completion] = await connect("warm").sample(None, prompt, replace(GREEDY, temperature=temperature))
        return completion.log_probs

    assert asyncio.run(log_probs(0.7)) == ()
    assert len(asyncio.run(log_probs(1.0))) > 1


def test_refused_fields_are_left_out_from_then_on_and_logged_once(connect, server, prompt, caplog):
    engine = connect("strict=400,text-only,name=logged")

    async def twice():
        for _ in range(2):
            await asyncio.gather(*(engine.sample(None, prompt, replace(GREEDY, max_tokens=2)) for _ in range(3)))

    asyncio.run(twice())
    last = server.seen("strict=400,text-only,name=logged")["bodies"][-1]
    assert last.keys() == {"model", "prompt", "max_tokens", "temperature", "top_p", "n", "seed", "logprobs"}
    assert last["prompt"].startswith("<|user|>Solve the following")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("mada")]
    assert len(lines) == 10
    assert sum("refuses stop_token_ids (Unrecognized request" in one and "are cut" in one for one in lines) == 1
    assert sum("prompts are sent to it as text" in one for one in lines) == 1
    assert sum("its text is encoded" in one for one in lines) == 1


def test_refusals_in_fastapis_form_blame_their_fields_and_no_words(connect, server, prompt):
    asyncio.run(connect("strict=422,name=loc").sample(None, prompt, replace(GREEDY, max_tokens=2)))
    first, second = server.seen("strict=422,name=loc")["bodies"]
    assert len(first) - len(second) == 8
    assert second["seed"] == 0  # the server's message has the word in it


def test_top_k_is_only_left_out_where_nobody_asked_for_it(connect, prompt):
    engine = connect("refuses=top_k")
    asyncio.run(engine.sample(None, prompt, GREEDY))
    with pytest.raises(EngineError, match="refuses top_k, and top_k = 5 was asked for"):
        asyncio.run(engine.sample(None, prompt, replace(GREEDY, top_k=5)))
    with pytest.raises(EngineError, match="refuses top_k, and top_k = 7 was asked for"):
        asyncio.run(connect("refuses=top_k").sample(None, prompt, replace(GREEDY, top_k=7)))


def test_the_cores_own_fields_are_never_left_out(connect, prompt):
    with pytest.raises(EngineError, match="status 400: there is no max_tokens here"):
        asyncio.run(connect("refuses=max_tokens").sample(None, prompt, GREEDY))


def test_a_prompt_that_text_would_change_is_not_sent_as_text(connect, local, server):
    tokenizer, flags = local[0], "text-only,name=lossy"
    odd = [token for letter in "Calculate" for token in tokenizer.encode(letter, add_special_tokens=False)]
    assert tokenizer.decode(odd) == "Calculate"
    with pytest.raises(EngineError, match=r"refuses prompts of token ids \(.*valid string\).* gives other tokens"):
        asyncio.run(connect(flags).sample(None, odd, GREEDY))
    assert not any(isinstance(body["prompt"], str) for body in server.seen(flags)["bodies"])


def test_a_prompt_that_is_too_long_is_no_reason_to_give_up_token_ids(connect, server, prompt):
    engine = connect("long")
    for _ in range(2):
        with pytest.raises(EngineError, match="status 400: This model's maximum context length"):
            asyncio.run(engine.sample(None, prompt * 100, GREEDY))
        asyncio.run(engine.sample(None, prompt, replace(GREEDY, max_tokens=1)))
    kinds = [type(body["prompt"]).__name__ for body in server.seen("long")["bodies"]]
    # Text is tried as long as it is not known that the server takes ids.
    # Each refusal is followed by a short request, which tells whether the server answers others.
    assert kinds == ["list", "str", *["list"] * 5]


def test_a_debate_through_a_server_is_the_debate_in_this_process(connect, local):
    tokenizer, own = local

    def debate(engine):
        agents = [
            EngineAgent(name, name, engine=engine, tokenizer=tokenizer, prompts=Prompts(), sampling=GREEDY, window=1024)
            for name in AGENTS
        ]
        question = "Calculate 64 + 57 - 38."
        return asyncio.run(run_debate(question, generators=agents[:2], critics=agents[2:], rounds=3, seed=1))

    through_server, here = debate(connect("debate")), debate(own)
    assert through_server == here
    assert [len(one.turns) for one in here.rounds] == [2, 1, 1]
    assert here.rounds[0].turns[0].response.answer is not None


def test_requests_share_connections_and_are_limited_to_the_slots(connect, server, prompt):
    engine = connect("pause=0.05,name=limit", slots=3)

    async def many():
        await asyncio.gather(*(engine.sample(None, prompt, replace(GREEDY, max_tokens=2)) for _ in range(12)))

    asyncio.run(many())
    seen = server.seen("pause=0.05,name=limit")
    assert (seen["requests"], seen["most_running"], engine.slots) == (12, 3, 3)
    assert seen["connections"] <= 6  # about 3; each would open its own if they were not kept


def test_an_engine_outlives_event_loops_and_close(connect, prompt):
    engine = connect("loops")

    async def use():
        await engine.sleep()
        await engine.wake_up()
        completions = await engine.sample(None, prompt, GREEDY)
        await engine.close()
        return completions

    assert asyncio.run(use()) == asyncio.run(use())
