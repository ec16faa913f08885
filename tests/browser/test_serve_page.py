"""The served page in Chromium, against a server whose events the tests send one by one."""

import asyncio
import json
import queue
import re
import socket
import threading

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from playwright.sync_api import expect

from mada.report.page.mathematics import answer_html, text_html
from mada.serve.page import page_routes

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"&amp;"
QUESTION = r"What is $\frac{84}{2}$?"
TEAM = {
    "name": "mada",
    "model": "Qwen2.5-1.5B-Instruct",
    "trained": True,
    "generators": ["generator-1", "generator-2", "generator-3"],
    "critics": ["critic-1", "critic-2", "critic-3"],
    "rounds": 2,
    "max_tokens": 512,
    "window": 2048,
}
ALONE = {**TEAM, "name": "alone", "trained": False, "generators": ["generator-1"], "critics": [], "rounds": 1}
GROUPS = {"41": 0, "42": 1, r"\frac{1}{2}": 2, HOSTILE: 3}


def turn(number, index, answer, *, agent=None, text=None, truncated=False, **more):
    """A finished turn as the server tells of it."""
    agent = agent or f"{'generator' if number == 1 else 'critic'}-{index + 1}"
    text = text or f"Half of 84 is $\\frac{{84}}{{2}}$, so the answer is $\\boxed{{{answer}}}$."
    made = {"answer": answer, "answer_html": answer and answer_html(answer), "group": GROUPS.get(answer)}
    return {
        "round": number,
        "index": index,
        "agent": agent,
        "text": text,
        "html": text_html(text),
        "tokens": 120,
        "prompt_tokens": 60,
        "truncated": truncated,
        **made,
        **more,
    }


def verdict(answers, *, tie=False):
    """The verdict of a vote over these answers."""
    given = [one for one in answers if one is not None]
    votes = [
        {"answer": one, "answer_html": answer_html(one), "count": given.count(one), "group": GROUPS.get(one)}
        for one in sorted(set(given), key=given.count, reverse=True)
    ]
    first = votes[0] if votes else {"answer": None, "answer_html": None, "group": None}
    chosen = {key: first[key] for key in ("answer", "answer_html", "group")}
    return {**chosen, "votes": votes, "tie": tie, "unanswered": len(answers) - len(given)}


def debate(rounds, *, name="d1", question=QUESTION, team="mada"):
    """A debate as the server keeps it, with these turns round by round."""
    return {
        "id": name,
        "time": 1_800_000_000,
        "team": team,
        "question": question,
        "seed": 7,
        "seconds": 8.2,
        "question_html": text_html(question),
        "tokens": 720,
        "prompt_tokens": 1800,
        "rounds": [
            {"number": number, "role": "critic" if number > 1 else "generator", "turns": turns}
            for number, turns in enumerate(rounds, 1)
        ],
        "verdict": verdict([one["answer"] for one in rounds[-1]]),
    }


ROUNDS = [
    [turn(1, 0, "41"), turn(1, 1, "42"), turn(1, 2, None, truncated=True)],
    [turn(2, 0, "42"), turn(2, 1, "42"), turn(2, 2, "41")],
]


class Server:
    """An application with the page's routes and a scripted API, and what was asked of it."""

    def __init__(self):
        self.info = {"teams": [TEAM, ALONE], "can_ask": True, "can_watch": True, "version": "0"}
        self.url, self.key, self.debates, self.refusals = "", None, {}, []
        self.asked, self.left = queue.Queue(), threading.Event()
        self.app = FastAPI()
        self.app.include_router(page_routes())
        self.app.middleware("http")(self._check_key)
        self.app.get("/api/info")(lambda: self.info)
        self.app.get("/api/debates")(self._recent)
        self.app.get("/api/debates/{name}")(self._held)
        self.app.post("/v1/chat/completions")(self._ask)

    async def _check_key(self, request: Request, call_next):
        is_open = request.url.path.startswith("/assets") or not re.match("/(api|v1)", request.url.path)
        if self.key is None or is_open or request.headers.get("authorization") == f"Bearer {self.key}":
            return await call_next(request)
        return JSONResponse({"error": {"message": "a key is needed"}}, 401)

    def _recent(self):
        return {
            "debates": [
                {
                    **{key: one[key] for key in ("id", "time", "team", "question", "tokens", "seconds")},
                    "answer": one["verdict"]["answer"],
                    "unanimous": len(one["verdict"]["votes"]) == 1,
                }
                for one in reversed(self.debates.values())
            ]
        }

    def _held(self, name: str):
        missing = JSONResponse({"error": {"message": f"there is no debate {name}"}}, 404)
        return self.debates.get(name, missing)

    async def _ask(self, request: Request):
        self.asked.put(await request.json())
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return JSONResponse({"error": {"message": "64 debates are waiting already"}}, status, headers)
        self.loop, self.events = asyncio.get_running_loop(), asyncio.Queue()
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self):
        try:
            # As sse-starlette writes them, and cut where it hurts: within a line end and within a character.
            yield b": ping\r"
            yield b"\n\r\n"
            while (data := await self.events.get()) is not None:
                written = f"data: {data}\r\n\r\n".encode()
                for start in range(0, len(written), 97):
                    yield written[start : start + 97]
        finally:
            self.left.set()

    def say(self, data):
        """Send a line of the stream, or end it."""
        self.loop.call_soon_threadsafe(self.events.put_nowait, data)

    def send(self, *events):
        """Send events of a debate; those without a type are turns."""
        chunk = {
            "id": "c",
            "object": "chat.completion.chunk",
            "choices": [],
            "mada": {"events": [{"type": "turn", **one} for one in events]},
        }
        self.say(json.dumps(chunk, ensure_ascii=False))

    def start(self, number=1, *, name="d1", agents=None, **more):
        """Send what comes before a round's turns."""
        generators, critics = TEAM["generators"], TEAM["critics"]
        if number == 1:
            team = {"team": "mada", "rounds": 2, "generators": agents or generators, "critics": critics}
            self.send({"type": "started", "id": name, **team, **more})
        role, names = ("generator", generators) if number == 1 else ("critic", critics)
        self.send({"type": "round", "round": number, "role": role, "agents": agents or names})

    def finish(self, held):
        """Keep a debate and send its verdict and the end of the stream."""
        self.debates[held["id"]] = held
        facts = {key: held[key] for key in ("seconds", "tokens", "prompt_tokens")}
        self.send({"type": "verdict", **held["verdict"], **facts})
        self.say("[DONE]")


