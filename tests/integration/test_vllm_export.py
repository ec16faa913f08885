"""An exported team on vLLM's own server, started by the script that the export brings (`make vllm`)."""

import asyncio
import json
import os
import subprocess
import sys

import httpx2
import pytest

from factories import trained_run
from mada.debate.prompts import Prompts
from mada.export import export_run
from mada.runs import StoredRun
from mada.team import Team
from vllm_server.running import running_server

PYTHON = os.environ.get("MADA_VLLM_PYTHON")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="MADA_VLLM_PYTHON names no Python with vLLM; `make vllm` does")

QUESTION = "Calculate 64 + 57 - 38."
SHIM = """#!/bin/sh
# The CPU build is a package of another name, which `vllm serve` does not find.
[ "$1" = serve ] && shift && exec {python} -m vllm.entrypoints.openai.api_server --model "$@"
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    return export_run(StoredRun.read(trained_run(folder / "run")), folder / "team").folder


@pytest.fixture(scope="module")
def url(exported, tmp_path_factory):
    commands = tmp_path_factory.mktemp("commands")
    (commands / "vllm").write_text(SHIM.format(python=PYTHON))
    (commands / "vllm").chmod(0o755)
    path = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    with running_server([str(exported / "serve.sh")], log=commands / "vllm.log", environment=path) as address:
        yield address


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def replies(debate):
    return [[turn.response.text for turn in one.turns] for one in debate.rounds]


def test_a_debate_on_the_server_is_the_debate_held_here(exported, url):
    def held(*more: str) -> list[list[str]]:
        command = [*(sys.executable, "-m", "mada", "debate", "--run", str(exported)), *("--temperature", "0", "--json")]
        done = subprocess.run([*command, *more, QUESTION], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        return [[turn["response"]["text"] for turn in one["turns"]] for one in json.loads(done.stdout)["rounds"]]

    here = held()
    assert held("--server", url) == here
    assert len(set(here[0])) > 1, "the adapters differ"


def test_any_client_that_sends_the_prompt_of_the_card_gets_the_same_reply(exported, url):
    """The server renders and encodes the chat itself: with the tokenizer of the export as mada does."""

    async def local():
        async with Team.load(exported, temperature=0.0, rounds=1) as team:
            return replies(await team.debate(QUESTION))

    [here] = asyncio.run(local())
    for agent, reply in zip(("generator-1", "generator-2"), here, strict=True):
        asked = {"role": "user", "content": Prompts().ask(QUESTION)}
        body = {"model": agent, "messages": [asked], "temperature": 0, "max_tokens": 60}
        answered = httpx2.post(f"{url}/chat/completions", json=body, trust_env=False, timeout=120).raise_for_status()
        assert answered.json()["choices"][0]["message"]["content"] == reply
