"""Everything that a report of a run leaves on the disk, and the sentence that it begins with."""

import errno
import html
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from pydantic import BaseModel
from scipy.stats import ttest_ind

import mada.runs.manifest
from mada.errors import RunError
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.scores import Score, Transcript
from mada.evaluation.summary import summarize
from mada.report.forms.html import Drawing
from mada.report.publishing import Published, publish_run
from mada.report.sections.results import headline_sentence
from mada.runs import Run
from mada.runs.manifest import Commit

TABLES = {
    *(
        "headline",
        "benchmarks",
        "replies",
        "over-seeds",
        "over-problems",
        "by-benchmark",
        "pairwise-differences",
        "pairwise-p",
    ),
    *("votes", "by-right", "by-seat", "sources", "critics", "samples", "costs"),
    *("main-results", "significance", "costs-performance", "single-agent"),
}
FIGURES = {"tokens", "flow", "critics", "pairs"}
FILES = {
    *("report.html", "report.md", "report/tables.tex"),
    *(f"report/tables/{name}.{ending}" for name in TABLES for ending in ("tex", "md", "html", "txt")),
    *(f"report/figures/{name}.{ending}" for name in FIGURES for ending in ("pdf", "png", "svg")),
}


class Recipe(BaseModel):
    seed: int = 17
    name: str = "tiny"


@pytest.fixture(autouse=True)
def known_commit(monkeypatch):
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: Commit(id="abc123", dirty=False))


