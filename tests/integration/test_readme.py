"""What the README and the quickstart page show is what happens."""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from mada.learning.advantages import ADVANTAGES, Baseline

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SHOWN = README + (REPOSITORY / "docs" / "quickstart.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition(" #")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", SHOWN, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("mada ")
]
SERVERS = [command for command in COMMANDS if command.split()[1] in ("serve", "watch")]
PROGRAMS = re.findall(r"```python\n(.*?)```", SHOWN, re.DOTALL)
# The README's run takes minutes; the same recipe with two steps and two problems takes seconds.
QUICKSTART = "mada run recipes/quickstart.toml"
SMALL = (
    "data.subset_size=6 data.validation_size=4 training.batch_size=8 generators.steps=2 critics.steps=2 "
    "engine.threads=1 evaluation.seeds=2 evaluation.problems=2 evaluation.benchmarks='[\"abacus-easy\"]'"
)


def run(command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MADA_DATA"}
    return subprocess.run(
        [sys.executable, "-m", "mada", *shlex.split(command, comments=True)[1:]],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def in_folder(text: str, runs: Path) -> str:
    """A command or program of the README with its runs in another folder, and its run made small."""
    folder = runs / "quickstart"
    text = text.replace(QUICKSTART, f"{QUICKSTART} {SMALL} --run {folder}")
    text = re.sub(r"^mada runs$", f"mada runs {runs}", text)
    return text.replace("runs/quickstart", str(folder))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    done = run(in_folder(QUICKSTART, folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("command", [one for one in dict.fromkeys(COMMANDS) if one not in SERVERS])
def test_a_command_of_the_readme_works(command, runs):
    done = run(in_folder(command, runs))
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", dict.fromkeys(SERVERS))
def test_a_server_of_the_readme_serves_its_page_until_it_is_stopped(command, runs, tmp_path):
    words = shlex.split(in_folder(command, runs))[1:]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mada", *words, "--port", "0"], cwd=REPOSITORY, stdout=output, stderr=output
        )
    try:
        until = time.monotonic() + 120
        while (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < until, log.read_text()  # noqa: PT018
            time.sleep(0.1)
        assert "<title>mada</title>" in httpx2.get(found[0], trust_env=False).text
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_the_readme_shows_lines_that_are_printed():
    printed = run("mada grade examples/replies.jsonl").stdout.splitlines()
    shown = [line for line in SHOWN.splitlines() if re.match(r" +\d+  (right|wrong)  ", line)]
    assert len(shown) == 4
    assert set(shown) <= set(printed)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_prints_what_it_says(program, runs):
    expected = re.findall(r"print\(.*\)  # (.*)", program)
    assert expected
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(in_folder(program, runs), {"__name__": "readme"})
    assert printed.getvalue().splitlines() == expected


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))])
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#]*#?[^)]*)\)", text):
        file, _, anchor = link.partition("#")
        if file.startswith("http"):
            continue
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", one.lower())) for one in headings}, link


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))])
def test_every_file_that_a_page_names_is_there(page):
    others = {"recipes/rl_loop.py", "orchestrator/algo/grpo.py"}  # of other projects
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)\b", page.read_text(encoding="utf-8")))
    for file in named - others:
        assert any((folder / file).is_file() for folder in (REPOSITORY, REPOSITORY / "src" / "mada")), file


def test_the_programs_of_the_extending_page_run(monkeypatch):
    monkeypatch.setattr("mada.learning.advantages.ADVANTAGES", dict(ADVANTAGES))
    text = (REPOSITORY / "docs" / "extending.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "extending"}
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, names)
        assert printed.getvalue().splitlines() == re.findall(r"print\(.*\)  # (.*)", program)
    advantages = names["leave_one_out"](np.array([[1.0, 0.0, 0.5]]), Baseline())
    assert advantages.tolist() == [[0.75, -0.75, 0.0]]
