"""A run is followed by its files: what is torn waits, what was begun again is read again, what is wrong is left out."""

import json
from datetime import UTC, datetime

import pytest

from mada.events import (
    BestStep,
    Log,
    MemoryUsed,
    Progress,
    Rollout,
    RolloutGroup,
    StageStarted,
    StepFinished,
    StepProgress,
    StepRollouts,
    TrainingStarted,
    to_json,
)
from mada.pipeline.live import EVENTS, ROLLOUTS, LiveFiles
from mada.recipe import load_recipe
from mada.runs import Run
from mada.serve.following import Changes, FollowedRun
from mada.serve.tails import Session, Tail

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.toml").write_text('name = "tiny"\n[model]\nname = "mada-nano"\n')
    return load_recipe(tmp_path / "recipe.toml")


@pytest.fixture
def folder(tmp_path, recipe):
    """A run that a session was begun in and is over."""
    with Run.open(tmp_path / "run", recipe):
        pass
    return tmp_path / "run"


def add(path, text):
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def record(step, agent="generator-1", **numbers):
    numbers = {"reward": step / 10, "accuracy": 0.5, "length": 20.0, "truncated_share": 0.0, **numbers}
    return json.dumps({"step": step, "agent": agent, **numbers}) + "\n"


def events(path, *timed):
    path.write_text("".join(to_json(event, time=time) + "\n" for time, event in timed))


# --- growing files


def test_a_line_is_read_once_when_it_is_complete(tmp_path):
    tail = Tail(tmp_path / "lines")
    assert tail.read() == (False, [])
    add(tmp_path / "lines", "one\ntw")
    assert tail.read() == (False, [b"one"])
    assert tail.read() == (False, [])
    add(tmp_path / "lines", "o\nthree\n")
    assert tail.read() == (False, [b"two", b"three"])


@pytest.mark.parametrize("after", ["", "o", "one\n", "one\n2\n", "one\nTWO\nthree\nfour\nfive\n"])
def test_a_file_that_was_begun_again_is_read_again_whatever_its_length(tmp_path, after):
    path, tail = tmp_path / "lines", Tail(tmp_path / "lines")
    add(path, "one\ntwo\n")
    tail.read()
    path.write_text(after)
    assert tail.read() == (True, after[: after.rfind("\n") + 1].encode().splitlines())
    assert tail.read() == (False, [])


def test_a_file_that_is_gone_is_empty(tmp_path):
    path, tail = tmp_path / "lines", Tail(tmp_path / "lines")
    add(path, "one\n")
    tail.read()
    path.unlink()
    assert tail.read() == (True, [])
    add(path, "two\n")
    assert tail.read()[1] == [b"two"]


# --- what the events say

STARTED = TrainingStarted("generators", ("generator-1",), 11, 20, {}, {"generator-1": BestStep(2, None)})


def test_the_time_left_of_a_training_is_told_from_the_steps_of_this_session(tmp_path):
    session = Session(tmp_path / EVENTS)
    events(tmp_path / EVENTS, (90, StageStarted("generators", 2, 6)), (100, STARTED))
    session.update()
    assert (session.stage, session.progress, session.seconds_left(110)) == ("generators", (100, 10, 20), None)
    add(tmp_path / EVENTS, to_json(StepFinished(12, 20, {}, 3.0, 2.0), time=110) + "\n")
    add(tmp_path / EVENTS, to_json(StepProgress("sampling", 3, 24), time=111) + "\n")
    session.update()
    assert (session.progress, session.doing) == ((110, 12, 20), "sampling, 3 of 24")
    assert session.seconds_left(110) == 40
    assert session.seconds_left(115) == 35
    assert session.seconds_left(500) == 0


