"""`mada run`, its stages one by one, and what it says to somebody who made a mistake."""

import errno
import json
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from factories import stage_result, stage_summary
from mada.cli import app, main
from mada.errors import RecipeError
from mada.runs import StoredRun

RECIPE = """
name = "tiny"
[model]
name = "mada-nano"
window = 512
[data]
train = "abacus"
subset_size = 6
validation_size = 4
decontaminate = ["abacus-easy"]
[team]
generators = 2
critics = 2
[lora]
rank = 4
alpha = 8
[grading]
workers = 1
[training]
batch_size = 8
group_size = 4
learning_rate = 1e-3
max_new_tokens = 64
steps = 2
validate_every = 2
checkpoint_every = 1
[engine]
rows = 64
[inference]
max_new_tokens = 96
[evaluation]
benchmarks = ["abacus-easy", "abacus-medium"]
seeds = 2
problems = 2
prompt_price = 0.5
"""
STAGES = ("split", "generators", "critic-data", "critics", "evaluate", "report")
pytestmark = pytest.mark.usefixtures("in_this_process")
WIDE = {"COLUMNS": "200", "TERM": "dumb"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, in_this_process, mada):
    """A run from its first stage to its last, as a user starts it."""
    folder = tmp_path_factory.mktemp("finished")
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE)
    printed = mada("run", recipe, "--run", folder / "run")
    return SimpleNamespace(recipe=recipe, folder=folder / "run", printed=printed)


