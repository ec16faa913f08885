"""What clients may do to a server, and what may happen to it: rows are freed, others are served, nothing is lost."""

import asyncio
import json
import signal
import socket
import sqlite3
import time
from urllib.parse import urlsplit

import httpx2
import pytest

from completion_server.running import running_server
from mada.models.loading import load_tokenizer
from mada_server import lines_of, serving

QUESTION = "Calculate 64 + 57 - 38."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    with serving(folder / "log", "--store", folder / "debates.sqlite") as server:
        yield server


def body(**fields):
    return {"model": "mada", "messages": [{"role": "user", "content": QUESTION}], **fields}


def ask(server, *, seconds=60, **fields):
    return httpx2.post(f"{server.url}/v1/chat/completions", json=body(**fields), timeout=seconds, trust_env=False)


def raw(server, content, *, path="/v1/chat/completions", headers=()):
    address = urlsplit(server.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=30)
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)
    return connection


def posted(server, content):
    return raw(server, content, headers=[f"Content-Length: {len(content)}"])


def test_a_thousand_clients_that_go_away_midway_leave_no_row_occupied(server):
    before = server.wait_until_idle().get("mada_requests_total", 0)

    def content(number):
        # A reply of the bare base that does not end by itself, so that every client is gone before it is whole.
        fields = {"model": "mada-nano", "prompt": f"{number} + ", "max_tokens": 1000, "temperature": 8.0}
        return json.dumps(fields | {"stream": number % 2 == 0}).encode()

    for start in range(0, 1000, 100):
        connections = []
        for number in range(start, start + 100):
            sent = content(number)
            connections.append(raw(server, sent, path="/v1/completions", headers=[f"Content-Length: {len(sent)}"]))
        time.sleep(0.2)
        for number, connection in enumerate(connections):
            if number % 4 == 0:  # some hang up in anger
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    after = server.wait_until_idle()
    assert after["mada_requests_total"] - before >= 990
    gone = [line for line in lines_of(server.log) if line.get("status") == 499]
    assert len(gone) >= 900, "they were there until the end"
    assert ask(server).status_code == 200


def test_slow_readers_hold_nobody_up(server):
    sent = json.dumps(body(stream=True, n=8)).encode()
    slow = [posted(server, sent) for _ in range(20)]
    for _ in range(3):
        assert ask(server).status_code == 200
    server.wait_until_idle()
    # What was made for them is still there to be read.
    text = b""
    while b"[DONE]" not in text:
        text += slow[0].recv(65536)
    assert b"reasoning_content" in text
    for connection in slow:
        connection.close()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"model": "mada", "messages": []}', 400),
        (b'{"model": "mada", "messages": [{"role": "user", "content": "\\ud800"}]}', 400),
        (b'{"model": "mada", "messages": [{"role": "user", "content": "   "}]}', 400),
        (b'{"model": "mada", "temperature": NaN, "messages": [{"role": "user", "content": "1"}]}', 400),
        (b'{"model": "nobody", "messages": [{"role": "user", "content": "1"}]}', 404),
        (b'{"model": "mada", "messages": [{"role": "user", "content": "' + b"9" * 30_000 + b'"}]}', 400),
        (b" " * 2_000_000, 413),
    ],
)
def test_a_bad_body_is_refused_with_a_reason(server, content, status):
    reply = httpx2.post(
        f"{server.url}/v1/chat/completions",
        content=content,
        headers={"Content-Type": "application/json"},
        trust_env=False,
    )
    assert reply.status_code == status
    assert reply.json()["error"]["message"]


def test_a_body_without_end_is_cut_off(server):
    connection = raw(server, b"", headers=["Transfer-Encoding: chunked"])
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    try:
        for _ in range(64):
            connection.sendall(piece)
    except OSError:
        pass  # the server has hung up
    assert b" 413 " in connection.recv(4096)
    connection.close()


def test_a_page_from_elsewhere_cannot_use_a_server_on_this_machine(server):
    as_text = {"Content-Type": "text/plain"}
    address = f"{server.url}/v1/chat/completions"
    assert httpx2.post(address, content=b"{}", headers=as_text, trust_env=False).status_code == 415
    assert httpx2.post(address, content=b"{}", trust_env=False).status_code == 415
    assert httpx2.get(f"{server.url}/v1/models", headers={"Host": "evil.example"}, trust_env=False).status_code == 400


def test_a_server_that_is_terminated_finishes_and_keeps_what_it_answered(tmp_path):
    kept = tmp_path / "debates.sqlite"

    async def load(url, process):
        answered, refused = [], []

        async def client(number):
            async with httpx2.AsyncClient(timeout=60, trust_env=False) as connection:
                while True:
                    try:
                        reply = await connection.post(f"{url}/v1/chat/completions", json=body(seed=number))
                    except httpx2.TransportError:
                        return
                    if reply.status_code != 200:
                        refused.append(reply.status_code)
                        return
                    answered.append(reply.json()["choices"][0]["mada"]["id"])

        clients = [asyncio.create_task(client(number)) for number in range(32)]
        while len(answered) < 20:
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        await asyncio.gather(*clients)
        return answered, refused

    with serving(tmp_path / "log", "--store", kept) as server:
        answered, refused = asyncio.run(load(server.url, server.process))
        assert server.process.wait(timeout=60) == 0, server.log.read_text()[-2000:]
    assert set(refused) <= {503}
    # More than before the signal: those that were running were finished.
    assert len(answered) > 20
    with sqlite3.connect(kept) as database:
        stored = {row[0] for row in database.execute("SELECT id FROM debates")}
    assert set(answered) <= stored
    with serving(tmp_path / "log", "--store", kept) as again:
        held = httpx2.get(f"{again.url}/api/debates/{answered[0]}", trust_env=False).json()
        assert held["question"] == QUESTION
        assert len(held["rounds"]) == 2


def test_a_server_behind_it_that_refuses_one_request_is_a_502_and_answers_the_next(tmp_path):
    [percent] = load_tokenizer("mada-nano").encode("%", add_special_tokens=False)
    with (
        running_server("--scripted") as behind,
        serving(tmp_path / "log", "--server", behind.url(f"poison-400={percent}")) as server,
    ):
        assert ask(server).status_code == 200
        failed = ask(server, messages=[{"role": "user", "content": "What is 5 % of 40?"}])
        assert failed.status_code == 502
        assert "400" in failed.json()["error"]["message"]
        assert ask(server).status_code == 200
        until = time.monotonic() + 30
        while httpx2.get(f"{server.url}/health", trust_env=False).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
