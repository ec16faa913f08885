"""The server's endpoints: what a debate, an agent and a base answer, what is refused, and how it recovers."""

import asyncio
import sqlite3

import pytest

from mada.debate.prompts import REASONING, WindowError
from mada.models.engines import Completion
from mada.serve.replies import ReasoningText
from mada.serve.service import ServerLimits
from mada.serve.streams import Readers, TextSoFar
from mada.serve.teams import names_of
from mada_server import chunks

QUESTION = "What is 6 times 7?"
ANSWERS = {"generator": ["41", "42", "42"], "critic": ["42", "42", "42.0"]}


def boxed(answer):
    return f"So it is $\\boxed{{{answer}}}$."


def debaters():
    """A script: generators say 41, 42 and 42; critics agree on 42."""
    counts = {"generator": 0, "critic": 0}

    def script(request, prompt):
        role = "critic" if "recent opinions" in prompt else "generator"
        counts[role] += 1
        return boxed(ANSWERS[role][(counts[role] - 1) % 3])

    return script


def test_a_team_answers_with_its_verdict(serve):
    async def use(app):
        reply = (await app.chat(QUESTION, seed=5)).json()
        [choice] = reply["choices"]
        assert choice["message"]["content"] == "The final answer is $\\boxed{42}$"
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["reasoning_content"].startswith(
            "[round 1, generator-1]\nSo it is $\\boxed{41}$.\n\n[round 1, generator-2]\n"
        )
        mada = choice["mada"]
        assert [[turn["answer"] for turn in one["turns"]] for one in mada["rounds"]] == list(ANSWERS.values())
        assert mada["verdict"] == {
            "answer": "42",
            "votes": [{"answer": "42", "count": 3}],
            "tie": False,
            "unanswered": 0,
        }
        assert mada["seed"] == 5
        # All turns count, and each reply ends with its stop token.
        usage = reply["usage"]
        assert usage["completion_tokens"] == sum(len(boxed(one)) + 1 for own in ANSWERS.values() for one in own)
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        held = (await app.get(f"/api/debates/{mada['id']}")).json()
        assert [turn["group"] for one in held["rounds"] for turn in one["turns"]] == [0, 1, 1, 1, 1, 1]
        assert "<math" in held["rounds"][0]["turns"][0]["html"]
        [listed] = (await app.get("/api/debates")).json()["debates"]
        assert (listed["id"], listed["answer"], listed["unanimous"]) == (mada["id"], "42", True)

    serve(use, script=debaters())


def test_a_stream_has_the_turns_in_order_then_the_verdict(serve):

    async def use(app):
        whole = (await app.chat(QUESTION, seed=5)).json()["choices"][0]["message"]
        reply = await app.chat(QUESTION, seed=5, stream=True, stream_options={"include_usage": True})
        made = chunks(reply)
        deltas = [one["choices"][0]["delta"] for one in made if one["choices"]]
        assert "".join(one.get("reasoning_content", "") for one in deltas) == whole["reasoning_content"]
        assert "".join(one.get("content", "") for one in deltas) == whole["content"]
        assert made[-1]["usage"]["completion_tokens"] > 0
        assert made[-2]["choices"][0]["mada"]["verdict"]["answer"] == "42"

    serve(use, script=debaters())


def test_events_are_those_of_the_page(serve):
    async def use(app):
        reply = await app.chat(QUESTION, stream=True, mada={"events": True, "rounds": 3})
        events = [event for one in chunks(reply) for event in one.get("mada", {}).get("events", [])]
        kinds = [event["type"] for event in events if event["type"] != "delta"]
        assert kinds[0] == "started"
        assert kinds[-1] == "verdict"
        assert kinds.count("round") == 3
        turns = [event for event in events if event["type"] == "turn"]
        assert len(turns) == 9
        assert (turns[0]["answer"], turns[0]["group"]) == ("41", 0)
        assert events[-1]["votes"][0]["count"] == 3

    serve(use, script=debaters())


def test_a_later_agents_text_waits_until_those_before_it_have_ended():
    text = ReasoningText()
    events = [
        {"type": "round", "round": 1, "agents": ["one", "two"]},
        {"type": "delta", "index": 1, "text": "second"},
        {"type": "delta", "index": 0, "text": "fir"},
        {"type": "delta", "index": 0, "text": "s"},
        {"type": "turn", "index": 1, "text": "second, whole"},
        {"type": "turn", "index": 0, "text": "<think>\nfirst"},
    ]
    said = [text.add(event) for event in events]
    assert said == ["", "", "[round 1, one]\nfir", "s", "", "t\n\n[round 1, two]\nsecond, whole\n\n"]


def test_text_is_read_without_halves_of_characters(tokenizer):
    ids = tokenizer.encode("für 5 €")
    so_far = TextSoFar(tokenizer)
    pieces = [so_far.read(ids[:count]) for count in range(1, len(ids) + 1)]
    assert "".join(pieces) == so_far.text == "für 5 €"
    assert set("".join(pieces)) == set("für 5 €")


