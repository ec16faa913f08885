"""`mada runs` and `mada show`: runs with their progress, training and headline numbers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from mada.cli import app
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.report.publishing import report_markdown
from mada.runs import Run
from scores import score_of

PLAN = EvaluationPlan(
    systems=(
        PlannedSystem(name="single", title="one agent", generators=("g",)),
        PlannedSystem(name="mada", title="MADA debate", generators=("g",), critics=("c",), rounds=2),
    ),
    reference="mada",
)
# Right answers of four by seed: averages of 1/4 and 1/2 for one agent, of 3/4 and 1 for the debate.
RIGHT = {"single": (1, 2), "mada": (3, 4)}


class Recipe(BaseModel):
    seed: int = 5
    name: str = "tiny"


def score(system, seed, problem, right):
    return score_of(system, [[right]] * (2 if system == "mada" else 1), seed=seed, problem=problem)


SCORES = [
    score(system, seed, problem, place < count)
    for system, counts in RIGHT.items()
    for seed, count in enumerate(counts)
    for place, problem in enumerate("pqrs")
]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make a run whose stages are done; the first took 65 seconds, and each of the others twice as long."""
    monkeypatch.chdir(tmp_path)

    def run(*stages, scores=(), name="first", title="tiny", plan=PLAN):
        with Run.open(tmp_path / name, Recipe(name=title)) as opened:
            if scores:
                opened.write_text(PLAN_FILE, plan.to_json())
                opened.records("scores", Score).extend(scores)
            for stage in stages:
                with opened.stage(stage):
                    pass
        for place, stage in enumerate(stages):
            mark = tmp_path / name / "stages" / f"{stage}.json"
            mark.write_text(json.dumps({**json.loads(mark.read_text()), "seconds": 65.0 * 2**place}))
        return tmp_path / name

    return run


def trained(folder, role, *, rollouts, validations, cut_off=0.0, skipped=0.0):
    """Record a training: of each agent an accuracy for every step, and validations with the one that was kept."""
    (folder / role).mkdir()
    said = {"truncated_share": cut_off, "zero_spread_share": 1.0, "skipped_share": skipped}
    steps = [
        {"step": step, "agent": agent, "accuracy": value, **said}
        for agent, values in rollouts.items()
        for step, value in enumerate(values, start=1)
    ]
    looks = [
        {"step": step, "agent": agent, "accuracy": value, "length": 9.0, "is_best": best}
        for agent, values in validations.items()
        for step, (value, best) in enumerate(values)
    ]
    for name, lines in (("metrics", steps), ("validation", looks)):
        (folder / role / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def shown(folder, *, columns=120):
    words = ["show", str(folder)]
    done = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb"}).invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_finished_run(make):
    folder = make("split", "evaluate", "report", scores=SCORES)
    lines = shown("first").splitlines()
    began = Run.read(folder).manifest.started_at
    assert lines[:5] == [
        "tiny: finished",
        f"first, seed 5, begun {began:%Y-%m-%d %H:%M} UTC",
        "stages: split 1 min 5 s, evaluate 2 min 10 s, report 4 min 20 s",
        "",
        "Right verdicts and cost of every system",
    ]
    [single] = [line for line in lines if line.startswith("1 one agent")]
    assert " ".join(single.split()[3:]) == "37.5 ± 12.5 −50.0 0.106 37.5 ± 12.5 1 50 5 – –"
    # Verdict against verdict: SE² = 2/64, t = 2√2 with two degrees of freedom, p = 1 − t/√(2 + t²) = 0.106.
    assert lines[-3:] == [
        "",
        "MADA debate: 87.5 ± 12.5 % of its verdicts are right; "
        "the strongest other system, “one agent”, has −50.0 points (p = 0.106); "
        "critics improve 0.0 % of the questions and damage 0.0 %.",
        "for a page with every table and debate: mada report first",
    ]
    (folder / "report.html").write_text("")
    assert shown("first").splitlines()[-1] == "report: first/report.html"


def test_a_run_that_has_just_begun(make):
    make()
    first, _, *rest = shown("first").splitlines()
    assert first == "tiny: stopped before its first stage was done"
    assert rest == ["", "not evaluated yet"]


def test_a_training_without_an_evaluation(make):
    """Every point is a mean with its neighbours: 0, 0, 1, 1 becomes 0, 1/3, 2/3, 1, which is 0, 2, 5 and 7 of 7."""
    folder = make("split", "generators")
    trained(
        folder,
        "generators",
        rollouts={"a": [0, 0, 1, 1], "long-name": [0.5, 0.5, 0.5]},
        validations={"a": [(0.25, True), (0.75, True), (0.5, False)], "long-name": [(0.25, False), (0.125, False)]},
    )
    trained(folder, "critics", rollouts={"c": [0.5, 0.5]}, validations={})
    assert shown("first").splitlines()[2:] == [
        "stages: split 1 min 5 s, generators 2 min 10 s",
        "",
        "generators: accuracy of rollouts over 4 steps, between 0.0 % and 100.0 %",
        "  a          ▁▃▆█  validation 25.0 % → 75.0 %",
        "  long-name  ▅▅▅  validation 25.0 % → 12.5 %",
        "",
        "critics: accuracy of rollouts over 2 steps, between 50.0 % and 50.0 %",
        "  c  ▅▅",
        "",
        "not evaluated yet",
    ]


NOT_IMPROVED = {"a": [(0.25, True), (0.25, False)]}


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ({"rollouts": {"a": [0, 0]}, "skipped": 1.0}, ("different rewards", "too hard", "group_size")),
        ({"rollouts": {"a": [1, 1]}, "skipped": 1.0}, ("different rewards", "too easy")),
        ({"rollouts": {"a": [0, 0]}, "skipped": 1.0, "cut_off": 0.9}, ("cut off", "90%", "max_new_tokens")),
        # A counterfactual advantage needs no spread.
        ({"rollouts": {"a": [1, 1]}, "skipped": 0.5}, ("step 0", "learning_rate")),
        ({"rollouts": {"a": [0.5, 0.5]}}, ("step 0", "learning_rate")),
    ],
)
def test_a_training_from_which_nothing_was_learnt(make, recorded, words):
    folder = make("split", "generators")
    trained(folder, "generators", validations=NOT_IMPROVED, **recorded)
    [warning] = [line for line in shown("first").splitlines() if line.startswith("warning: a: ")]
    assert all(word in warning for word in words)
    assert "**Warning:** a: " in report_markdown(Run.read(folder))


