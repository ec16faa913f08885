"""The report of a run, from its records alone, with hostile text in all of them."""

import json
import re
from dataclasses import dataclass, replace

import pytest
from pydantic import BaseModel

import mada.runs.manifest
from mada.errors import EvaluationError
from mada.evaluation.costs import Usage
from mada.evaluation.grid import Grid, Omitted, score_key
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.scores import Score, Transcript
from mada.report.document import Code, Figure, Paragraph, Table
from mada.report.forms.html import html_section
from mada.report.publishing import opening_of, report_markdown, sections_of, title_of
from mada.report.reading import Source, read_summary
from mada.report.sections.debates import LONGEST_TEXT, examples_section, pick_examples, shortened
from mada.runs import Run
from mada.runs.manifest import Commit


class Recipe(BaseModel):
    seed: int = 17
    name: str = "tiny <b>recipe</b>"


@dataclass(frozen=True)
class Line:
    """A critic's example, or another record, of which the report knows a part only."""

    part: str
    generator_accuracy: float
    question: str = "?"


@pytest.fixture(autouse=True)
def known_commit(monkeypatch):
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: Commit(id="abc123", dirty=True))


@pytest.fixture
def run(tmp_path):
    with Run.open(tmp_path / "first", Recipe()) as run:
        yield run


def evaluated(run, *, plan, scores, transcripts):
    run.write_text(PLAN_FILE, plan.to_json())
    run.records("scores", Score).extend(scores)
    run.records("transcripts", Transcript).extend(transcripts)


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


def test_a_run_that_has_just_begun(run):
    text = report_markdown(run)
    assert text.startswith("# tiny \\<b\\>recipe\\</b\\>\n\nRun `first`, seed 17, recipe `")
    assert "This run has not been evaluated yet." in text
    assert title_of(run) == "tiny <b>recipe</b>"
    assert opening_of(Source.of(run))[-1].spans[:2] == ("Run ", Code("first"))
    assert headings(text) == ["## Results", "## How it was run"]
    assert read_summary(run) is None
    assert Source.of(run).cost is None


def test_a_whole_report(run, plan, scores, transcripts):
    evaluated(run, plan=plan, scores=scores, transcripts=transcripts)
    for role in ("generators", "critics"):
        steps = [(0, 0.25, True), (10, 0.5, True), (20, 0.375, False)]
        run.write_text(
            f"{role}/validation.jsonl",
            "".join(
                json.dumps(
                    {"step": step, "agent": f"{role}|1", "accuracy": accuracy, "length": 100.0 + step}
                    | {"truncated_share": 0.0, "is_best": best}
                )
                + "\n"
                for step, accuracy, best in steps
            ),
        )
    run.records("critic-examples", Line).extend(
        [Line("subset-1", 1 / 3), Line("subset-1", 1 / 3), Line("subset-1", 1.0), Line("validation", 0.0)]
    )
    with run.stage("split") as stage:
        stage.summarize({"problems": 40_309, "skipped without an answer": 6, "unused": 0})
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
    assert "Training data: problems 40,309, skipped without an answer 6." in visible
    assert "| 3 debate | 75.0 ± 25.0 | +37.5 | 0.350 | 81.2 ± 18.8 | 4 |" in visible
    assert "| 3 debate | +37.5 ± 28.0 |" in visible
    assert "| system | replies cut off | replies without an answer | tied votes |" in visible
    assert "| generators\\|1 | 25.0 | 50.0 | +25.0 | 37.5 | 10 | 20 | 100 | 110 |" in visible
    assert "| critics\\|1 | 25.0 | 50.0 | +25.0 |" in visible
    assert "| part | 0 % right | 33 % right | 100 % right | all |" in visible
    assert "| subset-1 | – | 2 | 1 | 3 |" in visible
    assert "System `debate` on arithmetic, problem `q`, seed 0. The right answer is `4`." in visible
    assert "**agent-1**: answer `5`, wrong; 300 tokens" in visible
    assert "| split | 0.00 s |" in visible
    assert "\nCommit: `abc123`, with changes.\n" in visible
    assert re.search(r"\nVersions: .*mada.*numpy", visible)
    sections = sections_of(Source.of(run))
    assert [section.name for section in sections] == [
        *("results", "comparisons", "debating", "samples", "costs"),
        *("training", "critic-examples", "debates-to-read", "provenance"),
    ]
    blocks = [block for section in sections for block in section.blocks]
    for kind, count in ((Table, 16), (Figure, 7)):
        names = [block.name for block in blocks if isinstance(block, kind)]
        assert len(set(names)) == len(names) == count
        assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)
    # Everything the models said is in the report, all of it behind fences.
    assert text.count("<script>") == 3 * 5
    assert "<script>" not in visible
    assert "\x1b" not in text
    # The same folder gives the same report, opened for reading only.
    assert report_markdown(Run.read(run.folder)) == text
    assert "](report/figures/" not in text
    linked = report_markdown(run, figures=["flow", "training"])
    assert re.findall(r"^!\[.*\]\((.*)\)$", linked, re.MULTILINE) == [
        "report/figures/flow.png",
        "report/figures/training.png",
    ]
    # Whatever was said stays text on a page, too.
    page = "".join(map(html_section, sections))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3 * 5


class Contest(BaseModel):
    """The recipe of an evaluation without a training."""

    seed: int = 3
    name: str = "rivals"
    price_per_hour: float | None = 36.0