def test_several_choices_are_several_debates(serve):
    async def use(app):
        choices = (await app.chat(QUESTION, seed=1, n=3)).json()["choices"]
        assert [choice["index"] for choice in choices] == [0, 1, 2]
        assert len({choice["mada"]["id"] for choice in choices}) == 3

    seeds = []

    def script(request, prompt):
        seeds.append(request.sampling.seed)
        return boxed(1)

    serve(use, script=script)
    assert len(set(seeds)) == 18


def test_an_agent_is_asked_with_its_own_prompt_and_the_base_with_the_chat_as_it_stands(serve):
    prompts = []

    async def use(app):
        await app.chat("One?", model="generator-2")
        await app.chat({"role": "system", "content": "Be brief."}, "Two?", model="tiny")
        chat = [{"role": "system", "content": "Be brief."}, "One?", {"role": "assistant", "content": "1"}, "And two?"]
        await app.chat(*chat, model="generator-1")
        await app.post("/v1/completions", {"model": "generator-1", "prompt": "as it stands"})

    def script(request, prompt):
        prompts.append(prompt)
        return "yes"

    serve(use, script=script)
    asked = "Be brief.\n\nThis was said before:\n\nUser: One?\n\nAssistant: 1\n\n"
    asked += "With this in mind, answer the following:\n\nAnd two?"
    assert prompts == [
        f"<|user|>{REASONING.replace('{question}', 'One?')}<|end|><|assistant|>",
        "<|system|>Be brief.<|end|><|user|>Two?<|end|><|assistant|>",
        f"<|user|>{REASONING.replace('{question}', asked)}<|end|><|assistant|>",
        "as it stands",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_text_ends_a_completion_and_is_not_shown(serve, stream):
    async def use(app):
        body = {"model": "tiny", "prompt": ["a", "b"], "stop": ["ST", "OP"], "n": 2, "stream": stream}
        reply = await app.post("/v1/completions", body)
        if stream:
            texts = dict.fromkeys(range(4), "")
            reasons = {}
            for one in chunks(reply):
                [choice] = one["choices"]
                texts[choice["index"]] += choice["text"]
                reasons[choice["index"]] = choice["finish_reason"]
        else:
            choices = reply.json()["choices"]
            texts = {choice["index"]: choice["text"] for choice in choices}
            reasons = {choice["index"]: choice["finish_reason"] for choice in choices}
        assert set(texts.values()) == {"before "}
        assert set(reasons.values()) == {"stop"}

    serve(use, script=lambda request, prompt: "before STOP after")


def test_log_probabilities_tokens_and_the_reason_for_an_end(serve, tokenizer):
    ids = tokenizer.encode("no")

    async def use(app):
        extra = {"return_token_ids": True, "skip_special_tokens": False}
        chat = (await app.chat("?", model="tiny", logprobs=True, **extra)).json()["choices"][0]
        assert [one["logprob"] for one in chat["logprobs"]["content"]] == [-0.5, -0.25]
        assert (chat["token_ids"], chat["finish_reason"]) == (ids, "length")
        text = (await app.post("/v1/completions", {"model": "tiny", "prompt": "?", "logprobs": 1})).json()["choices"][0]
        assert text["logprobs"]["token_logprobs"] == [-0.5, -0.25]
        assert text["logprobs"]["text_offset"] == [0, 1]

    serve(use, script=lambda request, prompt: Completion(tuple(ids), (-0.5, -0.25), "length"))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"temprature": 1}, "temprature"),
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logprobs": True}, "logprobs"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "assistant", "content": "1"}]}, "last message"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"stop": [""]}, "stop"),
        ({"mada": {"rounds": 99}}, "rounds"),
        ({"mada": {"round": 1}}, "round"),
        ({"mada": {"events": True}}, "stream"),
        ({"seed": 2**70}, "seed"),
    ],
)
def test_what_cannot_be_honoured_is_a_400_that_names_it(serve, fields, named):
    async def use(app):
        body = {"model": "mada", "messages": [{"role": "user", "content": QUESTION}], **fields}
        reply = await app.post("/v1/chat/completions", body)
        assert reply.status_code == 400
        assert named in reply.json()["error"]["message"]
        assert reply.json()["error"]["type"] == "invalid_request_error"

    serve(use, script=debaters())


def test_fields_that_ask_for_nothing_are_accepted(serve):
    async def use(app):
        neutral = {"frequency_penalty": 0, "tools": None, "response_format": {"type": "text"}, "user": "me", "stop": []}
        parts = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
        assert (await app.chat(parts, **neutral)).status_code == 200

    serve(use, script=debaters())


def test_a_team_may_be_asked_for_more_tokens_than_fit_and_takes_what_fits(serve):
    limits = []

    def script(request, prompt):
        limits.append(request.sampling.max_tokens)
        return boxed(1)

    async def use(app):
        assert (await app.chat(QUESTION, max_tokens=100_000)).status_code == 200
        assert (await app.chat(QUESTION, max_tokens=50)).status_code == 200

    serve(use, script=script)
    assert limits == [1000] * 6 + [50] * 6


