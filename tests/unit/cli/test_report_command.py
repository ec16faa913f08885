"""`mada report`: where the report of one run or of several lies, and what is said to somebody who made a mistake."""

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from mada.cli import app
from mada.runs import Run


class Recipe(BaseModel):
    seed: int = 0
    name: str = "tiny"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Leave out the pictures: they take most of the time, and runs without records have none."""
    monkeypatch.setattr("mada.report.figures.writing.write_figures", lambda figures, folder: ([], {}))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was asked to open, and how that ended."""
    asked = []

    class Browser:
        succeeds = True
        addresses = asked

        def open(self, address):
            asked.append(address)
            return self.succeeds

    browser = Browser()
    monkeypatch.setattr("webbrowser.open", browser.open)
    return browser


@pytest.fixture
def make(tmp_path):
    def run(name):
        with Run.open(tmp_path / name, Recipe()):
            pass

    return run


def done(*words):
    """Run a command that works, and return what it printed to either stream."""
    ended = CliRunner(env={"TERM": "dumb"}).invoke(app, ["report", *map(str, words)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout, ended.stderr


def test_the_report_of_one_run_lies_in_its_folder(make, tmp_path, opened):
    make("runs/first")
    assert done("runs/first") == ("runs/first/report.html: 0 tables, 0 figures, 0 debates\n", "")
    folder = tmp_path / "runs" / "first"
    assert "<title>tiny</title>" in (folder / "report.html").read_text()
    assert (folder / "report.md").read_text().startswith("# tiny\n\nRun `first`, seed 0, ")
    assert opened.addresses == []
    assert not (tmp_path / "reports").exists()
    written = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    assert done("--run", "runs/first") == ("runs/first/report.html: 0 tables, 0 figures, 0 debates\n", "")
    assert (folder / "report.html").read_bytes() == written


def test_several_runs_have_a_folder_of_their_own(make, tmp_path):
    for name in ("a", "b", "c"):
        make(f"runs/{name}")
    assert done("runs/a", "runs/b")[0] == "reports/a+b/report.html: 1 table, 0 figures, 0 debates\n"
    assert "<title>a and b</title>" in (tmp_path / "reports" / "a+b" / "report.html").read_text()
    assert (tmp_path / "reports" / "a+b" / "report" / "tables" / "runs.tex").is_file()
    assert not (tmp_path / "runs" / "a" / "report.html").exists()
    # The one that is named as an option comes last.
    assert done("runs/b", "runs/c", "--run", "runs/a")[0].startswith("reports/b+c+a/report.html: ")
    assert done("runs/a", "runs/b", "--out", "else/where")[0].startswith("else/where/report.html: 1 table")
    assert (tmp_path / "else" / "where" / "report.md").read_text().startswith("# a and b\n\n2 runs side by side")


@pytest.mark.parametrize("place", ["runs/a b", "reports/a b+c"])
def test_a_browser_is_asked_for_the_page_that_was_written(make, tmp_path, opened, place):
    make("runs/a b")
    make("runs/c")
    runs = ["runs/a b"] if place == "runs/a b" else ["runs/a b", "runs/c"]
    assert done(*runs, "--open")[1] == ""
    assert opened.addresses == [(tmp_path / place / "report.html").as_uri()]
    assert "%20" in opened.addresses[0]


def test_without_a_browser_the_page_is_named(make, tmp_path, opened):
    make("runs/a b")
    opened.succeeds = False
    out, err = done("runs/a b", "--open")
    assert out == "runs/a b/report.html: 0 tables, 0 figures, 0 debates\n"
    assert err == f"mada: found no browser to open; the page is '{tmp_path}/runs/a b/report.html'\n"


def test_mistakes_are_told_before_anything_is_written(make, refused, tmp_path):
    make("a")
    make("b")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "same").symlink_to("a")
    before = sorted(tmp_path.rglob("*"))
    assert refused("report") == (
        "mada: got no run; give the folder of one, such as runs/quickstart, or of several to compare\n"
    )
    twice = f"mada: got {tmp_path}/a twice; give each run once\n"
    assert refused("report", "a", "b", "a") == twice
    assert refused("report", "a", "b", "--run", "b/../a") == twice
    assert refused("report", "same", "a") == twice
    assert refused("report", "gone") == "mada: gone does not exist; give the folder of a run\n"
    assert refused("report", "a", "file") == "mada: file is a file; give the folder of a run\n"
    assert refused("report", "empty") == (
        "mada: empty has no manifest.json, so it is not a run; give the folder of a run\n"
    )
    assert refused("report", "a", "--out", "else") == (
        "mada: got --out with one run, whose report lies in its own folder; give several runs, or no --out\n"
    )
    assert refused("report", "a", "b", "--out", "b") == (
        "mada: got --out b, which is a run and has a report of its own; give another folder\n"
    )
    assert sorted(tmp_path.rglob("*")) == before
