"""The served page in Chromium, against a server whose events the tests send one by one."""

import asyncio
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from urllib.error import HTTPError
from urllib.request import Request as URLRequest
from urllib.request import urlopen

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from playwright.sync_api import expect

from mada.report.page.mathematics import answer_html, text_html
from mada.serve.page import ASSETS, page_routes

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
        for one in sorted(dict.fromkeys(given), key=given.count, reverse=True)
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
                    "unanimous": len(one["verdict"]["votes"]) == 1 and one["verdict"]["unanswered"] == 0,
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


def announced(page):
    """What screen readers were told of by themselves."""
    return page.locator("#announcements p").all_inner_texts()


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
    split = "Round 1: generators ≠ split: 1 × A, 1 × B, 1 without an answer"
    expect(page.get_by_role("heading", name=split)).to_be_visible()
    expect(cards.nth(2)).to_contain_text("cut off at the limit")
    server.start(2)
    expect(cards).to_have_count(6)
    server.send(*ROUNDS[1])
    server.finish(debate(ROUNDS))
    summary = page.get_by_role("region", name="Verdict")
    expect(summary.locator(".state")).to_have_text("Verdict answer B 42")
    expect(summary.get_by_role("listitem")).to_have_text(["answer B 42 2 of 3 votes", "answer A 41 1 of 3 votes"])
    expect(summary).to_contain_text("720 tokens · 1,800 tokens read · 8.2 s · 88 tokens/s")
    expect(page).to_have_url(server.url + "/debate/d1")
    expect(page.locator(".question math mfrac")).to_have_count(1)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_held_debate_looks_as_it_did_when_it_arrived(ask, server):
    page, _ = ask()
    server.start()
    server.send(*ROUNDS[0])
    server.start(2)
    server.send(*ROUNDS[1])
    server.finish(debate(ROUNDS))
    expect(page.get_by_role("link", name="All debates")).to_be_visible()
    before = page.locator(".held").inner_html()
    page.reload()
    expect(page.locator(".card")).to_have_count(6)
    assert page.locator(".held").inner_html() == before
    assert announced(page) == []


def test_only_finished_turns_and_the_verdict_are_announced(ask, server):
    page, _ = ask()
    server.start()
    server.send({"type": "delta", "round": 1, "index": 0, "text": "Half of"}, *ROUNDS[0])
    expect(page.locator("#announcements p")).to_have_count(3)
    assert announced(page) == ["generator-1: 41", "generator-2: 42", "generator-3: no answer"]
    server.start(2)
    server.send(*ROUNDS[1])
    server.finish(debate(ROUNDS))
    expect(page.locator("#announcements p").last).to_contain_text("Verdict")
    assert page.locator("[aria-live], [role=status], [role=alert], [role=log]").count() == 1


def test_agreement_is_said_in_words(opened, server):
    said = {
        ("41", "41", "41"): "✓ all 3 agree",
        ("42", "41", "42"): "≠ split: 2 × B, 1 × A",
        ("41", "42", None): "≠ split: 1 × A, 1 × B, 1 without an answer",
        ("41", None, "41"): "2 agree, 1 without an answer",
        ("41", None, None): "1 answer, 2 without an answer",
        (None, None, None): "3 without an answer",
        ("41",): "",
    }
    rounds = [[turn(number, index, one) for index, one in enumerate(given)] for number, given in enumerate(said, 1)]
    server.debates["d1"] = debate(rounds)
    page = opened("/debate/d1")
    expect(page.locator(".agreement")).to_have_text(list(said.values()))


def test_a_debate_without_any_answer_has_no_verdict(opened, server):
    server.debates["d1"] = debate([[turn(1, 0, None), turn(1, 1, None)]])
    page = opened("/debate/d1")
    expect(page.locator(".summary .state")).to_have_text("Verdict no answer")
    expect(page.locator(".summary")).to_contain_text("2 without an answer")


def test_thinking_is_folded(opened, server):
    text = "<think>\nLet me <b>see</b>: $\\frac{1}{2}$.\n</think>\n\nIt is $\\boxed{42}$."
    server.debates["d1"] = debate([[turn(1, 0, "42", text=text)]])
    page = opened("/debate/d1")
    thinking = page.get_by_text("Let me <b>see</b>")
    expect(thinking).to_be_hidden()
    page.get_by_text("Thinking").click()
    expect(thinking).to_be_visible()
    expect(page.locator(".card > .text")).not_to_contain_text("think>")