def test_the_time_left_of_other_stages_waits_for_enough_to_tell_it_from(tmp_path):
    session = Session(tmp_path / EVENTS)
    events(tmp_path / EVENTS, (0, StageStarted("evaluate", 5, 6)), (0, Progress(0, 1000)), (10, Progress(10, 1000)))
    session.update()
    assert session.seconds_left(10) is None
    add(tmp_path / EVENTS, to_json(Progress(100, 1000), time=100) + "\n")
    session.update()
    assert session.seconds_left(100) == 900


def test_a_new_session_forgets_the_one_before(tmp_path):
    session = Session(tmp_path / EVENTS)
    with LiveFiles(tmp_path, clock=lambda: 5.0, memory=lambda: MemoryUsed(1)) as live:
        for event in (StageStarted("generators", 2, 6), STARTED, Log("one")):
            live(event)
    session.update()
    assert session.training is not None
    with LiveFiles(tmp_path, clock=lambda: 6.0, memory=lambda: MemoryUsed(2)) as live:
        live(StageStarted("critics", 4, 6))
    session.update()
    assert (session.stage, session.training, session.messages) == ("critics", None, [])
    assert session.memory == (6.0, MemoryUsed(2))


def test_lines_that_mean_nothing_here_are_left_out(tmp_path):
    later = '{"event": "OfALaterVersion", "time": 1}\n{"event": "Log", "time": "x"}\n[]\n7\nnot JSON\n{"time": 1}\n'
    (tmp_path / EVENTS).write_bytes(later.encode() + b"\xff\xfe\n" + b"[" * 100_000 + b"\n")
    add(tmp_path / EVENTS, to_json(Log("\x1b[31mred \ud800"), time=1) + "\n")
    session = Session(tmp_path / EVENTS)
    session.update()
    assert session.messages == [{"time": 1.0, "message": "�[31mred �"}]


# --- a run


def test_a_run_is_running_while_a_process_holds_it_and_stopped_when_that_was_killed(tmp_path, recipe):
    run = Run.open(tmp_path / "run", recipe)
    followed = FollowedRun("run", tmp_path / "run")
    assert followed.row()["state"] == "running"
    run._lock.release()  # as the operating system does; the session has no end
    assert (followed.row()["state"], followed.state()["ended"]) == ("stopped", "killed")
    with Run.open(tmp_path / "run", recipe):
        assert (followed.row()["state"], followed.state()["ended"]) == ("running", None)
    assert (followed.row()["state"], followed.state()["ended"]) == ("stopped", None)
    with pytest.raises(KeyboardInterrupt), Run.open(tmp_path / "run", recipe):
        raise KeyboardInterrupt
    assert followed.state()["ended"] == "interrupted"


def test_a_run_without_live_files_shows_its_records(folder, recipe):
    with Run.open(folder, recipe) as run, run.stage("split"):
        pass
    add(folder / "generators" / "metrics.jsonl", record(1) + record(2))
    add(folder / "generators" / "validation.jsonl", json.dumps({"step": 0, "agent": "generator-1", "accuracy": 0.25}))
    add(folder / "generators" / "validation.jsonl", "\n")
    seen = Changes(FollowedRun("run", folder)).look()
    assert (seen["state"], seen["stage"], seen["done"], seen["rollouts"]) == ("stopped", "generators", None, None)
    assert seen["curves"]["generators"] == {
        "steps": {"generator-1": [[1, 0.1, 0.5, 20.0, 0.0], [2, 0.2, 0.5, 20.0, 0.0]]},
        "validations": {"generator-1": [[0, 0.25]]},
    }
    assert [(one["name"], one["state"]) for one in seen["stages"]] == [
        ("split", "done"),
        ("generators", "stopped"),
        *((name, "waiting") for name in ("critic-data", "critics", "evaluate", "report")),
    ]


def test_a_run_with_a_report_is_finished(folder, recipe):
    with Run.open(folder, recipe) as run, run.stage("report"):
        assert FollowedRun("run", folder).row()["state"] == "running"
    row = FollowedRun("run", folder).row()
    assert (row["state"], row["stage"], row["done"], row["eta"]) == ("finished", None, None, None)