@pytest.fixture
def undrawn(monkeypatch):
    """Write a mark in place of every picture: they take most of the time, and have tests of their own."""

    def write(figures, folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{figure.name}.{ending}" for figure in figures for ending in ("pdf", "png", "svg")]
        for path in paths:
            path.write_text("drawn")
        return paths, {figure.name: Drawing("<svg></svg>") for figure in figures}

    monkeypatch.setattr("mada.report.figures.writing.write_figures", write)


@pytest.fixture
def make(tmp_path):
    """Make a run, evaluated where there are scores, and return it for reading."""

    def run(plan=None, scores=(), transcripts=(), *, recipe=None, name="first"):
        with Run.open(tmp_path / name, recipe or Recipe()) as opened:
            if plan is not None:
                opened.write_text(PLAN_FILE, plan.to_json())
                opened.records("scores", Score).extend(scores)
                opened.records("transcripts", Transcript).extend(transcripts)
        return Run.read(tmp_path / name)

    return run


def made_of(folder):
    """The files of a report by their paths, with their bytes; what the run itself keeps is left out."""
    found = [*folder.glob("report.*"), *(folder / "report").rglob("*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found if path.is_file()}


def page_of(run):
    return (run.folder / "report.html").read_text(encoding="utf-8")


def shown(page):
    """The part of a page that people read before any script runs."""
    return page[page.index("<body>") : page.index('<script type="application/json" id="debate-index">')]


def section_titles(page):
    return re.findall("<h2[^>]*>(.*?)</h2>", re.sub("<aside.*</aside>", "", shown(page), flags=re.DOTALL))


def test_a_whole_report_is_a_page_a_text_tables_and_figures(make, plan, scores, transcripts):
    run = make(plan, scores, transcripts)
    published = publish_run(run)
    assert published == Published(run.folder / "report.html", run.folder / "report.md", 19, 4, 24)
    assert str(published) == "19 tables, 4 figures, 24 debates"
    written = made_of(run.folder)
    assert set(written) == FILES
    for name, start in (("flow.pdf", b"%PDF-"), ("flow.png", b"\x89PNG")):
        assert written[f"report/figures/{name}"].startswith(start)
    text = written["report.md"].decode()
    assert set(re.findall(r"^!\[.*\]\((.*)\)$", text, re.MULTILINE)) == {
        f"report/figures/{name}.png" for name in FIGURES
    }


@pytest.mark.usefixtures("undrawn")
def test_every_form_has_the_same_tables_with_the_same_numbers(make, plan, scores, transcripts):
    run = make(plan, scores, transcripts)
    published = publish_run(run)
    page, folder = page_of(run), run.folder / "report" / "tables"
    # Those of the paper that the report has already are not shown again.
    names = re.findall('id="table-([^"]*)"', page)
    assert sorted(names) == sorted(TABLES)
    for name in TABLES:
        assert (folder / f"{name}.html").read_text(encoding="utf-8").rstrip("\n") in page
        assert (folder / f"{name}.tex").read_text(encoding="utf-8") in (folder.parent / "tables.tex").read_text()
    assert '<td class="number">81.2 ± 18.8</td>' in page
    assert (
        "| 3 debate | 75.0 ± 25.0 | +37.5 | 0.350 | 81.2 ± 18.8 | 4 | 1,200 | 200 |"
        in (folder / "headline.md").read_text()
    )
    [line] = [one for one in (folder / "headline.txt").read_text().splitlines() if one.startswith("3 debate")]
    assert " ".join(line.split()[:12]) == "3 debate 75.0 ± 25.0 +37.5 0.350 81.2 ± 18.8 4 1,200"
    assert (
        r"3 debate & 75.0 \ensuremath{\pm} 25.0 & +37.5 & 0.350 & 81.2 \ensuremath{\pm} 18.8 & 4 & 1200 & 200 &"
        in (folder / "headline.tex").read_text()
    )
    assert section_titles(page) == [
        *("Results", "Comparisons", "What debating changed", "More samples", "Costs"),
        *("How it was run", "The paper&#x27;s tables", "Recipe and manifest", "Debates"),
    ]
    text = (run.folder / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# tiny\n\none agent: 37.5 ± 12.5 % of its verdicts are right; ")
    # Examples are for those who have no browser of all debates.
    assert "## Debates to read" in text
    assert "The paper" not in text
    assert "manifest" not in text
    assert '<div class="lead" dir="auto"><p>one agent: 37.5 ± 12.5 % of its verdicts are right; ' in page
    assert re.search("<p>Run <code>first</code>, seed 17, recipe <code>[0-9a-f]{12}</code>, begun ", page)
    assert set(re.findall('<figure class="chart" id="figure-([a-z]+)">', page)) == FIGURES
    # The same records give the same bytes.
    written = made_of(run.folder)
    assert publish_run(Run.read(run.folder)) == published
    assert made_of(run.folder) == written


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("is_evaluated", [True, False])
def test_the_document_of_all_tables_compiles(make, plan, scores, tmp_path, is_evaluated):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    run = make(plan, scores) if is_evaluated else make()
    publish_run(run)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    document = run.folder / "report" / "tables.tex"
    done = subprocess.run([*command, str(document)], cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]
    log = (tmp_path / "tables.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert ("Output written on tables.pdf (19 pages" in log) == is_evaluated


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_has_just_begun(make):
    run = make()
    assert str(publish_run(run)) == "0 tables, 0 figures, 0 debates"
    assert set(made_of(run.folder)) == {"report.html", "report.md", "report/tables.tex"}
    page = page_of(run)
    assert section_titles(page) == ["Results", "How it was run", "Recipe and manifest"]
    assert "<p>This run has not been evaluated yet.</p>" in page
    assert '<div class="lead" dir="auto"><p>Run <code>first</code>, seed 17, ' in page
    assert "<figure" not in page


@pytest.mark.usefixtures("undrawn")
def test_of_an_evaluation_that_goes_on_whole_seeds_are_shown_and_the_others_named(make, plan, scores, transcripts):
    last = [one for one in scores if (one.system, one.seed) == ("vote", 1)][-1]
    run = make(plan, [one for one in scores if one is not last], transcripts)
    # Debates of the second seed have scores, and are left out with it.
    assert publish_run(run).debates == 12
    page = page_of(run)
    assert section_titles(page)[:2] == ["Not finished", "Results"]
    assert "The evaluation is not finished: seed 1 is left out" in page
    assert (
        "one agent: 25.0 % of its verdicts are right; the strongest other system, “vote | of 4”, has +25.0 points."
        in page
    )


@pytest.mark.usefixtures("undrawn")
def test_what_an_earlier_report_left_is_removed_and_nothing_else(make, plan, scores):
    run = make(plan, scores)
    publish_run(run)
    first = set(made_of(run.folder))
    foreign = ["report/notes.txt", "report/own/headline.tex", "report/tables/.keep/kept.tex", "report/tables/Makefile"]
    for path in [*foreign, "report/tables/gone.tex", "report/figures/gone.png"]:
        (run.folder / path).parent.mkdir(exist_ok=True)
        (run.folder / path).write_text("mine")
    (run.folder / PLAN_FILE).unlink()
    publish_run(run)
    assert set(made_of(run.folder)) == {"report.html", "report.md", "report/tables.tex", *foreign}
    assert all((run.folder / path).read_text() == "mine" for path in foreign)
    assert {path for path in first if path.startswith("report/tables/")}, "there was something to remove"


@pytest.mark.usefixtures("undrawn")
def test_in_a_folder_without_an_earlier_report_nothing_is_removed(make, plan, scores):
    run = make(plan, scores)
    own = run.folder / "report" / "figures" / "by-hand.png"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    publish_run(run)
    assert own.read_text() == "mine"


BAD = "</script><script>alert(1)</script><img src=x> & \\input{x} \x1b[2J\x07\u202e\r# h"


@pytest.mark.usefixtures("undrawn")
def test_no_title_and_no_name_is_obeyed(make, plan, scores, transcripts):
    benign = make(plan, scores, transcripts)
    publish_run(benign)
    systems = tuple(one.model_copy(update={"title": f"{BAD}{one.name}"}) for one in plan.systems)
    hostile = plan.model_copy(update={"systems": systems, "benchmarks": (BAD, "algebra")})

    def renamed(one):
        return replace(one, benchmark=BAD if one.benchmark == "arithmetic" else one.benchmark)

    agents = [replace(one, agents=tuple(tuple(BAD + name for name in row) for row in one.agents)) for one in scores]
    run = make(hostile, map(renamed, agents), map(renamed, transcripts), recipe=Recipe(name=BAD), name="hostile")
    published = publish_run(run)
    assert str(published) == "19 tables, 4 figures, 24 debates"
    page = page_of(run)
    assert f"<title>{html.escape(BAD)[:60]}" in page
    for tag in ("<script", "<img", "</script"):
        assert page.lower().count(tag) == page_of(benign).lower().count(tag)
    for path, content in made_of(run.folder).items():
        steering = re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", content.decode())
        assert steering == [], path
    assert "\n# h" not in (run.folder / "report.md").read_text(encoding="utf-8")
    assert "\\input{x}" not in (run.folder / "report" / "tables.tex").read_text(encoding="utf-8")


def sentence(scores, systems, *, reference):
    return headline_sentence(summarize(Grid.of(scores, EvaluationPlan(systems=tuple(systems), reference=reference))))


def test_the_first_sentence_holds_verdict_against_verdict(plan, scores):
    """The debate's votes are right in 0.5 and 1 of the questions, those of one agent in 0.25 and 0.5, of four in 0.5.

    So the debate has 75 % with a standard error of 25, and its rival is the vote, 25 points below without any error:
    t = 1 with one degree of freedom, p = 1 − 2 atan(1)/π.
    """
    assert sentence(scores, plan.systems, reference="debate") == (
        "debate: 75.0 ± 25.0 % of its verdicts are right; the strongest other system, “vote | of 4”, has −25.0 points "
        "(p = 0.500); "
        "critics improve 25.0 % of the questions and damage 12.5 %."
    )


def test_the_rival_is_the_best_at_the_references_tokens_if_there_is_any(plan, scores):
    """One agent's verdicts are the worse rival; with the debate's tokens to use up it is the one that counts."""
    single, vote, debate = plan.systems
    matched = single.model_copy(update={"matched_to": "debate"})
    p = ttest_ind([0.5, 1], [0.25, 0.5], equal_var=False)[1]
    text = sentence(scores, (matched, vote, debate), reference="debate")
    assert f"right; the strongest rival at its budget, “one agent”, has −37.5 points (p = {p:.3f}); critics" in text
    # Tokens of another are no match, and of two that match the better one counts.
    other = vote.model_copy(update={"matched_to": "single"})
    assert "“vote | of 4”" in sentence(scores, (single, other, debate), reference="debate")
    both = matched, vote.model_copy(update={"matched_to": "debate"}), debate
    assert "“vote | of 4”" in sentence(scores, both, reference="debate")


def test_certain_differences_single_seeds_and_systems_alone(plan, scores):
    single, vote, debate = plan.systems
    one_seed = [one for one in scores if one.seed == 1]
    assert sentence(one_seed, plan.systems, reference="debate") == (
        "debate: 100.0 % of its verdicts are right; the strongest other system, “one agent”, has −50.0 points; "
        "critics improve 25.0 % of the questions and damage 0.0 %."
    )
    votes = [one for one in scores if one.system == "vote"]
    assert sentence(votes, [vote], reference="vote") == "vote | of 4: 50.00 ± 0.00 % of its verdicts are right."
    debates = [one for one in scores if one.system == "debate"]
    assert sentence(debates, [debate], reference="debate") == (
        "debate: 75.0 ± 25.0 % of its verdicts are right; critics improve 25.0 % of the questions and damage 12.5 %."
    )
    worse = [replace(one, system="single", verdict_correct=False) for one in votes]
    assert sentence([*votes, *worse], [single, vote], reference="single") == (
        "one agent: 0.00 ± 0.00 % of its verdicts are right; "
        "the strongest other system, “vote | of 4”, has +50.0 points (p < 0.001)."
    )


PUBLISHING = """
import sys
from pathlib import Path
from mada.report.publishing import publish_run
from mada.runs import StoredRun
import mada.report.figures.writing as writing
writing.write_figures = lambda figures, folder: ([], {})
ready, go = Path(sys.argv[2]), Path(sys.argv[3])
ready.touch()
while not go.exists(): pass
for _ in range(2): publish_run(StoredRun.read(sys.argv[1]))
"""


def test_two_reports_of_one_run_at_a_time_both_succeed(make, plan, scores, transcripts, tmp_path):
    run = make(plan, scores, transcripts)
    marks, go = [tmp_path / "one", tmp_path / "two"], tmp_path / "go"
    command = [sys.executable, "-c", PUBLISHING, str(run.folder)]
    processes = [subprocess.Popen([*command, str(mark), str(go)], stderr=subprocess.PIPE) for mark in marks]
    deadline = time.monotonic() + 60
    while not all(mark.exists() for mark in marks) and time.monotonic() < deadline:
        time.sleep(0.05)
    go.touch()
    errors = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    written = made_of(run.folder)
    assert set(written) == {name for name in FILES if "figures" not in name}
    assert not list(run.folder.rglob("*.partial"))


@pytest.mark.usefixtures("undrawn")
def test_what_a_killed_report_left_is_removed(make, plan, scores, transcripts):
    run = make(plan, scores, transcripts)
    leftover = run.folder / "report" / "tables" / ".0123456789abcdef.partial"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("half a table")
    publish_run(run)
    assert not leftover.exists()


@pytest.mark.usefixtures("undrawn")
def test_no_room_for_what_waits_while_the_page_is_packed(make, plan, scores, transcripts, monkeypatch):
    run = make(plan, scores, transcripts)
    monkeypatch.setattr("mada.report.page.debates._put", full)
    with pytest.raises(RunError, match=r"report\.html could not be written: No space"):
        publish_run(run)
    assert not (run.folder / "report.html").exists()


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("undrawn")
def test_a_page_needs_no_folder_for_temporary_files(make, plan, scores, transcripts, monkeypatch):
    run = make(plan, scores, transcripts)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    publish_run(run)
    assert (run.folder / "report.html").is_file()