def test_an_evaluation_that_goes_on(make):
    make("split", scores=SCORES[:-1])
    lines = shown("first").splitlines()
    assert lines[0] == "tiny: stopped after split"
    assert lines[4] == "the evaluation is not finished; left out: seed 1"
    assert lines[-2] == (
        "MADA debate: 75.0 % of its verdicts are right; the strongest other system, “one agent”, has −50.0 points; "
        "critics improve 0.0 % of the questions and damage 0.0 %."
    )
    more = [score(system, 2, "p", True) for system in RIGHT]
    make("split", scores=[*SCORES[:-1], *more], name="more")
    assert "left out: seeds 1, 2\n" in shown("more")


def test_nothing_that_a_run_is_called_steers_the_terminal(make):
    bad = "[red]\x1b[2J\nbad\r\u202e"
    systems = tuple(one.model_copy(update={"title": f"{bad}{one.name}"}) for one in PLAN.systems)
    folder = make(
        "split", scores=SCORES, name="a \x1b[2Jb", title=bad, plan=PLAN.model_copy(update={"systems": systems})
    )
    trained(folder, "generators", rollouts={"[b]\x1b[2Jx": [1, 1]}, validations={})
    text = shown(Path(folder.name))
    assert not {"\x1b", "\r", "\u202e"} & set(text)
    assert text.startswith("[red]�[2J bad �: stopped after split\na �[2Jb, seed 5")
    assert "\n  [b]�[2Jx  ▅▅\n" in text
    # One line, whatever titles are in it.
    assert text.splitlines()[-2].startswith("[red]�[2J bad �mada: 87.5 ± 12.5 % of its verdicts are right; ")
    assert text.endswith("mada report 'a �[2Jb'\n")


def test_showing_a_run_does_not_load_matplotlib(make):
    make("split", scores=SCORES)
    code = (
        "import sys; import mada.cli; early = sorted({'numpy', 'matplotlib', 'rich'} & set(sys.modules))\n"
        "from mada.cli.runs import show; from pathlib import Path; show(Path('first'))\n"
        "print('heavy:', early, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tiny: stopped after split\n" in done.stdout
    assert done.stdout.endswith("heavy: [] False\n")


def listed(folder=".", *options, columns=200):
    words = ["runs", str(folder), *options]
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_list_of_runs(make, tmp_path):
    make("split", "evaluate", "report", scores=SCORES, name="z-finished")
    make("split", "generators", "critic-data", name="b-stopped")
    make(name="c-fresh")
    make("split", name="d-running", title="other")
    make("split", "generators", scores=SCORES, name="f-evaluating")
    (tmp_path / "e-broken").mkdir()
    (tmp_path / "e-broken" / "manifest.json").write_text("{")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "letter.txt").write_text("Dear")
    with Run.open(tmp_path / "d-running", Recipe(name="other")):
        rows = json.loads(listed(".", "--json"))
    assert [(row["folder"], row["recipe"], row["state"].partition(": ")[0]) for row in rows] == [
        ("z-finished", "tiny", "finished"),  # by when they began
        ("b-stopped", "tiny", "stopped after critic-data"),
        ("c-fresh", "tiny", "stopped before its first stage was done"),
        ("d-running", "other", "running, 1 stage done"),
        ("f-evaluating", "tiny", "stopped after generators"),
        ("e-broken", "–", "unreadable"),
    ]
    assert "manifest.json is damaged" in rows[5]["state"]
    assert [row["seconds"] for row in rows] == [455.0, 455.0, 0.0, 65.0, 195.0, 0.0]
    finished, *others = ((row["untrained"], row["team"], row["standard_error"]) for row in rows)
    assert finished == (pytest.approx(0.375), pytest.approx(0.875), pytest.approx(0.125))
    assert others == [(None, None, None)] * 5, "nor are scores of an unfinished evaluation summed up"
    header, line, stopped, *_ = listed().splitlines()
    assert header.startswith("run  ")
    assert line.split()[:3] == ["z-finished", "tiny", "finished"]
    assert line.endswith("7 min 35 s          37.5  87.5 ± 12.5")
    assert stopped.split()[-2:] == ["–", "–"]
    assert json.loads(listed(".", "--json"))[3]["state"] == "stopped after split", "nobody holds it any more"


def test_folders_without_runs_are_refused(tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "`mada run recipes/quickstart.toml` makes one" in refused("runs", tmp_path)
    assert json.loads(listed(tmp_path, "--json")) == [], "for a program, none is an answer"
    assert "gone: no such folder" in refused("runs", "gone")
    assert "runs: no such folder" in refused("runs")
    assert "got no run" in refused("show")


def test_show_without_a_run_shows_the_latest_session(make, tmp_path):
    for name in ("first", "second", "first"):
        make(name=f"runs/{name}", title=name)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{")
    assert CliRunner().invoke(app, ["show"], catch_exceptions=False).stdout.startswith("first: stopped")