@pytest.fixture
def copied(finished, tmp_path):
    """The finished run, to do as one likes with."""
    shutil.copytree(finished.folder, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "tiny.toml"
    file.write_text(RECIPE)
    return file


@pytest.fixture
def pretended(monkeypatch):
    """Stages that only note that they ran."""
    from mada.pipeline.stages import STAGES

    ran = []

    def pretend(stage):
        async def function(context):
            ran.append(stage.name)
            context.run.write_text((*stage.files, *stage.results)[0], stage.name)
            agents = context.agents("critic" if stage.name == "critics" else "generator")
            best = {agent: {"step": 0, "accuracy": 0.5} for agent in agents}
            return stage_result(stage_summary(best=best))

        return function

    monkeypatch.setattr("mada.pipeline.running.FUNCTIONS", {stage.name: pretend(stage) for stage in STAGES})
    return ran


def marks(folder):
    return {path.stem: path.read_bytes() for path in (Path(folder) / "stages").glob("*.json")}


def lines(folder, name):
    return sorted((Path(folder) / "records" / f"{name}.jsonl").read_bytes().splitlines())


def snapshot(folder):
    """Everything in a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in Path(folder).rglob("*")
    }


def table_of(printed):
    return printed[printed.index("\nsystem ") :]


# The whole method


def test_all_stages_are_announced_in_order_with_what_came_of_them(finished):
    begun = [line for line in finished.printed.splitlines() if line[:4] in {f"{n}/6 " for n in range(1, 7)}]
    assert [line.split(":")[0] for line in begun] == [f"{n}/6 {name}" for n, name in enumerate(STAGES, start=1)]
    summaries: dict[str, Any] = {mark.name: mark.summary for mark in StoredRun.read(finished.folder).finished_stages()}
    assert list(summaries) == list(STAGES)
    split = summaries["split"]
    assert {name: split[name] for name in ("subset-1", "subset-2", "validation")} == {
        "subset-1": 6,
        "subset-2": 6,
        "validation": 4,
    }
    wanted, sampled = (summaries["evaluate"][name] for name in ("completions wanted", "of these sampled"))
    assert f"    {sampled:,} completions sampled, {wanted - sampled:,} shared between systems (" in finished.printed
    # 8 questions: bare and trained generators and critics twice two each, and the votes' further samples
    assert sampled == len(lines(finished.folder, "samples")) >= 8 * 8
    right = summaries["critic-data"]["by right answers"]
    shown = ", ".join(f"{number} right: {count}" for number, count in right.items())
    assert f"    16 problems by how many generators were right: {shown} (" in finished.printed
    assert sum(right.values()) == 16


def test_the_end_says_where_the_report_is_and_what_to_do_next(finished):
    *_, report, following = finished.printed.splitlines()
    assert report == f"report: {finished.folder / 'report.html'}"
    assert following.startswith(f"next:   mada debate --run {finished.folder} ")
    assert "MADA debate" in (finished.folder / "report.md").read_text()


def test_the_trained_team_debates(mada, finished):
    words = ["debate", "--run", finished.folder, "What is 2 + 3?", "--json"]
    record = json.loads(mada(*words))
    agents = [[turn["agent"] for turn in one["turns"]] for one in record["rounds"]]
    assert agents == [["generator-1", "generator-2"], ["critic-1", "critic-2"]]


def test_a_finished_run_is_not_done_again_and_shows_the_same_table(mada, finished, copied):
    before = {name: content for name, content in snapshot(copied).items() if name not in ("manifest.json", ".lock")}
    printed = mada("run", finished.recipe, "--run", copied)
    assert printed.splitlines()[:6] == [f"{name}: done before" for name in STAGES]
    assert table_of(printed).replace(str(copied), str(finished.folder)) == table_of(finished.printed)
    after = {name: content for name, content in snapshot(copied).items() if name not in ("manifest.json", ".lock")}
    assert after == before


def test_evaluating_again_gives_the_same_scores_and_leaves_the_rest(mada, finished, copied):
    before = marks(copied)
    printed = mada("run", "--run", copied, "--from", "evaluate")
    assert printed.splitlines()[:5] == [f"{name}: done before" for name in STAGES[:4]] + [
        "5/6 evaluate: measure the team and its rivals"
    ]
    after = marks(copied)
    assert [name for name in STAGES if after[name] != before[name]] == ["evaluate", "report"]
    assert lines(copied, "scores") == lines(finished.folder, "scores")
    assert lines(copied, "transcripts") == lines(finished.folder, "transcripts")
    assert table_of(printed).replace(str(copied), str(finished.folder)) == table_of(finished.printed)


def test_a_run_that_was_stopped_in_the_evaluation_goes_on_with_its_folder_alone(mada, finished, copied):
    for name in ("evaluate", "report"):
        (copied / "stages" / f"{name}.json").unlink()
    (copied / "report.md").unlink()
    scores = copied / "records" / "scores.jsonl"
    kept = scores.read_bytes().splitlines(keepends=True)[:12]
    scores.write_bytes(b"".join(kept))
    printed = mada("run", "--run", copied)
    assert "evaluate: 12 of 72" in printed
    assert scores.read_bytes().startswith(b"".join(kept))
    assert lines(copied, "scores") == lines(finished.folder, "scores")
    assert lines(copied, "transcripts") == lines(finished.folder, "transcripts")
    assert table_of(printed).replace(str(copied), str(finished.folder)) == table_of(finished.printed)


# Parts of it


def test_it_stops_after_a_stage_and_goes_on_with_the_folder_alone(mada, recipe, tmp_path, pretended):
    printed = mada("run", recipe, "--run", tmp_path / "run", "--until", "split")
    assert pretended == ["split"]
    assert printed.splitlines()[-1] == f"1 stage done. To continue: mada run --run {tmp_path / 'run'}"
    printed = mada("run", "--run", tmp_path / "run", "--until", "critics")
    assert pretended == ["split", "generators", "critic-data", "critics"]
    assert printed.splitlines()[0] == "split: done before"
    assert printed.splitlines()[-1] == f"4 stages done. To continue: mada run --run {tmp_path / 'run'}"
    mada("run", "--run", tmp_path / "run")
    assert pretended == list(STAGES)


def test_stages_are_commands_too(mada, recipe, tmp_path, pretended):
    mada("split", recipe, "--run", tmp_path / "run")
    for name in STAGES[1:-1]:
        mada(name, "--run", tmp_path / "run")
    assert pretended == list(STAGES[:-1]), "a report needs no stage: it is made of what is there"
    assert "generators: done before" in mada("generators", "--run", tmp_path / "run")
    assert pretended == list(STAGES[:-1])


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(mada, recipe, tmp_path):
    before = snapshot(tmp_path)
    printed = mada("run", recipe, "--run", tmp_path / "new", "--dry-run")
    assert snapshot(tmp_path) == before
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.split()}
    assert f"tiny on mada-nano, in {tmp_path / 'new'}; nothing is done yet" in printed
    # 2 agents × (2 × 8 + 2 × 4), tokens at most 64 each
    assert rows["generators"][-2:] == ["48", "3,072"]
    assert rows["critic-data"][-2:] == ["32", "3,072"]
    assert rows["evaluate"][-2:] == ["96", "9,216"]
    assert rows["report"][-2:] == ["–", "–"]
    assert "at 64 tokens in training, counted and learnt from (training.truncated), otherwise at 96" in printed
    assert "67,840 × 4 agents = 271,360" in printed


def test_a_measured_dry_run_adds_times(mada, recipe, tmp_path):
    before = snapshot(tmp_path)
    printed = mada("run", recipe, "--run", tmp_path / "new", "--dry-run", "--measure")
    assert snapshot(tmp_path) == before
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.split()}
    assert rows["together"][-1] in ("s", "min")
    assert "tokens per second sampled" in printed
    assert "--dry-run" in str(CliRunner().invoke(app, ["run", str(recipe), "--measure"]).exception)


def test_a_dry_run_of_a_run_says_what_is_done(mada, finished):
    before = snapshot(finished.folder)
    printed = mada("run", "--run", finished.folder, "--dry-run")
    done = [line.split("  ")[0] for line in printed.splitlines() if "(done)" in line]
    assert done == [f"{name} (done)" for name in STAGES]
    assert snapshot(finished.folder) == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["training.truncated=wrong"], "learnt from as wrong (training.truncated)"),
        (["critics.truncated=skip"], "learnt from by generators, not learnt from by critics (critics.trunc"),
        (["critics.truncated=skip", "team.critics=0", "team.rounds=1"], "67,840 × 2 agents = 135,680"),
    ],
)
def test_a_dry_run_of_other_settings(mada, recipe, settings, words):
    printed = mada("run", recipe, *settings, "--dry-run")
    assert words in printed
    assert ("critic" in printed) == ("team.critics=0" not in settings)


def test_critics_are_trained_anew_on_the_generators_of_another_run(mada, finished, tmp_path):
    words = ("run", finished.recipe, "critics.start=generators", "evaluation.seeds=1", "--generators", finished.folder)
    planned = mada(*words, "--run", tmp_path / "new", "--dry-run")
    taken = {line.split()[0] for line in planned.splitlines() if "(taken)" in line}
    assert taken == {"split", "generators", "critic-data"}
    assert not (tmp_path / "new").exists()
    before = snapshot(finished.folder)
    printed = mada(*words, "--run", tmp_path / "new", "--until", "critics").splitlines()
    assert printed[:3] == [f"{name}: done before" for name in ("split", "generators", "critic-data")]
    for name in ("generator-1", "generator-2", "critic-1"):
        own, theirs = (
            path / "adapters" / name / "adapter_model.safetensors" for path in (tmp_path / "new", finished.folder)
        )
        assert (own.read_bytes() == theirs.read_bytes()) == name.startswith("generator")
    assert lines(tmp_path / "new", "critic-examples") == lines(finished.folder, "critic-examples")
    assert {name: content for name, content in snapshot(finished.folder).items() if name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }


def test_generators_of_another_recipe_are_refused_before_anything_is_written(
    mada, recipe, tmp_path, pretended, refused
):
    mada("run", recipe, "--run", tmp_path / "old", "--until", "generators")
    words = ("run", recipe, "--generators", tmp_path / "old", "--run", tmp_path / "new")
    assert f"mada: {tmp_path / 'old'} has no trained generators yet (critic-data is missing); " in refused(*words)
    mada("run", "--run", tmp_path / "old", "--until", "critic-data")
    message = refused(*words, "training.steps=3", "seed=1", "critics.steps=4", "engine.rows=32")
    assert [line.split()[0] for line in message.splitlines()[1:-1]] == ["seed", "training.steps"]
    assert refused(*words, "training.steps=3", "--dry-run").startswith("mada: the generators of ")
    assert refused(*words, "--from", "generators").startswith(
        "mada: --from generators would do again what --generators"
    )
    assert refused(*words, "team.rounds=1").startswith("mada: this recipe has no stage 'critic-data'")
    assert not (tmp_path / "new").exists()


# Mistakes


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("run nowhere.toml", "nowhere.toml: no such file"),
        ("run typo.toml", "typo.toml: training.groop_size: unknown key; did you mean 'group_size'?"),
        (
            "run tiny.toml training.stepz=3",
            "override 'training.stepz=3': training.stepz: unknown key; did you mean 'steps'?",
        ),
        ("run tiny.toml tiny.toml", "got 2 files (tiny.toml, tiny.toml), wanted one"),
        ("run", "got no recipe"),
        ("run --run nowhere", "nowhere does not exist"),
        ("run tiny.toml --run file", "file is a file"),
        ("run tiny.toml --run file/inside", "file/inside cannot be used: Not a directory"),
        ("run tiny.toml --run letters", "letters has files but no manifest.json"),
        ("run tiny.toml --run broken", "broken/manifest.json is damaged"),
        ("run tiny.toml --until trainng", "unknown stage 'trainng'; choose from split, screen,"),
        ("run --run old --from critics --until split", "split comes before critics"),
        ("run --run old --from evaluate", "evaluate needs the stage generators"),
        ("run tiny.toml --track tensorbord", "unknown tracker 'tensorbord'"),
        ("run sed=1 --run old", "override 'sed=1': sed: "),
        ("run tiny.toml seed=2 --run old", "old was started with another recipe"),
    ],
)
def test_a_mistake_ends_in_one_message_and_nothing_is_lost(
    mada, recipe, tmp_path, monkeypatch, pretended, refused, command, complaint
):
    monkeypatch.chdir(tmp_path)
    mada("run", "tiny.toml", "--run", "old", "--until", "split")
    Path("typo.toml").write_text(RECIPE.replace("group_size", "groop_size"))
    Path("file").write_text("a file")
    for name, content in (("empty/nothing", None), ("letters/letter.txt", "Dear"), ("broken/manifest.json", "{")):
        Path(name).parent.mkdir()
        if content:
            Path(name).write_text(content)
    before = snapshot(tmp_path)
    assert refused(*command.split()).startswith(f"mada: {complaint}")
    after = snapshot(tmp_path)
    # Opening a run notes the session in its manifest, and looking into one leaves a lock; no more may differ.
    different = {name for name in before | after if before.get(name) != after.get(name)}
    assert different <= {"old/manifest.json", "old/.lock", "broken/.lock"}


def test_what_no_finished_stage_depends_on_may_change(mada, recipe, tmp_path, pretended):
    mada("run", recipe, "--run", tmp_path / "run", "--until", "split")
    mada("run", recipe, "training.steps=3", "--run", tmp_path / "run", "--until", "critics")
    assert pretended == ["split", "generators", "critic-data", "critics"]
    assert recipe_in(tmp_path / "run").training.steps == 3
    mada("run", "--run", tmp_path / "run", 'evaluation.benchmarks=["abacus-hard"]')
    assert pretended[4:] == ["evaluate", "report"]
    assert recipe_in(tmp_path / "run").evaluation.benchmarks == ("abacus-hard",)


def test_the_command_in_the_message_does_again_what_depends_on_a_change_and_keeps_the_rest(
    mada, recipe, tmp_path, pretended, refused
):
    mada("run", recipe, "--run", tmp_path / "run", "--until", "critics")
    message = refused("run", recipe, "critics.steps=3", "--run", tmp_path / "run")
    [difference] = [line for line in message.splitlines() if line.startswith("critics.steps")]
    assert "3" in difference
    assert recipe_in(tmp_path / "run").critics.steps is None
    kept = marks(tmp_path / "run")
    pretended.clear()
    command = shlex.split(message.rpartition(": ")[2])
    mada(*command[1:])
    assert pretended == ["critics", "evaluate", "report"]
    assert recipe_in(tmp_path / "run").critics.steps == 3
    assert {name: marks(tmp_path / "run")[name] for name in kept if name != "critics"} == {
        name: mark for name, mark in kept.items() if name != "critics"
    }


def test_a_run_that_is_killed_while_a_change_is_made_never_has_stages_of_two_recipes(
    mada, recipe, tmp_path, pretended, monkeypatch
):
    from mada.runs import folder

    def killed(*_):
        raise KeyboardInterrupt

    mada("run", recipe, "--run", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(folder.Run, "clear_stage", killed)
        CliRunner(env=WIDE).invoke(
            app, ["run", str(recipe), "seed=5", "--run", str(tmp_path / "run"), "--from", "split"]
        )
    assert set(marks(tmp_path / "run")) == set(STAGES)
    assert recipe_in(tmp_path / "run").seed == 0


def test_a_dry_run_prints_the_plan_and_ends_with_what_would_stop_it(recipe, tmp_path):
    words = ["run", str(recipe), "--run", str(tmp_path / "run"), "--dry-run", 'evaluation.benchmarks=["abacus-esay"]']
    done = CliRunner(env=WIDE).invoke(app, words)
    assert "memory together" in done.stdout
    assert isinstance(done.exception, RecipeError)


def recipe_in(folder):
    from mada.agents import recipe_of

    return recipe_of(StoredRun.read(folder))


@pytest.mark.parametrize("called", ["pathlib.Path.mkdir", "os.open"])
def test_a_folder_that_the_system_refuses_is_refused(recipe, tmp_path, refused, monkeypatch, called):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    before = snapshot(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(called, denied)
        message = refused("run", recipe, "--run", tmp_path / "new")
    assert f"{tmp_path / 'new'} cannot be " in message
    assert "Permission denied" in message
    assert "another folder" in message
    after = snapshot(tmp_path)
    assert after == before | ({"new": None} if called == "os.open" else {})


def test_a_stage_that_the_recipe_does_not_have_is_refused(mada, recipe, tmp_path, pretended, refused):
    mada("run", recipe, "team.rounds=1", "--run", tmp_path / "run", "--until", "generators")
    message = refused("critics", "--run", tmp_path / "run")
    assert message == "mada: this recipe has no stage 'critics'; choose from split, generators, evaluate, report\n"
    assert "no stage 'screen'" in refused("screen", recipe, "--run", tmp_path / "new")
    assert "no stage 'screen'" in refused("run", recipe, "--from", "screen", "--run", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_ctrl_c_ends_in_130_and_says_how_to_go_on(mada, recipe, tmp_path, pretended, monkeypatch, capsys):
    from mada.pipeline.running import FUNCTIONS

    async def interrupted(context):
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("mada.pipeline.running.FUNCTIONS", {**FUNCTIONS, "generators": interrupted})
        patch.setattr("sys.argv", ["mada", "run", str(recipe), "--run", str(folder)])
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 130
    assert capsys.readouterr().err == (
        f"\nmada: stopped in generators; what is finished is kept. To continue: mada run --run {folder}\n"
    )
    assert StoredRun.read(folder).manifest.sessions[-1].ended_by == "KeyboardInterrupt"
    mada("run", "--run", folder, "--until", "generators")
    assert pretended == ["split", "generators"]