@pytest.fixture
def server():
    made = Server()
    listening = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(made.app, log_level="error", ws="none", lifespan="off"))
    running.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    yield made
    running.should_exit = True
    thread.join()


@pytest.fixture
def opened(browser, server):
    """Open pages that may neither fail nor ask for anything of another server; `allowed` names expected refusals."""
    contexts, troubles, requests = [], [], []

    def open_page(path="/", *, allowed=None, **context):
        made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(5_000)
        page.on(
            "console",
            lambda message: (
                troubles.append(message.text)
                if message.type in ("error", "warning") and not (allowed and allowed in message.text)
                else None
            ),
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(server.url + path)
        return page

    yield open_page
    for one in contexts:
        one.close()
    assert troubles == []
    assert [url for url in requests if not url.startswith((server.url + "/", "data:"))] == []


@pytest.fixture
def ask(opened, server):
    """Open the page, ask, and return the page and what the server was asked."""

    def do(question=QUESTION, **context):
        page = opened(**context)
        page.get_by_label("Ask a team").fill(question)
        page.get_by_role("button", name="Ask").click()
        return page, server.asked.get(timeout=5)

    return do


def is_hacked(page):
    return page.evaluate("() => window.hacked !== undefined")


def is_wider_than_the_window(page):
    return page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")


def test_a_debate_arrives_turn_by_turn(ask, server):
    page, asked = ask()
    assert asked["model"] == "mada"
    assert asked["messages"] == [{"role": "user", "content": QUESTION}]
    assert asked["stream"] is True
    assert asked["mada"] == {"events": True, "rounds": 2}
    assert "seed" not in asked
    expect(page.get_by_role("heading", name="Debate")).to_be_focused()
    server.send({"type": "queued", "ahead": 2})
    expect(page.get_by_text("Waiting: 2 requests ahead")).to_be_visible()
    server.start()
    cards = page.locator(".card")
    expect(cards).to_have_count(3)
    server.send({"type": "delta", "round": 1, "index": 1, "text": "Half of "})
    server.send({"type": "delta", "round": 1, "index": 1, "text": "84 – £42 😀"})
    expect(cards.nth(1).locator(".text")).to_have_text("Half of 84 – £42 😀")
    assert cards.locator("math").count() == 0
    server.send(*ROUNDS[0][:2])
    expect(page.get_by_text("Round 1: generators, 2 of 3 done")).to_be_visible()
    expect(cards.nth(1).locator(".text math mfrac")).to_have_count(1)
    expect(cards.nth(1).locator(".badge")).to_have_text("answer B 42")
    expect(page.locator(".summary .facts")).to_contain_text("tokens/s")
    server.send(ROUNDS[0][2])
    expect(
        page.get_by_role("heading", name="Round 1: generators ≠ split: 1 × A, 1 × B, 1 without an answer")
    ).to_be_visible()
    expect(cards.nth(2)).to_contain_text("cut off at the limit")
    server.start(2)
    expect(cards).to_have_count(6)
    server.send(*ROUNDS[1])
    server.finish(debate(ROUNDS))
    summary = page.get_by_role("region", name="Verdict")
    expect(summary.locator(".chosen")).to_have_text("Verdict answer B 42")
    expect(summary.get_by_role("listitem")).to_have_text(["answer B 42 2 of 3 votes", "answer A 41 1 of 3 votes"])
    expect(summary).to_contain_text("720 tokens · 1,800 tokens read · 8.2 s · 88 tokens/s")
    expect(page).to_have_url(server.url + "/debate/d1")
    expect(page.locator(".question math mfrac")).to_have_count(1)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
