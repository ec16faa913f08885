"""A tiny evaluation whose numbers are known: two seeds, two benchmarks of two problems, three systems."""

from dataclasses import replace

import pytest
from pydantic import BaseModel

from mada.debate.transcript import Debate, Response, Turn
from mada.evaluation.costs import Usage
from mada.evaluation.grid import Grid, Omitted
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Transcript
from mada.report.document import Cell, Code, Column, Figure, Heading, Listing, Section, Shade, Strong, Table, row
from mada.report.document import paragraph as prose
from mada.report.forms.markdown import table_markdown
from mada.report.reading import Source
from mada.runs import Run
from scores import score_of

HOSTILE = "```\n</details><script>alert(1)</script>\n# Results\n| a | b |\x1b[2J"
PLACES = [(benchmark, seed, problem) for seed in (0, 1) for benchmark in ("arithmetic", "algebra") for problem in "pq"]


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
    for number, answers in enumerate(one.answers, start=1):
        turns = [
            Turn(f"agent-{seat}", "prompt", 5, Response(f"{HOSTILE} \\boxed{{{answer}}}", answer, 300))
            for seat, answer in enumerate(answers, start=1)
        ]
        debate = debate.with_round("generator" if number == 1 else "critic", turns)
    return Transcript(one.system, one.benchmark, one.seed, one.problem, "4", debate)


class Priced(BaseModel):
    """A recipe of which a report reads the price alone."""

    seed: int = 0
    price_per_hour: float | None = None


@pytest.fixture
def source_of(tmp_path):
    """Make the source of a report of a grid, in a run that has nothing else."""

    def make(grid, efforts=(), price_per_hour=None):
        with Run.open(tmp_path / "bare", Priced(price_per_hour=price_per_hour)) as run:
            return Source("bare", run, grid, Omitted(), None, tuple(efforts))

    return make


@pytest.fixture
def tables_of():
    """Return the tables of a section by name, each as Markdown without its title and notes."""

    def tables(section):
        found = [block for block in section.blocks if isinstance(block, Table)]
        return {table.name: table_markdown(table).split("\n\n")[1] for table in found}

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