def test_a_run_that_cannot_be_read_says_so(folder):
    (folder / "manifest.json").write_text("{")
    assert "damaged" in FollowedRun("run", folder).row()["problem"]
    assert Changes(FollowedRun("run", folder)).look()["stages"] == []


# --- what changes


def test_a_reader_gets_everything_first_and_then_what_is_new(folder):
    metrics = folder / "generators" / "metrics.jsonl"
    add(metrics, record(1))
    changes = Changes(FollowedRun("run", folder, clock=lambda: 0.0))
    assert changes.look()["curves"]["generators"]["steps"] == {"generator-1": [[1, 0.1, 0.5, 20.0, 0.0]]}
    assert changes.look() == {}
    add(metrics, record(2) + record(2, "generator-2", reward=float("nan"), accuracy=None) + record(3)[:-5])
    assert changes.look() == {
        "points": [
            {"training": "generators", "kind": "steps", "agent": "generator-1", "points": [[2, 0.2, 0.5, 20.0, 0.0]]},
            {"training": "generators", "kind": "steps", "agent": "generator-2", "points": [[2, None, None, 20.0, 0.0]]},
        ]
    }
    assert changes.look() == {}


def test_a_training_that_went_back_to_a_checkpoint_is_sent_again(folder):
    metrics = folder / "critics" / "metrics.jsonl"
    add(metrics, record(1) + record(2) + record(3))
    followed = FollowedRun("run", folder, clock=lambda: 0.0)
    changes, later = Changes(followed), Changes(followed)
    changes.look()
    metrics.write_text(record(1) + record(2, reward=9.0) + record(3, reward=9.0) + record(4))
    again = changes.look()
    assert [point[:2] for point in again["curves"]["critics"]["steps"]["generator-1"]] == [
        *([1, 0.1], [2, 9.0]),
        *([3, 9.0], [4, 0.4]),
    ]
    assert "points" not in again
    assert len(later.look()["curves"]["critics"]["steps"]["generator-1"]) == 4
    assert changes.look() == later.look() == {}


def test_a_very_long_training_is_thinned_out_at_first_only(folder):
    metrics = folder / "generators" / "metrics.jsonl"
    add(metrics, "".join(record(step) for step in range(1, 2501)))
    changes = Changes(FollowedRun("run", folder))
    assert len(changes.look()["curves"]["generators"]["steps"]["generator-1"]) == 834
    add(metrics, record(2501))
    assert [one["points"][0][0] for one in changes.look()["points"]] == [2501]


def test_rollouts_are_html_in_which_nothing_of_the_model_is_markup(folder):
    rollout = Rollout(r"<img src=x onerror=alert(1)> $\frac{1}{2}$" + "\ud800", 3, 1.5, float("inf"), False, True)
    group = RolloutGroup("<b>a</b>", "p\u202e1", "<script>1</script>", (rollout,))
    changes = Changes(FollowedRun("run", folder))
    assert changes.look()["rollouts"] is None
    with LiveFiles(folder) as live:
        live(StepRollouts("generators", 4, (group,)))
    seen = changes.look()["rollouts"]
    assert (seen["training"], seen["step"]) == ("generators", 4)
    (shown,) = seen["groups"]
    assert (shown["question_html"], shown["prompt"]) == ("&lt;script&gt;1&lt;/script&gt;", "p�1")
    (one,) = shown["rollouts"]
    assert one["html"].startswith("&lt;img src=x onerror=alert(1)&gt; <math")
    assert (one["reward"], one["advantage"], one["correct"], one["truncated"]) == (1.5, None, False, True)
    json.dumps(seen, allow_nan=False).encode()
    assert "rollouts" not in changes.look()
    for damaged in ("{", "[]", to_json(Log("x")), '{"event": "StepRollouts"}', "\ud800"):
        (folder / ROLLOUTS).write_bytes(damaged.encode(errors="surrogatepass"))
        assert Changes(FollowedRun("run", folder)).look()["rollouts"] is None
