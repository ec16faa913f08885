"""The report of a run, from its records alone and with hostile text in all of them, and what it leaves on the disk."""

import errno
import html
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import pytest
from scipy.stats import ttest_ind

from mada.errors import EvaluationError, RunError
from mada.evaluation.grid import Grid, Omitted, score_key
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.summary import summarize
from mada.report.document import Code, Figure, Paragraph
from mada.report.forms.html import Drawing, html_section
from mada.report.publishing import Published, publish_run, report_markdown, sections_of
from mada.report.reading import ABLATIONS, Source, read_summary
from mada.report.sections.debates import LONGEST_TEXT, examples_section, pick_examples, shortened
from mada.report.sections.results import headline_sentence
from mada.runs import Run

FIGURES = {"tokens", "flow", "critics", "pairs"}
TABLES = {
    *("headline", "benchmarks", "replies", "over-seeds", "over-problems", "by-benchmark", "samples", "costs"),
    *("votes", "by-right", "by-seat", "sources", "critics", "pairwise-differences", "pairwise-p"),
    *("main-results", "significance", "costs-performance", "single-agent"),
}
FILES = {
    *("report.html", "report.md", "report/tables.tex"),
    *(f"report/tables/{name}.{ending}" for name in TABLES for ending in ("tex", "md", "html", "txt")),
    *(f"report/figures/{name}.{ending}" for name in FIGURES for ending in ("pdf", "png", "svg")),
}


@dataclass(frozen=True)
class Example:
    """A critic's example, of which the report knows a part only."""

    part: str
    generator_accuracy: float
    question: str = "?"


@pytest.fixture
def undrawn(monkeypatch):
    """Write a mark in place of every picture: they take most of the time, and have tests of their own."""

    def write(sources, folder):
        names = FIGURES if any(source.grid for source in sources) else ()
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.{ending}" for name in names for ending in ("pdf", "png", "svg")]
        for path in paths:
            path.write_text("drawn")
        return paths, {name: Drawing("<svg></svg>") for name in names}

    monkeypatch.setattr("mada.report.figures.writing.write_figures", write)


