"""`mada runs`: how far every run in a folder is, and its headline numbers."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mada.cli import app
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.recipe import Recipe
from mada.runs import Run

STAGES = ("split", "generators", "critic-data", "critics", "evaluate", "report")
PLAN = EvaluationPlan(
    systems=(
        PlannedSystem(name="single", title="single agent", generators=("base", "base")),
        PlannedSystem(name="mada", title="MADA debate", generators=("a", "b")),
    ),
    reference="mada",
    benchmarks=("easy", "hard"),
)
RIGHT = {
    # By benchmark and seed, right verdicts where all answers are: averages of 0 and 0.5 for one agent, 1 and 0.5 for
    # the team.
    "single": {("easy", 0): 0.5, ("hard", 0): 0.0, ("easy", 1): 1.0, ("hard", 1): 0.5},
    "mada": {("easy", 0): 1.0, ("hard", 0): 1.0, ("easy", 1): 1.0, ("hard", 1): 0.5},
}


def score(system, benchmark, seed, accuracy):
    right = {1.0: (True, True), 0.5: (True, False), 0.0: (False, False)}[accuracy]
    return Score(
        system=system,
        benchmark=benchmark,
        seed=seed,
        problem="p",
        agents=(("a", "b"),),
        answers=(("1", "2"),),
        groups=((0, 1),),
        correct=(right,),
        verdict_correct=all(right),
        first_vote_correct=True,
        tie=False,
        tokens=((1, 1),),
        prompts=((1, 1),),
        truncated=0,
        shortened=0,
    )


@pytest.fixture
def make(tmp_path):
    """Make a run whose first stages are done; an evaluated one has scores."""

    def run(name, *stages, recipe="tiny"):
        opened = Run.open(tmp_path / "runs" / name, Recipe(name=recipe))
        for stage in stages:
            if stage == "evaluate":
                opened.write_text(PLAN_FILE, PLAN.to_json())
                scores = [score(system, *place, right) for system, by in RIGHT.items() for place, right in by.items()]
                opened.records("scores", Score).extend(scores)
            with opened.stage(stage):
                pass
        return opened

    return run


def listed(folder, *options, columns=200):
    words = ["runs", str(folder), *options]
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_state_is_told(make, tmp_path):
    make("a-finished", *STAGES).close()
    make("b-stopped", *STAGES[:3]).close()
    make("c-fresh").close()
    at_work = make("d-running", *STAGES[:2], recipe="other")
    (tmp_path / "runs" / "e-broken").mkdir()
    (tmp_path / "runs" / "e-broken" / "manifest.json").write_text("{")
    (tmp_path / "runs" / "no-run").mkdir()
    (tmp_path / "runs" / "letter.txt").write_text("Dear")
    rows = json.loads(listed(tmp_path / "runs", "--json"))
    at_work.close()
    assert [(Path(row["folder"]).name, row["recipe"]) for row in rows] == [
        ("a-finished", "tiny"),
        ("b-stopped", "tiny"),
        ("c-fresh", "tiny"),
        ("d-running", "other"),
        ("e-broken", "–"),
    ]
    states = [row["state"] for row in rows]
    assert states[:4] == [
        "finished",
        "stopped after critic-data",
        "stopped before its first stage was done",
        "running, 2 stages done",
    ]
    assert states[4].startswith("unreadable: ")
    assert "manifest.json is damaged: it is not JSON" in states[4]
    assert (rows[4]["started_at"], rows[4]["seconds"]) == (None, 0.0)
    ended = json.loads(listed(tmp_path / "runs", "--json"))
    assert ended[3]["state"] == "stopped after generators", "nobody holds it any more"


def test_the_headline_numbers_are_means_over_seeds_of_averages_over_benchmarks(make, tmp_path):
    make("one", *STAGES).close()
    [row] = json.loads(listed(tmp_path / "runs", "--json"))
    assert row["untrained"] == pytest.approx(0.25)
    assert row["team"] == pytest.approx(0.75)
    # of 1 and 0.5: s = 0.5 / √2, and over √2 for the mean
    assert row["standard_error"] == pytest.approx(0.25)
    _, line = listed(tmp_path / "runs").splitlines()
    assert line.split()[1:3] == ["tiny", "finished"]
    assert line.split()[-4:] == ["25.0", "75.0", "±", "25.0"]


def test_before_the_evaluation_there_are_no_numbers(make, tmp_path):
    make("one", *STAGES[:4]).close()
    [row] = json.loads(listed(tmp_path / "runs", "--json"))
    assert (row["untrained"], row["team"], row["standard_error"]) == (None, None, None)
    header, line = listed(tmp_path / "runs").splitlines()
    assert header.split("  ")[0] == "run"
    assert line.split()[-2:] == ["–", "–"]


def test_scores_of_an_unfinished_evaluation_are_not_summed_up(make, tmp_path):
    run = make("one", *STAGES[:4])
    run.records("scores", Score).append(score("mada", "easy", 0, 1.0))
    run.write_text(PLAN_FILE, PLAN.to_json())
    run.close()
    [row] = json.loads(listed(tmp_path / "runs", "--json"))
    assert (row["state"], row["team"]) == ("stopped after critics", None)


def test_runs_are_listed_by_when_they_began(make, tmp_path):
    for name in ("z", "m", "a"):
        make(name).close()
    names = [Path(row["folder"]).name for row in json.loads(listed(tmp_path / "runs", "--json"))]
    assert names == ["z", "m", "a"]


def test_the_time_it_took_is_that_of_all_stages(make, tmp_path):
    run = make("one", "split", "generators")
    run.close()
    for name, seconds in (("split", 40.0), ("generators", 20.5)):
        mark = run.folder / "stages" / f"{name}.json"
        mark.write_text(json.dumps({**json.loads(mark.read_text()), "seconds": seconds}))
    [row] = json.loads(listed(tmp_path / "runs", "--json"))
    assert row["seconds"] == 60.5
    assert " 1 min 0 s " in listed(tmp_path / "runs")


def test_what_a_strange_recipe_is_called_does_not_steer_the_terminal(tmp_path):
    # Recipes of an older mada took any name; no new one does.
    named = Recipe().model_copy(update={"name": "[red]\x1b[2Jbad"})
    Run.open(tmp_path / "runs" / "one", named).close()
    printed = listed(tmp_path / "runs")
    assert "\x1b" not in printed
    assert "[red]" in printed


def test_a_folder_without_runs_says_how_to_make_one(tmp_path, refused):
    complaint = f"mada: {tmp_path} holds no runs; `mada run recipes/quickstart.toml` makes one\n"
    assert refused("runs", tmp_path) == complaint
    assert json.loads(listed(tmp_path, "--json")) == [], "for a program, none is an answer"


def test_a_folder_that_is_not_there_is_refused(tmp_path, refused, monkeypatch):
    assert refused("runs", tmp_path / "gone") == (
        f"mada: {tmp_path / 'gone'}: no such folder; give the one that holds your runs\n"
    )
    monkeypatch.chdir(tmp_path)
    assert refused("runs").startswith("mada: runs: no such folder")


def test_names_are_whole_however_narrow_the_window_is(make, tmp_path):
    name = "a-run-with-a-name-that-is-as-long-as-people-make-them"
    make(name, recipe="a recipe with a long name").close()
    printed = listed(tmp_path / "runs", columns=40)
    assert f"{tmp_path / 'runs' / name}  a recipe with a long name  " in printed
    assert "…" not in printed


def test_show_without_a_run_shows_the_one_worked_on_last(make, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert "got no run" in refused("show")
    for name in ("first", "second", "first"):
        make(name, recipe=name).close()
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{")
    done = CliRunner().invoke(app, ["show"], catch_exceptions=False)
    assert done.stdout.startswith("first: stopped")
