"""The `openai` SDK, which nobody here wrote, asks a real `mada serve`: a team, an agent, and the bare base."""

import asyncio
import math
from typing import Any

import pytest
from openai import (
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    RateLimitError,
)

from mada import Team
from mada.debate.prompts import Prompts
from mada_server import serving

QUESTION = "Calculate 64 + 57 - 38."
KEYS = "first-key, second-key"
TEAM, AGENT, BASE = "mada", "untrained/critic-2", "mada-nano"
LONG = {"model": BASE, "prompt": "1 + ", "max_tokens": 1000, "temperature": 100.0, "n": 128}
"""So many replies, and so random, that some do not end by themselves; they take many seconds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served") / "log", MADA_SERVE_KEYS=KEYS) as server:
        yield server


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory):
    limits = ("--at-once", 1, "--queue", 0, "--time-limit", 1.5, "--max-body", 4)
    with serving(tmp_path_factory.mktemp("strict") / "log", *limits) as server:
        yield server


@pytest.fixture(scope="module")
def team():
    with Team.untrained("mada-nano") as team:
        yield team


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def client(server):
    with OpenAI(base_url=f"{server.url}/v1", api_key="second-key", max_retries=0) as client:
        yield client


@pytest.fixture
def strict(strict_server):
    with OpenAI(base_url=f"{strict_server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def messages(text=QUESTION):
    return [{"role": "user", "content": text}]


def ask(client, model: Any = TEAM, text: Any = QUESTION, **fields: Any):
    return client.chat.completions.create(model=model, messages=messages(text), **fields)


def said_in(debate):
    """What `reasoning_content` should hold: every turn under its agent's name."""
    return "".join(
        f"[round {one.number}, {turn.agent}]\n{turn.response.text}\n\n" for one in debate.rounds for turn in one.turns
    )


def final(debate):
    return f"The final answer is $\\boxed{{{debate.verdict.answer}}}$"


def joined(chunks, field="content"):
    return "".join(getattr(chunk.choices[0].delta, field, None) or "" for chunk in chunks if chunk.choices)


# --- a team


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_gives_the_debate_that_a_team_holds_in_this_process(client, team, seed):
    debate = team.debate_sync(QUESTION, seed=seed)
    reply = ask(client, seed=seed)
    [choice] = reply.choices
    assert choice.message.content == final(debate)
    assert choice.message.reasoning_content == said_in(debate)
    assert choice.finish_reason == "stop"
    assert choice.mada["seed"] == seed
    assert [one["role"] for one in choice.mada["rounds"]] == ["generator", "critic"]
    answers = [[turn["answer"] for turn in one["turns"]] for one in choice.mada["rounds"]]
    assert answers == [[turn.response.answer for turn in one.turns] for one in debate.rounds]
    assert choice.mada["verdict"]["answer"] == debate.verdict.answer
    votes = {one["answer"]: one["count"] for one in choice.mada["verdict"]["votes"]}
    assert votes == {one.answer: one.count for one in debate.verdict.votes}
    assert ask(client, seed=seed).choices[0].message == choice.message


def test_usage_is_the_sum_of_all_turns_of_all_choices(client, team):
    debate = team.debate_sync(QUESTION, seed=3)
    turns = [turn for one in debate.rounds for turn in one.turns]
    usage = ask(client, seed=3).usage
    assert usage.completion_tokens == sum(turn.response.token_count for turn in turns)
    assert usage.prompt_tokens == sum(turn.prompt_tokens for turn in turns)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    three = ask(client, seed=3, n=3)
    spoken = [turn["tokens"] for one in three.choices for held in one.mada["rounds"] for turn in held["turns"]]
    assert three.usage.completion_tokens == sum(spoken)


