"""`mada watch` in Chromium: a training in another process seen live, and runs whose files were written by hand."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mada.events import (
    Log,
    MemoryUsed,
    Rollout,
    RolloutGroup,
    StageStarted,
    StepFinished,
    StepRollouts,
    TrainingStarted,
)
from mada.pipeline.live import LiveFiles
from mada.recipe import load_recipe
from mada.runs import Run

pytestmark = pytest.mark.browser

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SHORT = (
    *("data.subset_size=40", "data.validation_size=4", "training.batch_size=8", "generators.steps=500"),
    *("training.validate_every=4", "training.checkpoint_every=100"),
)
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"&amp;"
GIB = 2**30
LONG = 120_000  # milliseconds, for a process to load PyTorch on a busy machine


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def started():
    """Start `mada` in a process of its own, which ends with the test."""
    processes = []

    def start(*words):
        command = [sys.executable, "-m", "mada", *map(str, words)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", env=environment
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server(runs, started):
    """The address of a `mada watch` of all runs."""
    process = started("watch", runs, "--port", 0)
    (address,) = re.findall(r"(http://\S+)/watch", process.stdout.readline())
    yield address
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=10), process.stdout.read()) == (0, "")


@pytest.fixture
def opened(browser, server):
    """Open pages that may neither fail nor ask for anything of another server."""
    contexts, troubles, requests = [], [], []

    def open_page(path="/watch", **context):
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(server + path)
        return page

    yield open_page
    for one in contexts:
        one.close()
    assert troubles == []
    assert [url for url in requests if not url.startswith((server + "/", "data:"))] == []


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.toml").write_text('name = "tiny"\n[model]\nname = "mada-nano"\n')
    return load_recipe(tmp_path / "recipe.toml")


def record(step, agent, **numbers):
    return json.dumps({"step": step, "agent": agent, "accuracy": 0.5, "truncated_share": 0.0, **numbers}) + "\n"


def training(folder, *, agents=("generator-1", "generator-2"), question="What is 2 + 2?", text="It is 4."):
    """Write what a training leaves after three of nine steps."""
    steps = [
        record(step, agent, reward=step / 2 + place, length=20.0)
        for step in (1, 2, 3)
        for place, agent in enumerate(agents)
    ]
    looks = [record(step, agent, accuracy=step / 10) for step in (0, 3) for agent in agents]
    (folder / "generators").mkdir()
    (folder / "generators" / "metrics.jsonl").write_text("".join(steps))
    (folder / "generators" / "validation.jsonl").write_text("".join(looks))
    rollouts = (Rollout(text, 12, 2.5, 0.75, True, False), Rollout(text, 1, -0.5, -0.75, False, True))
    groups = tuple(RolloutGroup(agent, "p1", f"{question} ({agent})", rollouts) for agent in agents)
    with LiveFiles(folder, memory=lambda: MemoryUsed(GIB, ((GIB, 4 * GIB),))) as live:
        live(StageStarted("generators", 2, 6))
        live(TrainingStarted("generators", agents, 1, 9, {}, {}))
        live(Log(text))
        live(StepFinished(3, 9, {}, 2.0, 1.5))
        live(StepRollouts("generators", 3, groups))


def points(page):
    """How many points each line of the page has."""
    return page.locator(".curves polyline").evaluate_all("all => all.map(one => one.points.length)")


def test_a_training_in_another_process_is_seen_live_until_it_is_killed(opened, started, runs):
    page = opened()
    process = started("run", RECIPES / "quickstart.toml", *SHORT, "--run", runs / "now", "--until", "generators")
    page.get_by_role("link", name="now").click(timeout=LONG)
    expect(page.locator("#how-far")).to_contain_text(re.compile(r"step ([3-9]|\d\d+) of 500"), timeout=LONG)
    expect(page.locator(".run-state")).to_contain_text("running")
    expect(page.locator(".card").first).to_contain_text("reward", timeout=LONG)
    expect(page.get_by_text("Memory of the process")).to_be_visible()
    page.evaluate("() => { window.line = document.querySelector('.curves polyline'); }")
    before = points(page)
    assert len(before) == 12, "four curves of three generators"
    page.wait_for_function("count => window.line.points.length > count + 3", arg=before[0], timeout=LONG)
    assert page.evaluate("() => window.line.isConnected"), "what is drawn is kept"
    expect(page.locator("#how-far")).to_contain_text("left in this stage")
    process.kill()
    expect(page.locator("p.state")).to_have_text("■ stopped: killed")
    expect(page.locator("#announcements")).to_contain_text("The run is stopped.")
    page.get_by_role("link", name="Watch").click()
    expect(page.get_by_role("row", name="now")).to_contain_text("stopped")


def test_a_run_shows_what_its_files_say(opened, runs, recipe):
    with Run.open(runs / "by hand", recipe) as run:
        with run.stage("split"):
            pass
        training(run.folder)
        page = opened("/watch/by%20hand")
        expect(page.locator("h2")).to_have_text("by hand")
        expect(page.locator("#how-far")).to_contain_text("generators: step 3 of 9")
        expect(page.locator(".stages [aria-current]")).to_contain_text("generators: running")
        expect(page.locator(".now")).to_contain_text("3.5 s 2 s sampling, 1.5 s learning")
        expect(page.locator(".now")).to_contain_text("1 GiB of 4 GiB")
        assert page.locator(".bar-of span").evaluate("one => one.style.width") == "25%"
        assert page.locator("tbody tr").first.inner_text().split("\t") == [
            *(" generator-1", "1.5", "30 %", "30 % (step 3)"),
            *("20", "0 %"),
        ]
        assert page.get_by_role("img").first.get_attribute("aria-label") == (
            "Reward by step, now: generator-1 1.5, generator-2 2.5"
        )
        assert points(page) == [3, 3, 2, 2, 3, 3, 3, 3]
        expect(page.locator(".card").first).to_contain_text("✓ rightreward 2.5advantage +0.7512 tokens")
        expect(page.locator(".card").nth(1)).to_contain_text("✗ wrongreward −0.5advantage −0.751 token, cut off")


def test_rollouts_are_chosen_and_paused_with_the_keyboard(opened, runs, recipe):
    with Run.open(runs / "keyboard", recipe) as run:
        training(run.folder)
    page = opened("/watch/keyboard")
    question = page.locator(".question")
    expect(question).to_have_text("What is 2 + 2? (generator-1)")
    second = page.get_by_role("button", name="generator-2")
    second.focus()
    page.keyboard.press("Enter")
    expect(question).to_have_text("What is 2 + 2? (generator-2)")
    expect(second).to_be_focused()
    expect(second).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    group = RolloutGroup("generator-2", "p2", "Later?", ())
    with LiveFiles(run.folder) as live:
        live(StepRollouts("generators", 4, (group,)))
        live(Log("seen after the rollouts"))
    page.get_by_text("Messages").click()
    expect(page.get_by_text("seen after the rollouts")).to_be_visible()
    expect(question).to_have_text("What is 2 + 2? (generator-2)")
    page.get_by_role("button", name="Pause").press("Enter")
    expect(question).to_have_text("Later?")


def test_hostile_text_is_shown_as_it_is_and_nothing_runs(opened, runs, recipe):
    name = HOSTILE.replace("/", "⁄")
    with Run.open(runs / name, recipe) as run:
        training(run.folder, agents=(HOSTILE, "x" * 300), question=HOSTILE, text=HOSTILE + "x" * 300)
        page = opened(viewport={"width": 360, "height": 740})
        page.get_by_role("link", name=name).click()
        expect(page.locator("h2")).to_have_text(name)
        expect(page.locator(".question")).to_have_text(f"{HOSTILE} ({HOSTILE})")
        expect(page.locator(".card .text").first).to_contain_text(HOSTILE)
        expect(page.locator("tbody th").first).to_contain_text(HOSTILE)
        assert page.evaluate("() => window.hacked") is None
        assert page.locator("main img, main script").count() == 0
        assert not page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")


def test_where_there_are_no_runs_the_page_says_so(browser, server):
    page = browser.new_page()
    page.route("**/api/runs", lambda route: route.fulfill(json={"runs": []}))
    page.goto(f"{server}/watch")
    expect(page.get_by_text("There are no runs here yet")).to_be_visible()
    page.close()


def test_a_run_that_is_not_there_is_said_to_be_missing(browser, server):
    page = browser.new_page()
    page.goto(f"{server}/watch/nope")
    expect(page.get_by_role("alert")).to_contain_text("there is no run 'nope' here")
    page.close()


def test_headings_are_in_order_and_everything_has_a_name(opened, runs, recipe):
    with Run.open(runs / "named", recipe) as run:
        training(run.folder)
        page = opened("/watch/named")
        expect(page.locator("h3:visible").first).to_have_text("Generators")
        levels = page.locator("main :is(h2, h3, h4):visible").evaluate_all("all => all.map(one => +one.tagName[1])")
        assert levels == [2, 3, 3]
        unnamed = page.locator("button, progress:visible").evaluate_all(
            "all => all.filter(one => !one.textContent.trim() && !one.getAttribute('aria-labelledby'))"
        )
        assert unnamed == []
