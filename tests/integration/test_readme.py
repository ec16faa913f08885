"""What the README shows is what happens."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("mada ")
]
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MADA_DATA"}
    return subprocess.run(
        [sys.executable, "-m", "mada", *shlex.split(command, comments=True)[1:]],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(command):
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_shows_lines_that_are_printed():
    printed = run("mada grade examples/replies.jsonl").stdout.splitlines()
    shown = [line for line in README.splitlines() if re.match(r" +\d+  (right|wrong)  ", line)]
    assert len(shown) == 4
    assert set(shown) <= set(printed)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_prints_what_it_says(program):
    expected = re.findall(r"print\(.*\)  # (.*)", program)
    assert expected
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {"__name__": "readme"})
    assert printed.getvalue().splitlines() == expected


def test_every_page_the_readme_links_to_is_there():
    links = re.findall(r"\]\(([\w/.-]+)\)", README)
    assert len(links) >= 7
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_the_tree_names_every_part_of_the_package():
    parts = {
        path.name for path in (REPOSITORY / "src" / "mada").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert [part for part in parts if f"\n  {part}/ " not in README] == []
