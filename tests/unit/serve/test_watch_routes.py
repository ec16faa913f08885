"""The routes of runs: names are looked up, answers are JSON whatever the files say."""

import asyncio
import json
import re

import pytest
from fastapi.testclient import TestClient

from mada.pipeline.live import EVENTS
from mada.recipe import load_recipe
from mada.runs import Run
from mada.serve import watch
from mada.serve.following import FollowedRun
from mada.serve.watch import RunFolders, watch_app


@pytest.fixture
def make_run(tmp_path):
    (tmp_path / "recipe.toml").write_text('name = "tiny"\n[model]\nname = "mada-nano"\n')
    recipe = load_recipe(tmp_path / "recipe.toml")

    def make(*path):
        with Run.open(tmp_path.joinpath(*path), recipe):
            pass
        return tmp_path.joinpath(*path)

    return make


def names(client):
    return [run["name"] for run in client.get("/api/runs").json()["runs"]]


def test_runs_are_found_in_folders_when_they_begin(tmp_path, make_run):
    client = TestClient(watch_app(RunFolders([tmp_path / "runs", make_run("alone")])))
    assert names(client) == ["alone"]
    make_run("runs", "first")
    (tmp_path / "runs" / "notes").mkdir()
    make_run("runs", "second", "inner")
    assert sorted(names(client)) == ["alone", "first"]
    (tmp_path / "runs" / "first" / "manifest.json").unlink()
    assert names(client) == ["alone"]


def test_runs_of_one_name_get_a_number_that_stays_theirs(tmp_path, make_run):
    places = [make_run("b", "run"), tmp_path / "a"]
    folders = RunFolders(places)
    assert dict(folders) == {"run": tmp_path / "b" / "run"}
    make_run("a", "run")
    make_run("a", "run-2")
    assert dict(folders) == {
        "run": tmp_path / "b" / "run",
        "run-2": tmp_path / "a" / "run",
        "run-2-2": tmp_path / "a" / "run-2",
    }
    assert len(RunFolders([*places, *places])) == 3


def test_running_runs_come_first_then_the_latest(tmp_path, make_run):
    for name in ("1", "2", "3"):
        make_run("runs", name)
    client = TestClient(watch_app(RunFolders([tmp_path / "runs"])))
    assert names(client) == ["3", "2", "1"]
    recipe = load_recipe(tmp_path / "recipe.toml")
    with Run.open(tmp_path / "runs" / "4", recipe), Run.open(tmp_path / "runs" / "1", recipe):
        assert names(client) == ["1", "4", "3", "2"]


def test_a_run_is_told_whole(make_run):
    client = TestClient(watch_app({"run": make_run("run")}))
    answer = client.get("/api/runs/run")
    assert answer.headers["Cache-Control"] == "no-store"
    told = answer.json()
    assert (told["name"], told["state"], told["stage"], told["model"]) == ("run", "stopped", "split", "mada-nano")
    assert told["curves"]["critics"] == {"steps": {}, "validations": {}}


@pytest.mark.parametrize(
    "name", ["nope", "..", "%2e%2e", "run%2f..%2frun", "%00", "../run", "<script>", "%ff", "run/../../etc"]
)
def test_a_name_that_is_not_listed_is_not_found(make_run, name):
    client = TestClient(watch_app({"run": make_run("run")}))
    for address in (f"/api/runs/{name}", f"/api/runs/{name}/events"):
        answer = client.get(address)
        assert answer.status_code == 404 or answer.request.url.path == "/api/runs/run"


def test_odd_names_and_files_of_folders_harm_nothing(tmp_path, make_run):
    folder = make_run("runs", "<img src=x>\u202e\x1b[31m")
    (folder / EVENTS).write_text(
        '{"event": "Log", "time": NaN, "message": "a"}\n{"event": "Progress", "done": 1e999}\n'
    )
    (folder / "generators").mkdir()
    (folder / "generators" / "metrics.jsonl").write_text(
        '{"step": NaN, "agent": "a"}\n{"step": 1, "agent": [], "reward": 1}\n{"step": 2, "agent": "\\ud800", "reward": '
        'Infinity, "rollout_tokens_per_second": "fast"}\n{"step": true, "agent": "a"}\n{"step": 1' + "0" * 400 + "}\n"
    )
    client = TestClient(watch_app(RunFolders([tmp_path / "runs"])))
    assert names(client) == ["<img src=x>��[31m"]
    told = client.get("/api/runs/%3Cimg src=x%3E%EF%BF%BD%EF%BF%BD%5B31m").json()
    assert told["curves"]["generators"]["steps"] == {"�": [[2, None, None, None, None]]}


def test_the_page_is_there_and_knows_that_nobody_can_be_asked(make_run):
    client = TestClient(watch_app({"run": make_run("run")}))
    assert client.get("/watch/run").headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert {"can_ask": False, "can_watch": True, "teams": []}.items() <= client.get("/api/info").json().items()
    for name in ("watch.js", "curves.js"):
        script = client.get(f"/assets/{name}").text
        assert re.search(r"innerHTML|outerHTML|insertAdjacent|https?://(?!www\.w3\.org/2000/svg)", script) is None


def test_the_stream_begins_with_everything_and_goes_on_with_changes(make_run, monkeypatch):
    monkeypatch.setattr(watch, "SECONDS", 0.0)
    folder = make_run("run")

    async def read():
        changes = watch._changes(FollowedRun("run", folder), lambda: False)
        first = json.loads((await anext(changes))["data"])
        (folder / EVENTS).write_text('{"event": "StageStarted", "time": 1, "name": "critics", "number": 4, "of": 6}\n')
        return first, json.loads((await anext(changes))["data"])

    first, second = asyncio.run(read())
    assert first["name"] == "run"
    assert second["stage"] == "critics"
    assert "curves" not in second