def made_of(folder):
    """The files of a report by their paths, with their bytes; what the run itself keeps is left out."""
    found = [*folder.glob("report.*"), *(folder / "report").rglob("*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found if path.is_file()}


def page_of(run):
    return (run.folder / "report.html").read_text(encoding="utf-8")


def section_titles(page):
    shown = page[page.index("<body>") : page.index('<script type="application/json" id="debate-index">')]
    return re.findall("<h2[^>]*>(.*?)</h2>", re.sub("<aside.*</aside>", "", shown, flags=re.DOTALL))


def outside_of_fences(text):
    """What Markdown would read as Markdown: everything but fenced blocks."""
    kept, fence = [], None
    for line in text.split("\n"):
        if fence is None and (opening := re.match("(`{3,})text$", line)):
            fence = opening[1]
        elif fence is not None and re.fullmatch(f"`{{{len(fence)},}}", line):
            fence = None
        elif fence is None:
            kept.append(line)
    assert fence is None
    return "\n".join(kept)


def headings(text):
    return [line for line in text.splitlines() if line.startswith("## ")]


# --- The text ---


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_has_just_begun(make_run):
    run = make_run()
    text = report_markdown(run)
    assert text.startswith("# tiny\n\nRun `first`, seed 17, recipe `")
    assert headings(text) == ["## Results", "## How it was run"]
    assert read_summary(run) is None
    assert Source.of(run).cost is None
    assert str(publish_run(run)) == "0 tables, 0 figures, 0 debates"
    assert set(made_of(run.folder)) == {"report.html", "report.md", "report/tables.tex"}
    page = page_of(run)
    assert section_titles(page) == ["Results", "How it was run", "Recipe and manifest"]
    assert "<p>This run has not been evaluated yet.</p>" in page
    assert "<figure" not in page


def test_a_whole_report(make_run, plan, scores, transcripts, write_training):
    def train(run):
        for role in ("generators", "critics"):
            steps = [(f"{role}|1", 0, 0.25, True), (f"{role}|1", 10, 0.5, True), (f"{role}|1", 20, 0.375, False)]
            write_training(run, role, steps)
        examples = [("subset-1", 1 / 3), ("subset-1", 1 / 3), ("subset-1", 1.0), ("validation", 0.0)]
        run.records("critic-examples", Example).extend(Example(*one) for one in examples)
        with run.stage("split") as stage:
            stage.summarize({"problems": 40_309, "skipped without an answer": 6, "unused": 0})

    run = make_run(plan, scores, transcripts, during=train, name="tiny <b>recipe</b>")
    text = report_markdown(run)
    visible = outside_of_fences(text)
    assert [line for line in visible.splitlines() if re.match("#+ ", line)] == [
        "# tiny \\<b\\>recipe\\</b\\>",
        "## Results",
        "## Comparisons",
        "## What debating changed",
        "## More samples",
        "## Costs",
        "## Training",
        "## Critic examples",
        "## Debates to read",
        "### Corrected: the first vote is wrong, the last right",
        *("#### Round 1", "#### Round 2"),
        "### Damaged: the first vote is right, the last wrong",
        *("#### Round 1", "#### Round 2"),
        "### Failed: no vote is right",
        *("#### Round 1", "#### Round 2"),
        "## How it was run",
    ]
    for line in (
        "Training data: problems 40,309, skipped without an answer 6.",
        "| 3 debate | 75.0 ± 25.0 | +37.5 | 0.350 | 81.2 ± 18.8 | 4 |",
        "| generators\\|1 | 25.0 | 50.0 | +25.0 | 37.5 | 10 | 20 | 100 | 110 |",
        "| critics\\|1 | 25.0 | 50.0 | +25.0 |",
        "| part | 0 % right | 33 % right | 100 % right | all |",
        "| subset-1 | – | 2 | 1 | 3 |",
        "System `debate` on arithmetic, problem `q`, seed 0. The right answer is `4`.",
        "**g**: answer `5`, wrong; 300 tokens",
        "| split | 0.00 s |",
        "\nCommit: `abc123`, with changes.\n",
    ):
        assert line in visible
    assert re.search(r"\nVersions: .*mada.*numpy", visible)
    sections = sections_of(Source.of(run))
    assert [section.name for section in sections] == [
        *("results", "comparisons", "debating", "samples", "costs"),
        *("training", "critic-examples", "debates-to-read", "provenance"),
    ]
    names = [table.name for section in sections for table in section.tables]
    names += [f"figure-{one.name}" for part in sections for one in part.blocks if isinstance(one, Figure)]
    assert len(set(names)) == len(names) == 16 + 7
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)
    # Everything the models said is in the report, all of it behind fences.
    assert text.count("<script>") == 3 * 5
    assert "<script>" not in visible
    assert "\x1b" not in text
    page = "".join(map(html_section, sections))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3 * 5
    linked = report_markdown(run, figures=["flow", "training"])
    assert re.findall(r"^!\[.*\]\((.*)\)$", linked, re.MULTILINE) == [
        "report/figures/flow.png",
        "report/figures/training.png",
    ]


def test_one_seed_has_no_standard_error_anywhere(make_run, plan, scores):
    text = report_markdown(make_run(plan, [one for one in scores if one.seed == 0]))
    assert "brackets" not in text
    assert not re.search(r"\d\(\d", text)
    assert "One seed allows no test over seeds" in text


@pytest.mark.usefixtures("undrawn")
def test_of_an_evaluation_that_goes_on_whole_seeds_are_shown_and_the_others_named(make_run, plan, scores, transcripts):
    [missing] = [one for one in scores if (one.system, one.benchmark, one.seed) == ("vote", "algebra", 1)][:1]
    run = make_run(plan, [one for one in scores if one is not missing], transcripts)
    source = Source.of(run)
    assert source.left_out == Omitted((1,))
    assert source.grid is not None
    assert source.grid.scores == {score_key(one): one for one in scores if one.seed == 0}
    text = report_markdown(run)
    assert headings(text)[:2] == ["## Not finished", "## Results"]
    assert "seed 1 is left out, because not every system has answered every question with it yet." in text
    with pytest.raises(EvaluationError, match="1 of the 8 scores of 'vote' are missing"):
        read_summary(run)
    # Debates of the second seed have scores, and are left out with it.
    assert publish_run(run).debates == 12


def test_systems_that_have_finished_no_seed_are_left_out_and_named(make_run, plan, scores):
    run = make_run(plan, [one for one in scores if one.problem == "p" or one.system != "vote"])
    assert Source.of(run).left_out == Omitted((), ("vote",))
    text = report_markdown(run)
    assert "system vote is left out, because not every question has been answered there yet." in text


@pytest.mark.parametrize("unfinished", [None, "single", "vote"])
def test_ablations_count_once_every_system_of_theirs_has_finished_a_seed(make_run, plan, scores, unfinished):
    run = make_run()
    make_run(plan, [one for one in scores if one.problem == "p" or one.system != unfinished], folder="first/ablations")
    assert ABLATIONS == "ablations"
    assert (Source.of(run).ablations is None) == (unfinished is not None)


def test_before_a_seed_is_finished_there_are_no_results(make_run, plan, scores):
    run = make_run(plan, [one for one in scores if one.problem == "p" or one.system != "single"])
    source = Source.of(run)
    assert (source.grid, source.left_out) == (None, Omitted((0, 1)))
    text = report_markdown(run)
    assert "seeds 0, 1 are left out" in text
    assert "This run has not been evaluated yet." not in text


def test_the_choice_of_debates_does_not_depend_on_their_order_and_prefers_whole_ones(scores, transcripts):
    by_place = {score_key(one): one for one in scores}
    picked = pick_examples(transcripts, by_place, systems=["single", "debate"])
    assert list(picked) == ["corrected", "damaged", "wrong throughout"]
    assert picked == pick_examples(reversed(transcripts), by_place, systems=["single", "debate"])
    _, first = picked["corrected"]
    assert (first.seed, first.problem) == (0, "q")
    by_place[score_key(first)] = replace(first, truncated=1)
    assert pick_examples(transcripts, by_place, systems=["debate"])["corrected"][1].seed == 1
    assert pick_examples(transcripts, by_place, systems=["single"]) == {}


def test_long_texts_lose_their_middle():
    assert shortened("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT
    text = shortened("a" * 2_000 + "b" * 2_000)
    assert text == "a" * 1_500 + "\n[… 1,000 characters left out …]\n" + "b" * 1_500


def test_the_reference_debates_are_read_first_and_then_the_best(make_run, plan, scores, transcripts):
    """A debate that is always right is better than the other, and has nothing to show but what it corrected."""
    single, vote, debate = plan.systems
    better = debate.model_copy(update={"name": "better", "title": "better"})
    own = [(one, said) for one, said in zip(scores, transcripts, strict=True) if one.system == "debate"]
    right = ((True, True), (True, True))
    scores = [*scores, *(replace(one, system="better", correct=right, verdict_correct=True) for one, _ in own)]
    run = make_run(plan, scores[:1], [*transcripts, *(replace(said, system="better") for _, said in own)])

    def systems(reference):
        plan = EvaluationPlan(systems=(single, vote, debate, better), reference=reference)
        section = examples_section(replace(Source.of(run), grid=Grid.of(scores, plan)))
        assert section is not None
        blocks = [block for block in section.blocks if isinstance(block, Paragraph)]
        return [block.spans[1] for block in blocks if block.spans[0] == "System "]

    assert systems("debate") == [Code("debate")] * 3
    assert systems("better") == systems("single") == [Code("better"), Code("debate"), Code("debate")]


def test_a_run_of_several_sessions_says_so(make_run):
    texts = [report_markdown(make_run()) for _ in range(2)]
    assert "sessions" not in texts[0]
    assert "The run took 2 sessions; a stage's time is that of the session that ended it" in texts[1]


# --- The files ---


def test_a_whole_report_is_a_page_a_text_tables_and_figures(make_run, plan, scores, transcripts):
    run = make_run(plan, scores, transcripts)
    published = publish_run(run)
    assert published == Published(run.folder / "report.html", run.folder / "report.md", 19, 4, 24)
    assert str(published) == "19 tables, 4 figures, 24 debates"
    written = made_of(run.folder)
    assert set(written) == FILES
    for name, start in (("flow.pdf", b"%PDF-"), ("flow.png", b"\x89PNG")):
        assert written[f"report/figures/{name}"].startswith(start)
    linked = re.findall(r"^!\[.*\]\((.*)\)$", written["report.md"].decode(), re.MULTILINE)
    assert set(linked) == {f"report/figures/{name}.png" for name in FIGURES}


@pytest.mark.usefixtures("undrawn")
def test_every_form_has_the_same_tables_with_the_same_numbers(make_run, plan, scores, transcripts):
    run = make_run(plan, scores, transcripts)
    published = publish_run(run)
    page, folder = page_of(run), run.folder / "report" / "tables"
    # Those of the paper that the report has already are not shown again.
    assert sorted(re.findall('id="table-([^"]*)"', page)) == sorted(TABLES)
    for name in TABLES:
        assert (folder / f"{name}.html").read_text(encoding="utf-8").rstrip("\n") in page
        assert (folder / f"{name}.tex").read_text(encoding="utf-8") in (folder.parent / "tables.tex").read_text()
    numbers = ["3", "debate", "75.0", "±", "25.0", "+37.5", "0.350", "81.2", "±", "18.8", "4", "1,200", "200"]
    for ending, parting in (("md", "|"), ("txt", " "), ("tex", "&")):
        text = (folder / f"headline.{ending}").read_text(encoding="utf-8").replace(r"\ensuremath{\pm}", "±")
        [line] = [one for one in text.splitlines() if "3 debate" in one]
        shown = line.replace(parting, " ").split()[: len(numbers)]
        assert [one.replace(",", "") for one in shown] == [one.replace(",", "") for one in numbers]
    assert '<td class="number">81.2 ± 18.8</td>' in page
    assert section_titles(page) == [
        *("Results", "Comparisons", "What debating changed", "More samples", "Costs"),
        *("How it was run", "The paper&#x27;s tables", "Recipe and manifest", "Debates"),
    ]
    text = (run.folder / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# tiny\n\none agent: 37.5 ± 12.5 % of its verdicts are right; ")
    # Examples are for those who have no browser of all debates.
    assert "## Debates to read" in text
    assert not {"The paper", "manifest"} & set(text.splitlines())
    assert '<div class="lead" dir="auto"><p>one agent: 37.5 ± 12.5 % of its verdicts are right; ' in page
    assert re.search("<p>Run <code>first</code>, seed 17, recipe <code>[0-9a-f]{12}</code>, begun ", page)
    assert set(re.findall('<figure class="chart" id="figure-([a-z]+)">', page)) == FIGURES
    # The same records give the same bytes.
    written = made_of(run.folder)
    assert publish_run(Run.read(run.folder)) == published
    assert made_of(run.folder) == written


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("is_evaluated", [True, False])
def test_the_document_of_all_tables_compiles(make_run, plan, scores, tmp_path, is_evaluated):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    run = make_run(plan, scores) if is_evaluated else make_run()
    publish_run(run)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    document = run.folder / "report" / "tables.tex"
    done = subprocess.run([*command, str(document)], cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]
    log = (tmp_path / "tables.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert ("Output written on tables.pdf (19 pages" in log) == is_evaluated


@pytest.mark.usefixtures("undrawn")
def test_what_an_earlier_report_left_is_removed_and_nothing_else(make_run, plan, scores):
    run = make_run(plan, scores)
    foreign = ["report/notes.txt", "report/own/headline.tex", "report/tables/.keep/kept.tex", "report/tables/Makefile"]
    for path in [*foreign, "report/tables/gone.tex", "report/figures/gone.png"]:
        (run.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (run.folder / path).write_text("mine")
    # In a folder without an earlier report, nothing is removed.
    publish_run(run)
    assert (run.folder / "report/figures/gone.png").is_file()
    (run.folder / PLAN_FILE).unlink()
    publish_run(run)
    assert set(made_of(run.folder)) == {"report.html", "report.md", "report/tables.tex", *foreign}
    assert all((run.folder / path).read_text() == "mine" for path in foreign)


BAD = "</script><script>alert(1)</script><img src=x> & \\input{x} \x1b[2J\x07\u202e\r# h"


@pytest.mark.usefixtures("undrawn")
def test_no_title_and_no_name_is_obeyed(make_run, plan, scores, transcripts):
    benign = make_run(plan, scores, transcripts)
    publish_run(benign)
    systems = tuple(one.model_copy(update={"title": f"{BAD}{one.name}"}) for one in plan.systems)
    hostile = plan.model_copy(update={"systems": systems, "benchmarks": (BAD, "algebra")})

    def renamed(one):
        return replace(one, benchmark=BAD if one.benchmark == "arithmetic" else one.benchmark)

    agents = [replace(one, agents=tuple(tuple(BAD + name for name in row) for row in one.agents)) for one in scores]
    run = make_run(hostile, map(renamed, agents), map(renamed, transcripts), name=BAD, folder="hostile")
    assert str(publish_run(run)) == "19 tables, 4 figures, 24 debates"
    page = page_of(run)
    assert f"<title>{html.escape(BAD)[:60]}" in page
    for tag in ("<script", "<img", "</script"):
        assert page.lower().count(tag) == page_of(benign).lower().count(tag)
    for path, content in made_of(run.folder).items():
        steering = re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", content.decode())
        assert steering == [], path
    assert "\n# h" not in (run.folder / "report.md").read_text(encoding="utf-8")
    assert "\\input{x}" not in (run.folder / "report" / "tables.tex").read_text(encoding="utf-8")


PUBLISHING = """
import sys
from pathlib import Path
from mada.report.publishing import publish_run
from mada.runs import StoredRun
import mada.report.figures.writing as writing
writing.write_figures = lambda sources, folder: ([], {})
ready, go = Path(sys.argv[2]), Path(sys.argv[3])
ready.touch()
while not go.exists(): pass
for _ in range(2): publish_run(StoredRun.read(sys.argv[1]))
"""


def test_two_reports_of_one_run_at_a_time_both_succeed(make_run, plan, scores, transcripts, tmp_path):
    run = make_run(plan, scores, transcripts)
    marks, go = [tmp_path / "one", tmp_path / "two"], tmp_path / "go"
    command = [sys.executable, "-c", PUBLISHING, str(run.folder)]
    processes = [subprocess.Popen([*command, str(mark), str(go)], stderr=subprocess.PIPE) for mark in marks]
    deadline = time.monotonic() + 60
    while not all(mark.exists() for mark in marks) and time.monotonic() < deadline:
        time.sleep(0.05)
    go.touch()
    errors = [process.communicate(timeout=60)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert set(made_of(run.folder)) == {name for name in FILES if "figures" not in name}
    assert not list(run.folder.rglob("*.partial"))


@pytest.mark.usefixtures("undrawn")
def test_what_a_killed_report_left_is_removed_and_no_other_folder_is_needed(
    make_run, plan, scores, transcripts, monkeypatch
):
    run = make_run(plan, scores, transcripts)
    leftover = run.folder / "report" / "tables" / ".0123456789abcdef.partial"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("half a table")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    publish_run(run)
    assert not leftover.exists()


@pytest.mark.usefixtures("undrawn")
def test_no_room_for_what_waits_while_the_page_is_packed(make_run, plan, scores, transcripts, monkeypatch):
    run = make_run(plan, scores, transcripts)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mada.report.publishing.pack_debates", full)
    with pytest.raises(RunError, match=r"report\.html could not be written: No space"):
        publish_run(run)
    assert not (run.folder / "report.html").exists()


# --- The sentence that it begins with ---


def sentence(scores, systems, *, reference):
    return headline_sentence(summarize(Grid.of(scores, EvaluationPlan(systems=tuple(systems), reference=reference))))


def test_the_first_sentence_holds_verdict_against_verdict(plan, scores):
    """The debate's votes are right in 0.5 and 1 of the questions, those of one agent in 0.25 and 0.5, of four in 0.5.

    So the debate has 75 % with a standard error of 25, and its rival is the vote, 25 points below without any error:
    t = 1 with one degree of freedom, p = 1 − 2 atan(1)/π.
    """
    assert sentence(scores, plan.systems, reference="debate") == (
        "debate: 75.0 ± 25.0 % of its verdicts are right; the strongest other system, “vote | of 4”, has −25.0 points "
        "(p = 0.500); critics improve 25.0 % of the questions and damage 12.5 %."
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
    single, vote, _ = plan.systems
    one_seed = [one for one in scores if one.seed == 1]
    text = sentence(one_seed, plan.systems, reference="debate")
    assert "the strongest other system, “one agent”, has −50.0 points; critics improve" in text
    votes = [one for one in scores if one.system == "vote"]
    assert sentence(votes, [vote], reference="vote") == "vote | of 4: 50.00 ± 0.00 % of its verdicts are right."
    worse = [replace(one, system="single", verdict_correct=False) for one in votes]
    assert sentence([*votes, *worse], [single, vote], reference="single").endswith("has +50.0 points (p < 0.001).")
