"""A tiny evaluation whose numbers are known: two seeds, two benchmarks of two problems, three systems."""

import json
from dataclasses import replace

import pytest
from pydantic import BaseModel, ConfigDict

import mada.runs.manifest
from mada.debate.transcript import Debate, Response, Turn
from mada.evaluation.costs import Usage
from mada.evaluation.grid import Grid, Omitted
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score, Transcript
from mada.report.document import Cell, Code, Column, Figure, Heading, Listing, Section, Shade, Strong, Table, row
from mada.report.document import paragraph as prose
from mada.report.forms.markdown import table_markdown
from mada.report.reading import Source
from mada.runs import Run
from mada.runs.manifest import Commit
from scores import score_of

HOSTILE = "```\n</details><script>alert(1)</script>\n# Results\n| a | b |\x1b[2J"
PLACES = [(benchmark, seed, problem) for seed in (0, 1) for benchmark in ("arithmetic", "algebra") for problem in "pq"]


@pytest.fixture(autouse=True)
def known_commit(monkeypatch):
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: Commit(id="abc123", dirty=True))


@pytest.fixture
def plan():
    return EvaluationPlan(
        systems=(
            PlannedSystem(name="single", title="one agent", generators=("g",)),
            PlannedSystem(name="vote", title="vote | of 4", generators=("g",) * 4),
            PlannedSystem(name="debate", title="debate", generators=("g",) * 2, critics=("c-1", "c|2"), rounds=2),
        ),
        reference="single",
        benchmarks=("arithmetic", "algebra"),
    )


def score(system, place, *rounds):
    benchmark, seed, problem = place
    given = score_of(system, rounds, benchmark=benchmark, seed=seed, problem=problem, tokens=300, prompts=50)
    return replace(given, agents=(given.agents[0], *[("c-1", "c|2")] * (len(rounds) - 1)))


@pytest.fixture
def scores():
    single = [[1], [0], [0], [0], [1], [1], [0], [0]]
    vote = [[1, 1, 1, 0], [1, 1, 0, 0]] * 4
    debate = [
        ([1, 1], [1, 1]),  # right throughout
        ([0, 1], [1, 1]),  # corrected
        ([1, 1], [0, 1]),  # damaged
        ([0, 0], [0, 0]),  # failed
        *[([1, 1], [1, 1])] * 3,
        ([0, 0], [1, 1]),  # corrected, with another seed
    ]
    return [
        *(score("single", place, verdicts) for place, verdicts in zip(PLACES, single, strict=True)),
        *(score("vote", place, verdicts) for place, verdicts in zip(PLACES, vote, strict=True)),
        *(score("debate", place, *rounds) for place, rounds in zip(PLACES, debate, strict=True)),
    ]


@pytest.fixture
def grid(scores, plan):
    return Grid.of(scores, plan)


@pytest.fixture
def one_seed(scores, plan):
    return Grid.of([one for one in scores if one.seed == 0], plan)


@pytest.fixture
def efforts():
    """Two minutes of two accelerators, in which half of the 72 completions with 300 tokens each were sampled."""
    return [Usage(90, 80, "cuda", 2, 30, 9_000, 1_500), Usage(30, 28, "cuda", 2, 6, 1_800, 300)]


@pytest.fixture
def transcripts(scores):
    """The debates behind the scores, in which everybody says something hostile."""
    return [transcript(one) for one in scores]


def transcript(one):
    debate = Debate(f"What is 2 + 2? {HOSTILE}")
    for number, seats in enumerate(zip(one.agents, one.answers, strict=True)):
        turns = [
            Turn(agent, "prompt", 5, Response(f"{HOSTILE} \\boxed{{{answer}}}", answer, 300))
            for agent, answer in zip(*seats, strict=True)
        ]
        debate = debate.with_round("critic" if number else "generator", turns)
    return Transcript(one.system, one.benchmark, one.seed, one.problem, "4", debate)


class Recipe(BaseModel):
    """A recipe of which a report reads a name and a price."""

    model_config = ConfigDict(extra="allow")

    seed: int = 17
    name: str = "tiny"
    price_per_hour: float | None = None


@pytest.fixture
def source_of(tmp_path):
    """Make the source of a report of a grid, in a run that has nothing else."""

    def make(grid=None, efforts=(), *, title="first", **recipe):
        with Run.open(tmp_path / title, Recipe(**recipe)) as run:
            return Source(title, run, grid, Omitted(), None, tuple(efforts))

    return make


@pytest.fixture
def make_run(tmp_path):
    """Make a run, evaluated where there are scores, and return it for reading."""

    def make(plan=None, scores=(), transcripts=(), *, folder="first", during=lambda run: None, **recipe):
        with Run.open(tmp_path / folder, Recipe(**recipe)) as run:
            during(run)
            if plan:
                run.write_text(PLAN_FILE, plan.to_json())
                run.records("scores", Score).extend(scores)
                run.records("transcripts", Transcript).extend(transcripts)
        return Run.read(tmp_path / folder)

    return make


@pytest.fixture
def write_training():
    """Write the files of a training: validations as (agent, step, accuracy, is best), other records as they are."""

    def write(run, role, validations=(), **files):
        records = [
            {"step": step, "agent": agent, "accuracy": accuracy, "length": 100.0 + step, "truncated_share": 0.0}
            | {"is_best": best}
            for agent, step, accuracy, best in validations
        ]
        (run.folder / role).mkdir(exist_ok=True)
        for name, lines in {"validation": records, **files}.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (run.folder / role / f"{name}.jsonl").write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def tables_of():
    """Return the tables of a section by name, each as Markdown without its title and notes."""

    def tables(section):
        return {table.name: table_markdown(table).split("\n\n")[1] for table in section.tables}

    return tables


@pytest.fixture
def hostile_table():
    """A table with everything that tables can have, and titles that want to be more than text."""
    bad = "</table><script>alert('x')</script> | **b** \u202e\x1b[2J"
    return Table(
        "hostile",
        f"Titles & {bad}",
        (Column("system", "text"), Column("calls"), *(Column(one, group="a|b <i>") for one in ("accuracy", "p"))),
        (
            (row(bad, ["1", Cell("41.9(3)"), "–"]),),
            (
                row("debate", ["6", Cell("−5.2(5)", "**", Shade("red", 63)), "<0.001"]),
                row("", ["1,200", Cell("72.81(19)", shade=Shade("gray", 5)), "1.10e8"]),
            ),
        ),
        ("- no list, and * is no star", "“debate” & <others>: 100 %"),
    )


@pytest.fixture
def hostile_section(hostile_table):
    """A section with every kind of block."""
    return Section(
        "hostile-section",
        "# Results <b>",
        (
            prose("1. no list: ", Code("a`<b>"), " and ", Strong("*c*"), ", ", Code(" "), "."),
            Heading("Round <1>"),
            Heading("Deeper", level=2),
            Listing("\n```\n</pre><script>\x00\n  kept & so\n"),
            hostile_table,
            Figure("tokens", "Accuracy [against] <tokens>"),
        ),
    )
