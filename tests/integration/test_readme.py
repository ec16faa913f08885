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


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(command, runs):
    done = run(in_folder(command, runs))
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_shows_lines_that_are_printed():
    printed = run("mada grade examples/replies.jsonl").stdout.splitlines()
    shown = [line for line in README.splitlines() if re.match(r" +\d+  (right|wrong)  ", line)]
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


def test_every_page_the_readme_links_to_is_there():
    links = re.findall(r"\]\(([\w/.-]+)\)", README)
    assert len(links) >= 7
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_the_tree_names_every_part_of_the_package():
    parts = {
        path.name for path in (REPOSITORY / "src" / "mada").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert [part for part in parts if f"\n  {part}/ " not in README] == []