def test_an_evaluation_alone(tmp_path, plan, scores, efforts):
    with Run.open(tmp_path / "rivals", Contest()) as run:
        run.write_text(PLAN_FILE, plan.to_json())
        run.records("scores", Score).extend(scores)
        run.records("effort", Usage).extend(efforts)
        text = report_markdown(run)
        cost = Source.of(run).cost
    assert text.startswith("# rivals\n")
    assert headings(text) == [
        *("## Results", "## Comparisons", "## What debating changed", "## More samples", "## Costs"),
        "## How it was run",
    ]
    # Two minutes of two accelerators at 36 an hour.
    assert "4 min 0 s of accelerators, 90 tokens per second, 2.40 in money." in text
    assert cost is not None
    assert cost.money == pytest.approx(2.4)


def test_one_seed_has_no_standard_error_anywhere(run, plan, scores):
    evaluated(run, plan=plan, scores=[one for one in scores if one.seed == 0], transcripts=[])
    text = report_markdown(run)
    assert "brackets" not in text
    assert not re.search(r"\d\(\d", text)
    assert "One seed allows no test over seeds" in text


def test_seeds_that_are_not_finished_are_left_out_and_named(run, plan, scores):
    [missing] = [one for one in scores if (one.system, one.benchmark, one.seed) == ("vote", "algebra", 1)][:1]
    evaluated(run, plan=plan, scores=[one for one in scores if one is not missing], transcripts=[])
    source = Source.of(run)
    assert source.left_out == Omitted((1,))
    assert source.grid is not None
    assert source.grid.scores == {score_key(one): one for one in scores if one.seed == 0}
    text = report_markdown(run)
    assert headings(text)[:2] == ["## Not finished", "## Results"]
    assert "seed 1 is left out, because not every system has answered every question with it yet." in text
    with pytest.raises(EvaluationError, match="1 of the 8 scores of 'vote' are missing"):
        read_summary(run)


def test_systems_that_have_finished_no_seed_are_left_out_and_named(run, plan, scores):
    begun = [one for one in scores if one.problem == "p" or one.system != "vote"]
    evaluated(run, plan=plan, scores=begun, transcripts=[])
    source = Source.of(run)
    assert source.left_out == Omitted((), ("vote",))
    text = report_markdown(run)
    assert headings(text)[:2] == ["## Not finished", "## Results"]
    assert "system vote is left out, because not every question has been answered there yet." in text


@pytest.mark.parametrize("unfinished", [None, "single", "vote"])
def test_ablations_count_once_every_system_of_theirs_has_finished_a_seed(run, plan, scores, unfinished):
    begun = [one for one in scores if one.problem == "p" or one.system != unfinished]
    with Run.open(run.path("ablations"), Recipe()) as ablations:
        evaluated(ablations, plan=plan, scores=begun, transcripts=[])
    assert (Source.of(run).ablations is None) == (unfinished is not None)


def test_before_a_seed_is_finished_there_are_no_results(run, plan, scores):
    evaluated(
        run, plan=plan, scores=[one for one in scores if one.problem == "p" or one.system != "single"], transcripts=[]
    )
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
    first = picked["corrected"].score
    assert (first.seed, first.problem) == (0, "q")
    by_place[score_key(first)] = replace(first, truncated=1)
    assert pick_examples(transcripts, by_place, systems=["debate"])["corrected"].score.seed == 1
    assert pick_examples(transcripts, by_place, systems=["single"]) == {}


def test_long_texts_lose_their_middle():
    assert shortened("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT
    text = shortened("a" * 2_000 + "b" * 2_000)
    assert text == "a" * 1_500 + "\n[… 1,000 characters left out …]\n" + "b" * 1_500


def test_the_reference_debates_are_read_first_and_then_the_best(run, plan, scores, transcripts):
    """A debate that is always right is better than the other, and has nothing to show but what it corrected."""
    single, vote, debate = plan.systems
    better = debate.model_copy(update={"name": "better", "title": "better"})
    own = [(one, said) for one, said in zip(scores, transcripts, strict=True) if one.system == "debate"]
    right = ((True, True), (True, True))
    scores = [*scores, *(replace(one, system="better", correct=right, verdict_correct=True) for one, _ in own)]
    transcripts = [*transcripts, *(replace(said, system="better") for _, said in own)]

    def systems(reference):
        plan = EvaluationPlan(systems=(single, vote, debate, better), reference=reference)
        section = examples_section(replace(Source.of(run), grid=Grid.of(scores, plan)))
        assert section is not None
        blocks = [block for block in section.blocks if isinstance(block, Paragraph)]
        return [block.spans[1] for block in blocks if block.spans[0] == "System "]

    run.records("transcripts", Transcript).extend(transcripts)
    assert systems("debate") == [Code("debate")] * 3
    assert systems("better") == systems("single") == [Code("better"), Code("debate"), Code("debate")]


def test_a_run_of_several_sessions_says_so(tmp_path):
    texts = []
    for _ in range(2):
        with Run.open(tmp_path / "often", Recipe()) as run:
            texts.append(report_markdown(run))
    assert "sessions" not in texts[0]
    assert texts[1].endswith(
        "The run took 2 sessions; a stage's time is that of the session that ended it, and commit, versions and "
        "machine are those of the latest.\n"
    )