def test_n_are_debates_of_their_own_of_which_the_first_has_the_seed(client):
    replies = ask(client, seed=3, n=4, temperature=2.0)
    assert [one.index for one in replies.choices] == [0, 1, 2, 3]
    assert len({one.message.reasoning_content for one in replies.choices}) == 4
    assert replies.choices[0].message == ask(client, seed=3, temperature=2.0).choices[0].message
    again = ask(client, seed=3, n=4, temperature=2.0)
    assert [one.message for one in again.choices] == [one.message for one in replies.choices]


def test_without_a_seed_every_debate_has_another(client):
    first, second = ask(client), ask(client)
    assert first.choices[0].mada["seed"] != second.choices[0].mada["seed"]
    again = ask(client, seed=first.choices[0].mada["seed"])
    assert again.choices[0].message == first.choices[0].message


def test_a_debate_streams_its_turns_and_then_its_verdict(client, team):
    debate = team.debate_sync(QUESTION, seed=5)
    with ask(client, seed=5, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert joined(chunks) == final(debate)
    assert joined(chunks, "reasoning_content") == said_in(debate)
    assert len({chunk.id for chunk in chunks}) == 1
    *_, last, usage = chunks
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].mada["verdict"]["answer"] == debate.verdict.answer
    assert usage.choices == []
    assert usage.usage == ask(client, seed=5).usage
    assert not any(chunk.usage for chunk in chunks[:-1])


def test_the_helper_for_streams_puts_several_debates_together(client):
    with client.chat.completions.stream(model=TEAM, messages=messages(), seed=5, n=2) as stream:
        together = stream.get_final_completion()
    whole = ask(client, seed=5, n=2)
    assert [one.message.content for one in together.choices] == [one.message.content for one in whole.choices]


def test_temperature_0_top_p_and_top_k_are_honoured(client):
    greedy = ask(client, temperature=0, seed=1).choices[0].message
    assert ask(client, temperature=0, seed=2).choices[0].message == greedy
    assert ask(client, temperature=1, top_p=1e-9, seed=3).choices[0].message == greedy
    assert ask(client, temperature=1, seed=4, extra_body={"top_k": 1}).choices[0].message == greedy
    assert ask(client, temperature=1, seed=3).choices[0].message != greedy


def test_max_tokens_are_those_of_each_turn(client):
    for limit in ({"max_tokens": 5}, {"max_completion_tokens": 5}):
        reply = ask(client, **limit)
        turns = [turn for one in reply.choices[0].mada["rounds"] for turn in one["turns"]]
        assert all(turn["tokens"] == 5 and turn["truncated"] for turn in turns)
        assert reply.choices[0].message.content == "No agent gave a final answer."
        assert reply.usage.completion_tokens == 30


def test_a_stop_cuts_the_verdict(client):
    assert ask(client, seed=0, stop=["$"]).choices[0].message.content == "The final answer is "


def test_rounds_and_events_are_asked_for_in_the_field_mada(client):
    one = ask(client, extra_body={"mada": {"rounds": 1}})
    assert [held["role"] for held in one.choices[0].mada["rounds"]] == ["generator"]
    three = ask(client, extra_body={"mada": {"rounds": 3}})
    assert len(three.choices[0].mada["rounds"]) == 3
    with ask(client, stream=True, extra_body={"mada": {"events": True}}) as stream:
        kinds = [event["type"] for chunk in stream if hasattr(chunk, "mada") for event in chunk.mada["events"]]
    assert kinds[0] == "started"
    assert kinds[-1] == "verdict"
    assert (kinds.count("round"), kinds.count("turn")) == (2, 6)


def test_a_chat_of_several_messages_is_one_question(client, team):
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is 1 + 1?"}]},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": QUESTION},
    ]
    question = (
        "Be brief.\n\nThis was said before:\n\nUser: What is 1 + 1?\n\nAssistant: 2\n\n"
        f"With this in mind, answer the following:\n\n{QUESTION}"
    )
    reply = client.chat.completions.create(model=TEAM, messages=chat, seed=2)
    assert reply.choices[0].message.reasoning_content == said_in(team.debate_sync(question, seed=2))


