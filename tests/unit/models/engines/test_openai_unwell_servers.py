"""Servers that are busy, away, wrong or rude: what is asked again, what ends in an error, and what that says."""

import asyncio
import runpy
from pathlib import Path

import pytest

from mada.errors import EngineError
from mada.models.engines import Sampling
from mada.models.engines.openai import Backoff, OpenAIEngine

SERVER = Path(__file__).resolve().parents[3] / "completion_server"
MODELS = {None: "mada-nano", "critic-1": "critic-1"}
PROMPT = [9, 8, 7, 6, 5]
SHORT = Sampling(max_tokens=3, temperature=0.0)
SECRET = "sk-do-not-show-me-123"


@pytest.fixture(scope="module")
def server():
    with runpy.run_path(str(SERVER / "running.py"))["running_server"]("--scripted") as running:
        yield running


@pytest.fixture
def waited():
    return []


@pytest.fixture
def connect(server, tokenizer, waited, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("MADA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    async def no_wait(seconds):
        waited.append(seconds)

    def make(flags, **settings):
        backoff = Backoff(sleep=no_wait, random=lambda: 0.5)
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


def test_attempts_run_out(connect, waited, server):
    said = fails(connect("fail=503x9", attempts=3))
    assert "was asked 3 times and gave no answer, at last: 503 Service Unavailable: not now. Is the server up" in said
    assert (len(waited), server.seen("fail=503x9")["requests"]) == (2, 3)
    assert "asked once and gave no answer, at last: no answer within 0.1 s" in fails(
        connect("hang=9", attempts=1, timeout=0.1)
    )


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
        ("reason=content_filter", "ended for the reason 'content_filter', wanted stop or length"),
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
    said = fails(connect("http://127.0.0.1:1/v1", attempts=2))
    assert said.startswith("http://127.0.0.1:1/v1 was asked 2 times and gave no answer, at last: ")
    assert waited == [0.375]


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host/v1?a=b", ""])
def test_what_is_no_address(connect, tokenizer, url):
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
    said = fails(connect(flags, attempts=1))
    assert "refuses with status 401: Incorrect API key: … �[31mgo away. Set MADA_API_KEY" in said
    assert "Incorrect API key: �[31mgo" in fails(connect(flags, api_key=""))
    shown = f"{engine!r} {engine._server!r} {said} {caplog.text}"
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


def test_closing_cancels_what_is_under_way_and_what_waits(connect, server):
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


def test_numbers_and_prompts_that_make_no_sense(connect):
    for wrong in ({"slots": 0}, {"attempts": 0}, {"timeout": 0.0}):
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
    raise AssertionError("it never came to pass")
