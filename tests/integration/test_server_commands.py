"""Commands against a real server over HTTP say what they say with the engine in this process."""

import json
import os
import subprocess
import sys

import pytest

from completion_server.running import running_server

QUESTION = "Calculate 64 + 57 - 38."


@pytest.fixture(scope="module")
def server():
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def url(server):
    return server.url("plain")


def mada(*words):
    environment = {name: value for name, value in os.environ.items() if name != "MADA_DATA"}
    return subprocess.run(
        [sys.executable, "-m", "mada", *map(str, words)],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def said(*words):
    done = mada("debate", "--model", "mada-nano", "--temperature", 0, "--json", *words, QUESTION)
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)["rounds"]
    return [[(turn["prompt"], turn["response"]["text"]) for turn in one["turns"]] for one in rounds]


def test_a_debate_through_a_server_is_the_debate_held_here(url):
    there = said("--server", url)
    assert [len(one) for one in there] == [3, 3]
    assert there == said()


def answers(folder):
    lines = (folder / "records" / "scores.jsonl").read_text().splitlines()
    return sorted((one["system"], one["problem"], str(one["answers"])) for one in map(json.loads, lines))


def test_an_evaluation_through_a_server_has_the_scores_of_one_held_here(url, tmp_path):
    common = ["--model", "mada-nano", "--benchmarks", "abacus-easy", "--problems", 2, "--seeds", 1, "--temperature", 0]
    for name, more in (("here", []), ("there", ["--server", url])):
        done = mada("evaluate", *common, "--systems", "single,debate", "--out", tmp_path / name, *more)
        assert done.returncode == 0, done.stderr
        assert ("openai engine: completions come from" in done.stdout) == (name == "there")
    assert answers(tmp_path / "there") == answers(tmp_path / "here")
    effort = json.loads((tmp_path / "there" / "records" / "effort.jsonl").read_text().splitlines()[0])
    assert effort["device"] == f"server {url}"
    assert effort["accelerators"] == 0


def test_replies_that_a_server_filters_are_counted_and_too_many_end_it_with_the_way_on(server, tmp_path):
    common = ["evaluate", "--model", "mada-nano", "--benchmarks", "abacus-easy", "--problems", 4, "--seeds", 1,
              "--systems", "single", "--out", tmp_path]  # fmt: skip
    filtered = ["--server", server.url("reason=content_filter")]
    done = mada(*common, *filtered)
    assert done.returncode == 2
    assert "more than 1 of 4 questions" in done.stderr
    assert "the reason 'content_filter'" in done.stderr
    assert "To continue: mada evaluate --model mada-nano" in done.stderr
    assert len(answers(tmp_path)) == 1
    done = mada(*common, *filtered, "--fail-on-error", 1)
    assert done.returncode == 0, done.stderr
    assert "counted as wrong: single agent 100.00 %" in " ".join(done.stdout.split())
    assert "server failed to give" in (tmp_path / "report.md").read_text()


def test_a_server_without_the_model_is_refused_in_one_message(url, tmp_path):
    done = mada("evaluate", "--model", "mada-nano", "--adapter", tmp_path / "critic-9", "--server", url,
                "--benchmarks", "abacus-easy", "--out", tmp_path / "out")  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_server_is_one_message_too(tmp_path):
    done = mada("evaluate", "--model", "mada-nano", "--server", "localhost:9", "--benchmarks", "abacus-easy",
                "--problems", 1, "--seeds", 1, "--out", tmp_path / "out")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("mada: ")
    assert "Traceback" not in done.stderr