def test_a_question_too_long_for_the_window_is_a_400(serve):
    async def use(app):
        for model in ("mada", "generator-1", "tiny"):
            reply = await app.chat("9" * 4000, model=model)
            assert reply.status_code == 400, model
            assert "window" in reply.json()["error"]["message"]

    serve(use, script=debaters())


def test_keys_are_asked_for_where_there_are_any(serve):
    async def use(app):
        assert (await app.get("/health")).status_code == 200
        assert (await app.get("/v1/models")).status_code == 401
        assert (await app.get("/api/debates", Authorization="Bearer wrong")).status_code == 401
        assert (await app.get("/v1/models", Authorization="Basic two")).status_code == 401
        names = (await app.get("/v1/models", Authorization="Bearer two")).json()["data"]
        assert [one["id"] for one in names][:3] == ["mada", "team", "team/generator-1"]
        assert names[-1]["id"] == "tiny"

    serve(use, script=debaters(), keys=["one", "two"])


def test_more_requests_than_may_wait_are_sent_away_with_a_time(serve):
    async def use(app):
        waiting = [asyncio.create_task(app.chat(QUESTION)) for _ in range(3)]
        await asyncio.sleep(0.1)
        refused = await app.chat(QUESTION)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await app.chat(QUESTION, n=2, stream=True)).status_code == 429
        opened.set()
        assert [(await one).status_code for one in waiting] == [200] * 3
        assert (await app.chat(QUESTION)).status_code == 200
        text = (await app.get("/metrics")).text
        assert 'mada_requests_total{model="mada",status="200"} 4.0' in text
        assert 'mada_requests_total{model="",status="429"} 2.0' in text

    opened = asyncio.Event()

    async def reply():
        await opened.wait()
        return boxed(1)

    serve(use, script=lambda request, prompt: reply(), limits=ServerLimits(queue=2, at_once=1))


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_takes_too_long_is_ended(serve, stream):
    ended = []

    async def use(app):
        reply = await app.chat(QUESTION, stream=stream)
        if stream:
            assert chunks(reply)[-1]["error"]["code"] == "timeout"
        else:
            assert reply.status_code == 504
        assert len(ended) == 3
        [model] = app.service.catalogue.models
        assert (model.admission.waiting, model.admission.working) == (0, 0)

    async def never():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    serve(use, script=lambda request, prompt: never(), limits=ServerLimits(seconds=0.3))


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_fails_is_a_5xx_and_is_started_again(serve, stream):
    broken = []

    def script(request, prompt):
        if broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return boxed(7)

    async def use(app):
        assert (await app.chat(QUESTION)).status_code == 200
        broken.append(True)
        reply = await app.chat(QUESTION, stream=stream)
        error = chunks(reply)[-1]["error"] if stream else reply.json()["error"]
        assert reply.status_code == (200 if stream else 500)
        assert "RuntimeError" in error["message"]
        assert "CUDA" not in error["message"]
        await asyncio.sleep(0.1)
        assert (await app.get("/health")).status_code == 503
        refused = await app.chat(QUESTION)
        assert refused.status_code in (500, 503)
        broken.clear()
        while (await app.get("/health")).status_code != 200:
            await asyncio.sleep(0.05)
        assert (await app.chat(QUESTION)).status_code == 200
        assert len(app.loads) > 1

    serve(use, script=script)


def test_a_server_that_ends_takes_nothing_new(serve):
    async def use(app):
        app.service.end()
        assert (await app.chat(QUESTION)).status_code == 503
        assert (await app.get("/health")).status_code == 503

    serve(use, script=debaters())


def test_runs_of_the_same_name_get_numbers(tmp_path):
    folders = [tmp_path / "a" / "first", tmp_path / "b" / "first", tmp_path / "mada"]
    assert names_of(folders) == ["first", "first-2", "mada-2"]


def test_settings_that_leave_no_room_for_a_prompt_are_refused_before_anybody_asks(serve):
    async def use(app):
        raise AssertionError("it serves")

    with pytest.raises(WindowError, match="max_new_tokens"):
        serve(use, script=debaters(), max_new_tokens=10**6)


def test_a_store_that_cannot_be_written_does_not_keep_an_answer_back(serve, monkeypatch):
    async def use(app):
        def full(*_):
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(app.service.store, "_add", full)
        reply = await app.chat(QUESTION)
        assert reply.status_code == 200
        assert reply.json()["choices"][0]["mada"]["url"] is None

    serve(use, script=debaters())


def test_what_has_ended_before_anybody_looked_is_looked_at_once():
    async def main():
        task = asyncio.create_task(asyncio.sleep(0))
        await task
        return [look async for look in Readers().looks(task)]

    assert len(asyncio.run(main())) == 1
