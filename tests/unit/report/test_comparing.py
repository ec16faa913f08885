"""Several runs side by side: differences by hand, and what is said where there can be none."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import mada.runs.manifest
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.report.comparing import comparison_sections
from mada.report.document import Figure, Paragraph
from mada.report.publishing import distinct_titles, publish_comparison
from mada.report.reading import Source
from mada.runs import StoredRun
from mada.runs.manifest import Gpu, Hardware
from scores import score_of

SYSTEMS = (
    PlannedSystem(name="single", title="one agent", generators=("g",)),
    PlannedSystem(name="vote", title="vote", generators=("g",)),
    PlannedSystem(name="debate", title="debate", generators=("g",), critics=("c",), rounds=2),
)
PROBLEMS = "pqrs"


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    machine = Hardware(cpu="EPYC", cores=2, memory_mib=1, gpus=(Gpu(name="H200", memory_mib=1, driver="1"),) * 2)
    monkeypatch.setattr(mada.runs.manifest, "current_hardware", lambda: machine)


def score(system, seed, problem, right, *, benchmark="easy"):
    """A score of one answer; the first vote of a debate is the opposite of its verdict."""
    rounds = [[not right], [right]] if system == "debate" else [[right]]
    return score_of(system, rounds, benchmark=benchmark, seed=seed, problem=problem, tokens=1_000 // len(rounds))


@pytest.fixture
def make(make_run):
    """Make a run in which each system is right in so many of four questions, seed by seed."""

    def run(folder, right=None, *, problems=PROBLEMS, titles=None, benchmarks=("easy",), **recipe):
        if not right:
            return make_run(folder=folder, **recipe)
        systems = [
            one.model_copy(update={"title": (titles or {}).get(one.name, one.title)})
            for one in SYSTEMS
            if one.name in right
        ]
        scores = [
            score(system, seed, problem, place < count, benchmark=benchmark)
            for system, counts in right.items()
            for seed, count in enumerate(counts)
            for benchmark in benchmarks
            for place, problem in enumerate(problems)
        ]
        return make_run(EvaluationPlan.of(systems, reference=systems[0].name), scores, folder=folder, **recipe)

    return run


@dataclass(frozen=True)
class Shown:
    """The sections of a comparison, to be asked for rows and notes."""

    sections: list

    @property
    def tables(self):
        return {table.name: table for section in self.sections for table in section.tables}

    def rows(self, name):
        """The cells of a table by the first in their row, with their stars."""
        return {first.text: [f"{cell.text}{cell.stars}" for cell in cells] for first, *cells in self.tables[name].rows}

    @property
    def paragraphs(self):
        blocks = [block for section in self.sections for block in section.blocks]
        return ["".join(map(str, block.spans)) for block in blocks if isinstance(block, Paragraph)]


def compared(*runs):
    titles = distinct_titles(runs)
    return Shown(comparison_sections([Source.of(run, title=title) for run, title in zip(runs, titles, strict=True)]))


def headings(table):
    return [(column.group, column.heading) for column in table.columns]


def test_differences_and_stars_are_welchs(make):
    """Averages 1/4, 1/2, 1/4, 1/2 against 3/4, 1, 3/4, 1: both have the variance 1/48, so SE² = 2/192, t = 2√6, df = 6.

    With θ = atan(t/√6): p = 1 − sin θ (1 + cos²θ/2 + 3 cos⁴θ/8) = 1 − 2/√5 · 1.115 = 0.0027, two stars. The vote
    falls by 3/16 with t = 1.96, which is no evidence.
    """
    shown = compared(
        make("a", {"single": (1, 2, 1, 2), "vote": (2, 2, 2, 3)}),
        make("b", {"single": (3, 4, 3, 4), "vote": (1, 2, 1, 2)}),
    )
    table = shown.tables["runs-accuracy"]
    assert headings(table) == [
        ("", "system"),
        *(("a", heading) for heading in ("verdict", "mean", "tokens")),
        *(("b", heading) for heading in ("verdict", "difference", "mean", "tokens")),
    ]
    assert shown.rows("runs-accuracy") == {
        "1 one agent": ["37.5 ± 7.2", "37.5 ± 7.2", "1,000", "87.5 ± 7.2", "+50.0**", "87.5 ± 7.2", "1,000"],
        "2 vote": ["56.2 ± 6.2", "56.2 ± 6.2", "1,000", "37.5 ± 7.2", "−18.8", "37.5 ± 7.2", "1,000"],
    }
    assert "verdict against verdict, in points above the same system of a, where both runs" in table.notes[1]
    assert table.notes[2:] == ("All runs: 4 seeds; easy (4).",)
    # A single benchmark is the average, and nobody debated or was trained.
    assert list(shown.tables) == ["runs-accuracy", "runs"]


def test_the_first_run_is_what_all_others_are_held_against(make):
    runs = [make(name, {"single": (count, count)}) for name, count in (("a", 2), ("b", 3), ("c", 1))]
    cells = compared(*runs).rows("runs-accuracy")["1 one agent"]
    # Without any spread, different averages differ for certain.
    assert [cells[0], *cells[3:5], *cells[7:9]] == [
        "50.00 ± 0.00",
        "75.00 ± 0.00",
        "+25.0***",
        "25.00 ± 0.00",
        "−25.0***",
    ]
    turned = compared(*reversed(runs)).rows("runs-accuracy")["1 one agent"]
    assert [turned[4], turned[8]] == ["+50.0***", "+25.0***"]
    assert compared(runs[0], make("d", {"single": (2, 2)})).rows("runs-accuracy")["1 one agent"][4] == "+0.0"


def test_one_seed_has_differences_without_errors_and_stars(make):
    shown = compared(make("a", {"single": (1,)}), make("b", {"single": (4,)}))
    assert shown.rows("runs-accuracy")["1 one agent"][3:5] == ["100.0", "+75.0"]
    assert "±" not in " ".join(shown.tables["runs-accuracy"].notes)
    assert shown.tables["runs-accuracy"].notes[-1] == "All runs: 1 seed; easy (4)."


def test_other_problems_have_no_difference_and_that_is_said(make):
    first, other = make("a", {"single": (1, 2)}), make("b", {"single": (3, 4)}, problems="pqrx")
    shown = compared(first, other)
    assert shown.rows("runs-accuracy")["1 one agent"][3:5] == ["87.5 ± 12.5", "–"]
    notes = shown.tables["runs-accuracy"].notes
    # Nothing is said of a test that was not made.
    assert notes[1:] == (
        "All runs: 2 seeds; easy (4).",
        "Runs that were asked other problems than the first have no differences.",
    )
    third = make("c", {"single": (3, 3, 3)})
    both = compared(first, other, third)
    assert both.rows("runs-accuracy")["1 one agent"][4] == "–"
    # 3/8 against 3/4 without an error: SE 1/8, t = 3, one degree of freedom, p = 1 − 2 atan(3)/π = 0.20.
    assert both.rows("runs-accuracy")["1 one agent"][8] == "+37.5"
    assert both.tables["runs-accuracy"].notes[2:] == (
        *("a: 2 seeds; easy (4).", "b: 2 seeds; easy (4).", "c: 3 seeds; easy (4)."),
        "Runs that were asked other problems than the first have no differences.",
    )


def test_other_benchmarks_stand_beside_each_other(make):
    first = make("a", {"single": (1, 2)}, benchmarks=("easy", "hard"))
    shown = compared(first, make("b", {"single": (3, 4)}))
    assert headings(shown.tables["runs-benchmarks"])[1:] == [("a", "easy"), ("a", "hard"), ("b", "easy")]
    assert shown.rows("runs-benchmarks")["1 one agent"] == ["37.5 ± 12.5", "37.5 ± 12.5", "87.5 ± 12.5"]
    assert shown.rows("runs-accuracy")["1 one agent"][4] == "–"
    assert shown.tables["runs-accuracy"].notes[1:3] == ("a: 2 seeds; easy (4), hard (4).", "b: 2 seeds; easy (4).")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_run_that_is_not_evaluated_has_dashes(make, is_first):
    with_scores, without = make("a", {"single": (1, 2), "debate": (4, 4)}), make("b")
    shown = compared(*((without, with_scores) if is_first else (with_scores, without)))
    cells = shown.rows("runs-accuracy")["1 one agent"]
    numbers = ["37.5 ± 12.5", "37.5 ± 12.5", "1,000"]
    assert cells == ([*"–––", "37.5 ± 12.5", "–", *numbers[1:]] if is_first else [*numbers, *"––––"])
    assert shown.rows("runs-debating")["2 debate"] == (
        ["–", "–", "–", "100.0", "0.0", "0.0"] if is_first else ["100.0", "0.0", "0.0", "–", "–", "–"]
    )
    notes = shown.tables["runs-accuracy"].notes[1:]
    assert set(notes[:2]) == {"a: 2 seeds; easy (4).", "b: not evaluated yet."}
    assert notes[2:] == (("Without results of b there are no differences.",) if is_first else ())


def test_runs_without_any_evaluation(make):
    shown = compared(make("a"), make("b"))
    assert shown.paragraphs == ["None of these runs has been evaluated yet.", "The recipes are the same."]
    assert list(shown.tables) == ["runs"]


def test_an_evaluation_that_goes_on_says_what_is_missing(make):
    whole, going_on = make("a", {"single": (1, 2), "vote": (1, 1)}), make("b", {"single": (1, 2, 3), "vote": (1, 1)})
    half, begun = make("c", {"single": (1,), "vote": ()}), make("d", {"single": (), "vote": (1,)})
    shown = compared(whole, going_on, half, begun)
    assert shown.tables["runs-accuracy"].notes[2:6] == (
        "a: 2 seeds; easy (4).",
        "b: 2 seeds; not finished and left out: seed 2; easy (4).",
        "c: 1 seed; not finished and left out: system vote; easy (4).",
        "d: no seed is finished yet.",
    )
    assert shown.rows("runs-accuracy")["1 one agent"][3:5] == ["37.5 ± 12.5", "+0.0"]


def test_systems_that_only_one_run_has(make):
    shown = compared(
        make("a", {"single": (1, 1)}, titles={"single": "an agent"}), make("b", {"vote": (2, 2), "single": (2, 2)})
    )
    rows = shown.rows("runs-accuracy")
    # A system is called as in the run that has it first.
    assert list(rows) == ["1 an agent", "2 vote"]
    assert rows["2 vote"] == [*"–––", "50.00 ± 0.00", "–", "50.00 ± 0.00", "1,000"]
    assert rows["1 an agent"][4] == "+25.0***"


def test_where_recipes_differ(make):
    long = "x" * 100
    first = make(
        "a", name="one", debate={"rounds": 2, "window": None}, sizes=[1, 2], flag=True, prompt=f"{long}a{long}"
    )
    other = make("b", seed=5, debate={"rounds": 3}, sizes=[1, 3], flag=1, prompt=f"{long}b{long}", extra="<b>")
    shown = compared(first, other)
    assert headings(shown.tables["runs-recipes"]) == [("", ""), ("", "a"), ("", "b")]
    assert shown.rows("runs-recipes") == {
        "seed": ["17", "5"],
        "name": ['"one"', '"tiny"'],
        "debate.rounds": ["2", "3"],
        "debate.window": ["null", "(absent)"],
        "sizes": ["[1, 2]", "[1, 3]"],
        "flag": ["true", "1"],
        # Long values are shown from a little before the place where they differ.
        "prompt": [f"…{'x' * 12}{letter}{'x' * 45}…" for letter in "ab"],
        "extra": ["(absent)", '"<b>"'],
    }


def test_where_three_recipes_differ_each_has_its_own_value(make):
    """The second differs from the first in a list's length, the third in one of its items: no value may be made up."""
    recipes = [
        {"sizes": [1, 2], "deep": {"a": 1, "b": 1}, "flat": 1},
        {"sizes": [7, 8, 9]},
        {"sizes": [1, 5], "deep": {"a": 2, "b": 1}, "flat": 2},
    ]
    shown = compared(*(make(name, **one) for name, one in zip("abc", recipes, strict=True)))
    assert shown.rows("runs-recipes") == {
        "sizes": ["[1, 2]", "[7, 8, 9]", "[1, 5]"],
        "deep.a": ["1", "(absent)", "2"],
        "deep.b": ["1", "(absent)", "1"],
        "flat": ["1", "(absent)", "2"],
    }
    assert len(shown.tables["runs-recipes"].rows) == 4
    same = [make(f"same-{name}", ratio=ratio) for name, ratio in zip("abc", (1, 1.0, 1), strict=True)]
    assert compared(*same).paragraphs[-1] == "The recipes are the same."