def test_team_rounds_and_seed_are_sent(opened, server):
    page = opened()
    expect(page.get_by_label("Rounds")).to_have_value("2")
    page.get_by_label("Rounds").select_option("4")
    page.get_by_label("Seed").fill("17")
    page.get_by_label("Ask a team").fill("What is 6 · 7?")
    page.get_by_role("button", name="Ask").click()
    asked = server.asked.get(timeout=5)
    assert (asked["seed"], asked["mada"]["rounds"]) == (17, 4)
    page.get_by_role("link", name="Ask").click()
    page.get_by_label("Team", exact=True).select_option("alone")
    expect(page.get_by_text("1 generator · Qwen2.5-1.5B-Instruct · not trained")).to_be_visible()
    expect(page.get_by_label("Rounds").locator("option")).to_have_count(1)
    page.get_by_role("button", name="Ask").click()
    asked = server.asked.get(timeout=5)
    assert (asked["model"], asked["mada"]["rounds"]) == ("alone", 1)


def test_a_seed_that_is_no_number_and_an_empty_question_are_not_sent(opened, server):
    page = opened()
    page.get_by_role("button", name="Ask").click()
    page.get_by_label("Ask a team").fill("  ")
    page.get_by_role("button", name="Ask").click()
    page.get_by_label("Ask a team").fill(QUESTION)
    page.get_by_label("Seed").fill("many")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_timeout(100)
    assert server.asked.empty()


def test_recent_debates_lead_to_their_pages_and_back(opened, server):
    server.debates["d1"] = debate(ROUNDS)
    server.debates["d2"] = debate([[turn(1, 0, "42"), turn(1, 1, "42")]], name="d2", question="And 2 · 21?")
    page = opened()
    rows = page.get_by_role("region", name="Recent debates").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("And 2 · 21?")
    expect(rows.first).to_contain_text("✓ unanimous")
    expect(rows.last).to_contain_text("≠ not unanimous")
    rows.last.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Debate")).to_be_focused()
    expect(page).to_have_title(f"mada: {QUESTION}")
    page.go_back()
    expect(rows).to_have_count(2)
    expect(page.get_by_label("Ask a team")).to_be_focused()
    page.go_forward()
    expect(page.locator(".card")).to_have_count(6)
    page.get_by_role("button", name="Ask again").click()
    expect(page.get_by_label("Ask a team")).to_have_value(QUESTION)
    expect(page).to_have_url(server.url + "/")


def test_a_debate_there_is_not(opened):
    page = opened("/debate/none", allowed="404")
    expect(page.get_by_role("alert")).to_contain_text("there is no debate none")