def test_many_clients_at_once_get_what_each_would_alone(server, team):
    async def asked():
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="first-key", max_retries=0) as client:

            async def streamed(seed):
                stream = await ask(client, seed=seed, stream=True)
                return joined([chunk async for chunk in stream], "reasoning_content")

            async def whole(seed):
                return (await ask(client, seed=seed)).choices[0].message.reasoning_content

            return await asyncio.gather(*(one(seed) for seed in range(6) for one in (streamed, whole)))

    expected = [said_in(team.debate_sync(QUESTION, seed=seed)) for seed in range(6)]
    assert asyncio.run(asked()) == [text for text in expected for _ in range(2)]


# --- an agent, and the base


def test_an_agent_is_asked_as_in_a_debate_and_the_base_as_it_stands(client, team):
    generator = team.debate_sync(QUESTION, seed=1).rounds[0].turns[0]
    agent = ask(client, "generator-1", seed=1, temperature=0)
    base = ask(client, BASE, Prompts().ask(QUESTION), seed=1, temperature=0)
    assert agent.choices[0].message.content == base.choices[0].message.content
    assert agent.usage == base.usage
    assert agent.usage.prompt_tokens == generator.prompt_tokens
    assert "boxed" in agent.choices[0].message.content


@pytest.mark.parametrize("model", [AGENT, BASE])
def test_one_model_samples_by_seed_and_streams_the_same(client, model):
    fields = {"seed": 11, "temperature": 1.5, "n": 3, "max_tokens": 40}
    whole = ask(client, model, **fields)
    texts = [one.message.content for one in whole.choices]
    assert len(set(texts)) > 1
    assert [one.message.content for one in ask(client, model, **fields).choices] == texts
    with ask(client, model, **fields, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    streamed = ["", "", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts
    assert chunks[-1].usage == whole.usage
    assert {one.finish_reason for one in whole.choices} <= {"stop", "length"}


def test_log_probabilities_of_a_chat(client):
    reply = ask(client, AGENT, seed=2, logprobs=True)
    content = reply.choices[0].logprobs.content
    assert len(content) == reply.usage.completion_tokens
    assert all(math.isfinite(one.logprob) and one.logprob <= 1e-6 for one in content)
    assert "".join(one.token for one in content).startswith(reply.choices[0].message.content)
    with ask(client, AGENT, seed=2, logprobs=True, stream=True) as stream:
        pieces = [chunk.choices[0].logprobs.content for chunk in stream if chunk.choices and chunk.choices[0].logprobs]
    assert [(one.token, one.logprob) for piece in pieces for one in piece] == [
        (one.token, one.logprob) for one in content
    ]


def test_a_stop_ends_a_reply_and_what_follows_is_not_generated(client):
    whole = ask(client, AGENT, temperature=0)
    stopped = ask(client, AGENT, temperature=0, stop=["Therefore", "never"])
    before, _, _ = whole.choices[0].message.content.partition("Therefore")
    assert stopped.choices[0].message.content == before
    assert stopped.choices[0].finish_reason == "stop"
    with ask(client, AGENT, temperature=0, stop="Therefore", stream=True) as stream:
        assert joined(stream) == before
    cut = ask(client, AGENT, temperature=0, max_tokens=4)
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage.completion_tokens == 4


def test_completions_of_several_prompts_whole_and_as_a_stream(client):
    prompts = ["64 + 57 =", "100 - 1 ="]
    fields = {"model": BASE, "prompt": prompts, "n": 2, "seed": 4, "max_tokens": 12, "logprobs": 1}
    whole = client.completions.create(**fields)
    assert [one.index for one in whole.choices] == [0, 1, 2, 3]
    for choice in whole.choices:
        assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs)
        assert choice.text in "".join(choice.logprobs.tokens)
    streamed = ["", "", "", ""]
    with client.completions.create(**fields, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    for chunk in chunks:
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [one.text for one in whole.choices]
    assert chunks[-1].usage == whole.usage


# --- models


def test_models_are_listed_and_found_by_name(client):
    names = [model.id for model in client.models.list()]
    assert names[0] == TEAM
    assert {"untrained", "generator-1", "critic-3", AGENT, BASE} <= set(names)
    assert {client.models.retrieve(name).id for name in names} == set(names)
    with pytest.raises(NotFoundError):
        client.models.retrieve("gpt-4o")


# --- errors


def test_an_unknown_model_is_not_found_and_those_there_are_are_named(client):
    with pytest.raises(NotFoundError, match="mada-nano") as caught:
        ask(client, "gpt-4o")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"seed": "one"}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "tools"),
        ({"logprobs": True}, "logprobs"),
        ({"extra_body": {"mada": {"round": 2}}}, "mada.round"),
        ({"extra_body": {"mada": {"rounds": 99}}}, "mada.rounds"),
        ({"extra_body": {"colour": "red"}}, "colour"),
    ],
)
def test_a_wrong_field_is_named(client, fields, param):
    with pytest.raises(BadRequestError, match=param.split(".")[-1]) as caught:
        ask(client, **fields)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_wrong_messages_are_refused(client):
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
    for chat in ([], [{"role": "assistant", "content": "Yes."}], [{"role": "user", "content": image}], messages(" ")):
        with pytest.raises(BadRequestError, match=r"message|question|text"):
            client.chat.completions.create(model=TEAM, messages=chat)
    with pytest.raises(BadRequestError, match="window") as caught:
        client.completions.create(model=BASE, prompt="1 " * 3000)
    assert caught.value.code == "context_length_exceeded"