def test_what_the_runs_are(make):
    def split(run):
        with run.stage("split"):
            pass

    runs = [make("a", during=split), make("b", seed=4)]
    path = runs[0].path("stages", "split.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 125.0}))
    rows = compared(*runs).rows("runs")
    assert rows["recipe"] == ["tiny", "tiny"]
    assert rows["seed"] == ["17", "4"]
    assert rows["time of its stages"] == ["2 min 5 s", "0.00 s"]
    assert rows["machine"] == ["EPYC, H200, H200"] * 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", begun) for begun in rows["begun"])


def test_training_is_compared_agent_by_agent(make, write_training):
    runs = [make("a"), make("b")]
    for run, role, agent in ((runs[0], "generators", "g1"), (runs[0], "critics", "c1"), (runs[1], "generators", "g1")):
        write_training(run, role, [(agent, 0, 0.25, True), (agent, 5, 0.75, True), (agent, 9, 0.5, False)])
    shown = compared(*runs)
    assert shown.rows("runs-training") == {"g1": ["25.0", "75.0", "+50.0"] * 2, "c1": ["25.0", "75.0", "+50.0", *"–––"]}
    [training] = [section for section in shown.sections if section.name == "training"]
    assert [block.name for block in training.blocks if isinstance(block, Figure)] == ["training", "advantages"]


def test_titles_have_as_many_folders_as_tell_them_apart(make):
    def titles(*folders):
        manifest = make("any").manifest
        return distinct_titles([StoredRun(Path(folder), manifest) for folder in folders])

    assert titles("/x/a", "/x/b") == ["a", "b"]
    assert titles("/x/a/run", "/x/b/run") == ["a/run", "b/run"]
    assert titles("/x/a/run", "/y/a/run", "/y/b/run") == ["x/a/run", "y/a/run", "y/b/run"]
    # One path may end as another does.
    assert titles("/a/run", "/x/a/run") == ["a/run", "x/a/run"]
    assert titles("/x/a", "/x/a") == ["a (1)", "a (2)"]


def test_a_published_comparison(make, tmp_path, monkeypatch):
    # Pictures take most of the time, and have tests of their own.
    monkeypatch.setattr("mada.report.figures.writing.write_figures", lambda sources, folder: ([], {}))
    runs = [make(f"{name}/<i>run", {"single": (1, 2, 1, 2), "debate": (2, 2, 2, 2)}) for name in "ab"]
    before = {path: path.read_bytes() for run in runs for path in run.folder.rglob("*") if path.is_file()}
    published = publish_comparison(runs, tmp_path / "side by side")
    assert str(published) == "3 tables, 0 figures, 0 debates"
    assert published.page == tmp_path / "side by side" / "report.html"
    written = {
        path.relative_to(tmp_path / "side by side"): path.read_bytes() for path in published.page.parent.rglob("*.*")
    }
    assert {path.name for path in (published.page.parent / "report" / "tables").iterdir()} == {
        f"{name}.{ending}"
        for name in ("runs-accuracy", "runs-debating", "runs")
        for ending in ("tex", "md", "html", "txt")
    }
    page = published.page.read_text(encoding="utf-8")
    assert '<h1 dir="auto">a/&lt;i&gt;run and b/&lt;i&gt;run</h1>' in page
    assert "2 runs side by side; the others are compared with the first." in page
    assert '<th scope="colgroup" colspan="4">b/&lt;i&gt;run</th>' in page
    assert '<td class="number">+0.0</td>' in page
    assert "<i>" not in page
    text = published.text.read_text(encoding="utf-8")
    assert text.startswith("# a/\\<i\\>run and b/\\<i\\>run\n\n2 runs side by side")
    # Nothing in the runs was touched, and doing it again changes nothing.
    assert {path: path.read_bytes() for run in runs for path in run.folder.rglob("*") if path.is_file()} == before
    publish_comparison(runs, tmp_path / "side by side")
    assert {path: (tmp_path / "side by side" / path).read_bytes() for path in written} == written