def test_the_link_can_be_copied(opened, server):
    server.debates["d1"] = debate(ROUNDS)
    page = opened("/debate/d1", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == server.url + "/debate/d1"


# --- what goes wrong ---


def test_stop_ends_the_request_and_keeps_what_was_said(ask, server):
    page, _ = ask()
    server.start()
    server.send({"type": "delta", "round": 1, "index": 0, "text": "Half of"}, ROUNDS[0][1])
    expect(page.locator(".badge")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    assert server.left.wait(5)
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_text("not finished")).to_have_count(2)
    expect(page.locator(".card").first).to_contain_text("Half of")
    again = page.get_by_role("button", name="Ask again")
    expect(again).to_be_focused()
    again.click()
    expect(page.get_by_label("Ask a team")).to_have_value(QUESTION)


def test_leaving_the_view_ends_the_request(ask, server):
    page, _ = ask()
    server.start()
    expect(page.locator(".card")).to_have_count(3)
    page.get_by_role("link", name="Ask").click()
    assert server.left.wait(5)
    expect(page.get_by_label("Ask a team")).to_have_value(QUESTION)


def test_the_skip_link_does_not_leave_the_view(ask, server):
    page, _ = ask()
    server.start()
    expect(page.locator(".card")).to_have_count(3)
    page.get_by_role("link", name="Skip to the content").press("Enter")
    expect(page.locator("main")).to_be_focused()
    server.send(ROUNDS[0][0])
    expect(page.locator(".badge")).to_have_count(1)


def test_a_stream_that_ends_early_says_so(ask, server):
    page, _ = ask()
    server.start()
    server.send(ROUNDS[0][1])
    server.say(None)
    expect(page.get_by_role("alert")).to_contain_text("ended the connection before it was done")
    expect(page.locator(".badge")).to_have_text("answer B 42")
    expect(page.get_by_text("not finished")).to_have_count(2)
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()


def test_an_error_within_the_stream_is_shown(ask, server):
    page, _ = ask()
    server.start()
    server.say(json.dumps({"error": {"message": f"the engine failed {HOSTILE}"}}))
    expect(page.get_by_role("alert")).to_contain_text(f"the engine failed {HOSTILE}")
    assert not is_hacked(page)


def test_a_busy_server_is_asked_again_after_the_time_it_said(opened, server):
    server.refusals = [(429, {"Retry-After": "2"})]
    page = opened(allowed="429")
    page.get_by_label("Ask a team").fill(QUESTION)
    page.keyboard.press("Enter")
    server.asked.get(timeout=5)
    expect(page.get_by_role("alert")).to_contain_text("64 debates are waiting already")
    expect(page.get_by_text("Asking again in")).to_be_visible()
    expect(page.get_by_label("Ask a team")).to_have_value(QUESTION)
    assert server.asked.empty()
    assert server.asked.get(timeout=5)["messages"][0]["content"] == QUESTION
    server.start()
    expect(page.locator(".card")).to_have_count(3)


def test_a_busy_server_is_left_alone_where_the_user_says_so(opened, server):
    server.refusals = [(503, {"Retry-After": "1"})]
    page = opened(allowed="503")
    page.get_by_label("Ask a team").fill(QUESTION)
    page.keyboard.press("Enter")
    server.asked.get(timeout=5)
    page.get_by_role("button", name="Do not ask again").click()
    expect(page.get_by_label("Ask a team")).to_be_focused()
    page.wait_for_timeout(1_500)
    assert server.asked.empty()


def test_nothing_half_written_is_asked(opened, server):
    server.refusals = [(429, {"Retry-After": "1"})]
    page = opened(allowed="429")
    page.get_by_label("Ask a team").fill(QUESTION)
    page.keyboard.press("Enter")
    server.asked.get(timeout=5)
    expect(page.get_by_text("Asking again in")).to_be_visible()
    page.get_by_label("Ask a team").press_sequentially(" And")
    page.wait_for_timeout(1_500)
    assert server.asked.empty()


def test_other_refusals_are_shown_with_the_question_kept(opened, server):
    server.refusals = [(400, {})]
    page = opened(allowed="400")
    page.get_by_label("Ask a team").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("64 debates are waiting already")
    expect(page.get_by_label("Ask a team")).to_have_value(QUESTION)


def test_a_key_is_asked_for_once_and_kept_for_the_tab(opened, server):
    server.key, server.debates = "secret", {"d1": debate(ROUNDS)}
    page = opened(allowed="401")
    dialog = page.get_by_role("dialog", name="This server needs a key")
    dialog.get_by_label("Key", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("did not accept")
    dialog.get_by_label("Key", exact=True).fill("secret")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Recent debates")).to_be_visible()
    expect(dialog).to_have_count(0)
    page.reload()
    expect(page.get_by_role("region", name="Recent debates")).to_be_visible()
    assert "secret" not in page.url
    assert page.evaluate("() => localStorage.length") == 0


def test_without_the_key_the_page_says_what_it_needs(opened, server):
    server.key = "secret"
    page = opened(allowed="401")
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("needs a key")
    page.get_by_role("button", name="Try again").click()
    page.get_by_label("Key", exact=True).fill("secret")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Ask a team")).to_be_visible()


# --- what models write is shown and never obeyed ---


def test_hostile_text_is_shown_as_it_is_and_nothing_runs(ask, server):
    page, _ = ask(HOSTILE)
    agents = [HOSTILE, "generator-2", "generator-3"]
    server.start(agents=agents)
    server.send({"type": "delta", "round": 1, "index": 0, "text": HOSTILE})
    card = page.locator(".card").first
    expect(card.locator("h4")).to_have_text(HOSTILE)
    expect(card.locator(".text")).to_have_text(HOSTILE)
    hostile = turn(1, 0, HOSTILE, agent=HOSTILE, text=HOSTILE)
    others = [turn(1, 1, "42", text=f"</think>{HOSTILE}"), turn(1, 2, None)]
    server.send(hostile, *others)
    expect(card.locator(".answer")).to_have_text(HOSTILE)
    expect(card.locator(".text")).to_have_text(HOSTILE)
    held = debate([[hostile, *others]], question=HOSTILE, team=HOSTILE)
    server.finish(held)
    expect(page.locator(".held > .top .facts bdi")).to_have_text(HOSTILE)
    expect(page.locator(".question")).to_have_text(HOSTILE)
    expect(page.locator(".votes .answer").first).to_have_text(HOSTILE)
    assert page.locator("main :is(script, img, [onerror])").count() == 0
    page.get_by_role("link", name="All debates").click()
    expect(page.locator(".recent .asked-first")).to_have_text(HOSTILE)
    assert page.locator("main :is(script, img, [onerror])").count() == 0
    assert not is_hacked(page)


def test_even_markup_that_slipped_through_could_not_run(opened, server):
    refused = "Content Security Policy"
    page = opened(allowed=refused)
    expect(page.get_by_label("Ask a team")).to_be_visible()
    page.evaluate(
        """() => {
            const hole = document.createElement("div");
            hole.innerHTML = "<img src='data:,' onerror='window.hacked=1'><p style='position:fixed'>";
            document.body.append(hole);
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
        }"""
    )
    page.wait_for_timeout(100)
    assert not is_hacked(page)
    assert page.locator("p[style]").evaluate("one => getComputedStyle(one).position") == "static"


# --- how it behaves as a page ---


def test_everything_can_be_done_with_the_keyboard(opened, server):
    page = opened()
    question = page.get_by_label("Ask a team")
    expect(question).to_be_focused()
    page.keyboard.type("First line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line")
    page.keyboard.press("Enter")
    assert server.asked.get(timeout=5)["messages"][0]["content"] == "First line\nsecond line"
    server.start()
    expect(page.locator(".card")).to_have_count(3)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Ask again")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_be_focused()
    for name in ("Team", "Rounds", "Seed"):
        page.keyboard.press("Tab")
        expect(page.get_by_label(name, exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    server.asked.get(timeout=5)
    server.start()
    server.send(*ROUNDS[0])
    server.start(2)
    server.send(*ROUNDS[1])
    expect(page.get_by_role("heading", name="Debate")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    server.finish(debate(ROUNDS))
    expect(page.locator(".buttons :first-child")).to_be_focused()


def test_a_phone_scrolls_in_one_direction_only(ask, server):
    endless = "x" * 300
    long = turn(1, 0, endless, agent=endless, text=f"{endless} $$" + "+".join(["a^2"] * 60) + "$$", group=4)
    server.info["teams"] = [{**TEAM, "name": endless, "model": endless}]
    server.debates["d0"] = debate([[long]], name="d0", question=endless, team=endless)
    page, _ = ask(endless, viewport={"width": 360, "height": 740}, has_touch=True)
    server.start(agents=[endless, "generator-2", "generator-3"])
    server.send({"type": "delta", "round": 1, "index": 1, "text": endless})
    expect(page.locator(".card").nth(1)).to_contain_text(endless)
    assert not is_wider_than_the_window(page)
    server.send(long, *ROUNDS[0][1:])
    server.finish(debate([[long, *ROUNDS[0][1:]]], question=endless, team=endless))
    expect(page.get_by_role("link", name="All debates")).to_be_visible()
    assert not is_wider_than_the_window(page)
    boxes = [card.bounding_box() for card in page.locator(".card").all()]
    assert len({box["x"] for box in boxes if box}) == 1
    page.get_by_role("link", name="All debates").click()
    expect(page.locator(".recent li")).to_have_count(2)
    assert not is_wider_than_the_window(page)


def test_agents_of_a_round_stand_side_by_side_where_there_is_room(opened, server):
    server.debates["d1"] = debate(ROUNDS)
    page = opened("/debate/d1")
    expect(page.locator(".card")).to_have_count(6)
    boxes = [card.bounding_box() or {} for card in page.locator(".card").all()]
    assert [round(box["y"]) for box in boxes[:3]] == [round(boxes[0]["y"])] * 3
    assert boxes[3]["x"] == boxes[0]["x"]
    assert boxes[3]["y"] > boxes[0]["y"]


def test_the_scheme_is_the_systems_until_somebody_chooses(opened):
    def colour(page):
        return page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")

    dark = opened(color_scheme="dark")
    assert colour(dark) == "rgb(21, 23, 26)"
    dark.get_by_role("button", name="Light").click()
    assert colour(dark) == "rgb(253, 252, 249)"
    dark.reload()
    expect(dark.get_by_role("button", name="Dark")).to_be_visible()
    assert colour(dark) == "rgb(253, 252, 249)"


@pytest.mark.parametrize(("setting", "name"), [("reduce", "none"), ("no-preference", "blink")])
def test_nothing_blinks_for_those_who_want_no_motion(ask, server, setting, name):
    page, _ = ask(reduced_motion=setting)
    server.start()
    text = page.locator(".live .text").first
    expect(text).to_be_attached()
    assert text.evaluate("one => getComputedStyle(one, '::after').animationName") == name


@pytest.mark.parametrize("path", ["/", "/debate/d1"])
def test_headings_are_in_order_and_everything_has_a_name(opened, server, path):
    server.debates["d1"] = debate(ROUNDS)
    page = opened(path)
    expect(page.locator("main h2").first).to_be_visible()
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = page.locator("input, select, button, textarea, progress").evaluate_all(
        "all => all.filter(one => !one.textContent.trim() && !one.labels?.length && !one.ariaLabel)"
        ".map(one => one.outerHTML)"
    )
    assert unnamed == []
    for landmark in ("banner", "navigation", "main"):
        expect(page.get_by_role(landmark)).to_have_count(1)


def test_watch_is_loaded_when_it_is_wanted(opened, server):
    stub = "export function show(main, run) { main.textContent = `watching ${run}`; }"
    page = opened()
    page.route("**/assets/watch.js", lambda route: route.fulfill(body=stub, content_type="text/javascript"))
    page.get_by_role("link", name="Watch").click()
    expect(page.locator("main")).to_have_text("watching null")
    expect(page.get_by_role("link", name="Watch")).to_have_attribute("aria-current", "page")
    page.goto(server.url + "/watch/a%20run")
    expect(page.locator("main")).to_have_text("watching a run")
    server.info["can_ask"] = False
    page.goto(server.url + "/")
    expect(page.locator("main")).to_have_text("watching null")
    expect(page.get_by_role("link", name="Ask")).to_have_count(0)


def fetched(address, **headers):
    """The status, headers and content at an address."""
    try:
        with urlopen(URLRequest(address, headers=headers)) as reply:
            return reply.status, reply.headers, reply.read()
    except HTTPError as error:
        return error.code, error.headers, error.read()


def test_every_file_comes_with_the_policy_and_is_kept_until_it_changes(server):
    for path in ("/", "/debate/x", "/watch", "/watch/x", *(f"/assets/{name}" for name in ASSETS)):
        status, headers, content = fetched(server.url + path)
        assert status == 200
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert headers["Cache-Control"] == "no-cache"
        assert len(content) > 500
        status, headers, content = fetched(server.url + path, **{"If-None-Match": headers["ETag"]})
        assert (status, content) == (304, b"")


def test_nothing_else_is_served(server):
    for name in ("page.py", "..%2Fpage.py", "%2e%2e/page.py", "none.js"):
        assert fetched(f"{server.url}/assets/{name}")[0] == 404


def test_a_real_team_is_asked_and_its_debate_found_again(browser):
    command = [sys.executable, "-m", "mada", "serve", "--model", "mada-nano", "--port", "0", "--no-store"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MADA_SERVE_KEYS": "sesame"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as mada:
        try:
            assert mada.stdout is not None
            urls = (re.search(r"page at (http://\S+)", line) for line in mada.stdout)
            page = browser.new_page()
            page.goto(next(url[1] for url in urls if url))
            page.get_by_label("Key", exact=True).fill("sesame")
            page.keyboard.press("Enter")
            page.get_by_label("Ask a team").fill("Calculate 64 + 57 - 38.")
            page.keyboard.press("Enter")
            expect(page.get_by_role("link", name="All debates")).to_be_visible(timeout=30_000)
            expect(page.locator(".card .badge")).to_have_count(6)
            expect(page.locator(".votes")).to_contain_text("of 3 votes")
            before = page.locator(".held").inner_text()
            page.reload()
            expect(page.locator(".card")).to_have_count(6)
            assert page.locator(".held .state").inner_text() in before
            page.close()
        finally:
            mada.terminate()