def test_a_team_has_no_bare_completions(client):
    with pytest.raises(BadRequestError, match="chat/completions"):
        client.completions.create(model=TEAM, prompt=QUESTION)


@pytest.mark.parametrize("key", ["third-key", "first-key, second-key", ""])
def test_a_wrong_key_is_refused(server, key):
    headers = {} if key else {"Authorization": "Bearer"}
    with OpenAI(base_url=f"{server.url}/v1", api_key=key or "none", max_retries=0, default_headers=headers) as client:
        for call in (lambda: ask(client), client.models.list):
            with pytest.raises(AuthenticationError, match="key"):
                call()


def test_who_comes_when_all_places_are_taken_is_told_when_to_come_back(strict_server, strict):
    with strict.completions.create(**LONG, stream=True) as stream:
        next(iter(stream))
        with pytest.raises(RateLimitError) as caught:
            ask(strict, max_tokens=8)
        assert int(caught.value.response.headers["Retry-After"]) >= 1
        assert caught.value.code == "overloaded"
        # The SDK comes back by itself, after the server's time limit has ended the other.
        with OpenAI(base_url=f"{strict_server.url}/v1", api_key="any", max_retries=5) as patient:
            assert ask(patient, max_tokens=8).choices[0].finish_reason == "stop"


def wait_for_a_place(client):
    """What a stream that was left early held is free soon after."""
    for _ in range(100):
        try:
            return client.completions.create(model=BASE, prompt="1", max_tokens=1)
        except RateLimitError:
            asyncio.run(asyncio.sleep(0.05))
    raise AssertionError("no place became free")


def test_a_request_that_takes_too_long_is_ended(strict):
    wait_for_a_place(strict)
    with pytest.raises(InternalServerError, match=r"1\.5 s") as caught:
        strict.completions.create(**LONG)
    assert caught.value.status_code == 504
    assert caught.value.code == "timeout"
    with (
        strict.completions.create(**LONG, stream=True) as stream,
        pytest.raises(APIError, match=r"1\.5 s") as midway,
    ):
        assert len(list(stream)) > 1
    assert midway.value.code == "timeout"


def test_a_body_that_is_too_large_is_refused(strict):
    with pytest.raises(APIStatusError, match="4,096 bytes") as caught:
        ask(strict, text="1 + " * 2000)
    assert caught.value.status_code == 413
