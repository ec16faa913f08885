"""Servers that are busy, down, or send odd replies: what is retried, what ends in an error, and its message."""

import asyncio

import pytest

from completion_server.running import running_server
from mada.errors import EngineError, UnansweredError
from mada.models.engines import Sampling
from mada.models.engines.openai import OpenAIEngine
from mada.models.engines.openai_client import Backoff

MODELS = {None: "mada-nano", "critic-1": "critic-1"}
PROMPT = [9, 8, 7, 6, 5]
SHORT = Sampling(max_tokens=3, temperature=0.0)
SECRET = "sk-do-not-show-me-123"


@pytest.fixture(scope="module")
def server():
    with running_server("--scripted") as running:
        yield running


@pytest.fixture
def waited():
    return []


@pytest.fixture
def connect(server, tokenizer, waited, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("MADA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    now = [0.0]

    async def no_wait(seconds):
        waited.append(seconds)
        now[0] += seconds

    def make(flags, **settings):
        backoff = Backoff(sleep=no_wait, random=lambda: 0.5, clock=lambda: now[0])
        given = {"models": MODELS, "tokenizer": tokenizer, "backoff": backoff, **settings}
        return OpenAIEngine(flags if "://" in flags else server.url(flags), **given)

    return make


def sample(engine, agent=None):
    return asyncio.run(engine.sample(agent, PROMPT, SHORT))


def fails(engine, agent=None):
    with pytest.raises(EngineError) as caught:
        sample(engine, agent)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def want(connect):
    return sample(connect("well"))


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(connect, waited, want, server, status):
    assert sample(connect(f"fail={status}x3")) == want
    assert server.seen(f"fail={status}x3")["requests"] == 4
    assert waited == [0.375, 0.75, 1.5]


def test_a_wait_that_the_server_asks_for_is_kept(connect, waited, want):
    assert sample(connect("fail=429x2,after=0.6")) == want
    assert waited == [0.6, 0.75]


@pytest.mark.parametrize("flags", ["cut=2", "cut-body=2"])
def test_a_connection_that_breaks_is_made_again(connect, waited, want, flags):
    assert sample(connect(flags)) == want
    assert len(waited) == 2


def test_a_server_that_hangs_is_given_up_and_asked_again(connect, waited, want):
    assert sample(connect("hang=1", timeout=0.2)) == want
    assert waited == [0.375]


def test_time_runs_out(connect, waited, caplog):
    said = fails(connect("fail=503x999,after=9", retry_for=300.0))
    assert "no usable reply for 300 s, at last: 503 Service Unavailable: not now. Is the server up" in said
    assert sum(waited) == 300
    assert waited[0] == 9
    lines = [record.getMessage() for record in caplog.records if "waiting for it" in record.getMessage()]
    assert 5 <= len(lines) <= 10
    assert "503 Service Unavailable: not now; waiting for it, for 0 s so far, next attempt in 9 s" in lines[0]
    assert "at last: no reply within 0.1 s" in fails(connect("hang=9", timeout=0.1, retry_for=0.3))


def test_an_outage_of_minutes_is_waited_for(connect, waited, want, caplog):
    assert sample(connect("fail=502x12")) == want
    assert 100 < sum(waited) < 600
    assert any(f"answers again, after {sum(waited):.0f} s" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("odd", ["html", "broken", "fields", "ids", "large-ids", "huge", "bomb", "layers", "text"])
def test_odd_replies_are_asked_for_again(connect, waited, want, odd):
    assert sample(connect(f"odd={odd}:2")) == want
    assert len(waited) == 2


def test_odd_replies_for_minutes_are_an_outage(connect, waited, want):
    assert sample(connect("odd=html:20")) == want
    assert sum(waited) > 100
    assert "no usable reply for 1800 s" in fails(connect("odd=html:999"))


@pytest.mark.parametrize("flag", ["poison", "poison-400", "poison-odd"])
def test_one_request_that_fails_is_unanswered_where_others_are_answered(connect, waited, flag):
    engine = connect(f"{flag}=7")
    with pytest.raises(UnansweredError, match=r"beyond me|html"):
        sample(engine)
    assert sum(waited) < 1801
    assert len(asyncio.run(engine.sample(None, [9, 8], SHORT))) == 1
    with pytest.raises(EngineError) as caught:
        sample(connect("refuses=model"))
    assert not isinstance(caught.value, UnansweredError)


@pytest.mark.parametrize("reason", ["content_filter", "abort"])
def test_a_reply_that_ends_for_another_reason_has_failed_and_is_logged_once(connect, waited, caplog, reason):
    engine = connect(f"reason={reason}")
    for _ in range(2):
        assert sample(engine)[0].stop == "failed"
    assert sum(reason in record.getMessage() for record in caplog.records if record.name.startswith("mada")) == 1
    assert waited == []


def test_other_refusals_are_not_asked_again(connect, waited, server):
    said = fails(connect("fail=418x1"))
    assert "asked mada-nano for a completion, refuses with status 418: not now" in said
    assert (waited, server.seen("fail=418x1")["requests"]) == ([], 1)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("not-json", r"cannot be used: Invalid JSON.*It begins: '<html>� welcome'"),
        ("choices=3", "got 3 choices, wanted 1"),
        ("choices=0", "got 0 choices, wanted 1"),
    ],
)
def test_nonsense_is_an_error(connect, flags, says):
    with pytest.raises(EngineError, match=says):
        sample(connect(flags))


def test_a_missing_adapter_is_named_with_what_there_is(connect):
    engine = connect("well", models={None: "mada-nano", "critic-9": "critic-nine"})
    with pytest.raises(EngineError) as caught:
        asyncio.run(engine.check())
    said = str(caught.value)
    assert "does not serve 'critic-nine' (for critic-9); it has mada-nano, generator-1, generator-2, critic-1." in said
    assert "--lora-modules NAME=FOLDER" in said
    assert "The model `critic-nine` does not exist." in fails(engine, "critic-9")
    assert "no model is named for critic-2, only for these: None, the base, critic-9" in fails(engine, "critic-2")
    with pytest.raises(EngineError, match=r"'mada-nano' \(for the base\).*it has nothing"):
        asyncio.run(connect("models=nothing").check())


def test_a_wrong_address(connect, server, waited):
    with pytest.raises(EngineError, match=r"status 404: Not Found. Is this the server's address"):
        asyncio.run(connect(server.url("well") + "/v2").check())
    with pytest.raises(EngineError, match=r"v1/models does not answer with a list.* begins: '\[\"these\", \"and"):
        asyncio.run(connect("models=garbage").check())
    # Port 1 is nobody's.
    assert "http://127.0.0.1:1/v1 has given no usable reply for 1800 s, at last: " in fails(
        connect("http://127.0.0.1:1/v1")
    )
    waited.clear()
    with pytest.raises(EngineError, match="no usable reply for 30 s"):
        asyncio.run(connect("http://127.0.0.1:1/v1").check())
    assert sum(waited) == 30


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host/v1?a=b", ""])
def test_invalid_addresses(connect, tokenizer, url):
    with pytest.raises(EngineError, match="wanted one such as http://localhost:8000/v1"):
        OpenAIEngine(url, models=MODELS, tokenizer=tokenizer)


def test_the_key_is_sent_and_never_shown(connect, want, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    flags = f"key={SECRET}"
    engine = connect(flags, api_key=SECRET)
    assert sample(engine) == want
    assert "mada-nano" in repr(engine)
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key-987")
    monkeypatch.setenv("MADA_API_KEY", SECRET)
    assert sample(connect(flags)) == want
    monkeypatch.delenv("MADA_API_KEY")
    said = fails(connect(flags))
    assert "refuses with status 401: Incorrect API key: … �[31mgo away. Set MADA_API_KEY" in said
    assert "Incorrect API key: �[31mgo" in fails(connect(flags, api_key=""))
    shown = f"{engine!r} {engine._client!r} {said} {caplog.text}"
    assert SECRET not in shown.replace(flags, "")  # the address has it, for the server to know
    assert "wrong-key-987" not in shown


@pytest.mark.parametrize("key", ["sk two words", "sk\nline", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(connect, key):
    with pytest.raises(EngineError, match="it cannot be sent") as caught:
        connect("well", api_key=key)
    assert key not in str(caught.value)


def test_a_password_in_the_address_is_refused_unseen(connect):
    with pytest.raises(EngineError, match="holds a user or password") as caught:
        connect("http://someone:hidden@127.0.0.1/v1")
    assert "hidden" not in str(caught.value)


def test_cancelling_ends_the_request_and_frees_the_slot(connect, server, want):
    engine = connect("hang=1,name=cancel", slots=1)

    async def cancel():
        task = asyncio.create_task(engine.sample(None, PROMPT, SHORT))
        await until(lambda: server.seen("hang=1,name=cancel")["running"] == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.seen("hang=1,name=cancel")["abandoned"] == 1)
        return await asyncio.wait_for(engine.sample(None, PROMPT, SHORT), 20)

    assert asyncio.run(cancel()) == want


def test_closing_cancels_running_and_waiting_requests(connect, server):
    engine = connect("hang=9,name=close", slots=1)

    async def close():
        tasks = [asyncio.create_task(engine.sample(None, PROMPT, SHORT)) for _ in range(3)]
        await until(lambda: server.seen("hang=9,name=close")["running"] == 1)
        await engine.close()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: server.seen("hang=9,name=close")["abandoned"] == 1)
        return ended

    assert [type(one) for one in asyncio.run(close())] == [asyncio.CancelledError] * 3
    assert engine.statistics.generated_tokens == 0


def test_a_cancelled_wait_between_attempts_ends_at_once(tokenizer, server, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = server.url("fail=503x9,name=sleeping")
    engine = OpenAIEngine(url, models=MODELS, tokenizer=tokenizer, backoff=Backoff(first=1000.0, longest=1000.0))

    async def cancel():
        task = asyncio.create_task(engine.sample(None, PROMPT, SHORT))
        await until(lambda: server.seen("fail=503x9,name=sleeping")["requests"] == 1)
        await engine.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancel(), 20))
    assert server.seen("fail=503x9,name=sleeping")["requests"] == 1


def test_invalid_settings_and_prompts(connect):
    for wrong in ({"slots": 0}, {"retry_for": 0}, {"timeout": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            connect("well", **wrong)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        asyncio.run(connect("well").sample(None, PROMPT, SHORT, n=0))
    with pytest.raises(EngineError, match="the prompt is empty"):
        asyncio.run(connect("well").sample(None, [], SHORT))


async def until(condition):
    for _ in range(400):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the condition was never met")


def test_the_identity_changes_with_the_server(connect):
    async def identity(flags):
        engine = connect(flags)
        assert engine.identity() == {}
        await engine.check()
        return engine.identity()

    one, again, swapped, newer = (
        asyncio.run(identity(flags)) for flags in ("well", "name=again", "root=other", "version=0.25")
    )
    assert one == again
    assert one["models"]["mada-nano"] == {"id": "mada-nano", "root": "folder", "max_model_len": 1024}
    assert "generator-1" not in one["models"], "what nobody asks for may change"
    assert swapped != one != newer
