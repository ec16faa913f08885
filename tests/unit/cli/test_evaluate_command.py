"""`mada evaluate` and `mada ablate`, as a user types them, on the embedded model; and what mistakes end in."""

import json
import shutil
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file, save_file

from mada.errors import RunError
from mada.models.loading import EMBEDDED
from mada.report.reading import read_summary
from mada.runs import StoredRun

RECIPE = """
name = "tiny"
[model]
name = "mada-nano"
window = 384
[data]
train = "abacus-short"
subset_size = 4
validation_size = 2
decontaminate = []
[team]
generators = 2
critics = 2
[lora]
rank = 2
alpha = 4
[grading]
workers = 1
[training]
batch_size = 4
group_size = 4
learning_rate = 1e-3
max_new_tokens = 48
steps = 1
validate_every = 1
[prompts]
judge_header = "These are the recent opinions from other agents:"
judge_request = "Using each response as additional advice, can you give an updated answer to the question?"
[engine]
rows = 64
[inference]
max_new_tokens = 64
[evaluation]
benchmarks = ["abacus-easy"]
seeds = 2
problems = 2
"""
FILE = """
name = "rivals"
benchmarks = ["abacus-easy", "{problems}"]
seeds = 2
problems = 2
reference = "team"
[inference]
max_new_tokens = 64
[grading]
workers = 1
[agents.bare]
model = "mada-nano"
window = 384
[agents.trained]
model = "mada-nano"
window = 384
adapter = "{adapter}"
[[systems]]
kind = "single"
agents = ["bare"]
[[systems]]
kind = "vote"
agents = ["trained", "bare"]
samples = 3
[[systems]]
kind = "debate"
name = "team"
title = "Trained and bare"
agents = ["trained", "bare"]
critics = ["trained"]
[[systems]]
kind = "weighted-vote"
agents = ["bare"]
matched_to = "team"
[[systems]]
kind = "best-of-n"
agents = ["bare"]
samples = 2
critics = ["trained"]
"""
pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, in_this_process, mada):
    """A finished run of two generators and two critics."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.toml").write_text(RECIPE)
    mada("run", folder / "tiny.toml", "--run", folder / "run")
    problems = folder / "mine.jsonl"
    rows = [{"problem": f"Calculate {n} + {n}.", "answer": str(2 * n), "id": f"mine/{n}"} for n in (12, 34)]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return SimpleNamespace(recipe=folder / "tiny.toml", folder=folder / "run", problems=problems)


@pytest.fixture
def evaluation_file(finished, tmp_path):
    path = tmp_path / "rivals.toml"
    adapter = finished.folder / "adapters" / "generator-1"
    path.write_text(FILE.format(problems=finished.problems, adapter=adapter))
    return path


def records(folder, name):
    return [json.loads(line) for line in (folder / "records" / f"{name}.jsonl").read_text().splitlines()]


def test_an_evaluation_file(mada, evaluation_file, tmp_path, finished):
    # One step may leave the adapter blank, and a blank one counts as untrained.
    blank = finished.folder / "adapters" / "generator-1"
    adapter = shutil.copytree(blank, tmp_path / "generator-1")
    tensors = load_file(adapter / "adapter_model.safetensors")
    save_file({name: one + 0.001 for name, one in tensors.items()}, adapter / "adapter_model.safetensors")
    evaluation_file.write_text(evaluation_file.read_text().replace(str(blank), str(adapter)))
    printed = mada("evaluate", evaluation_file, "--out", tmp_path / "out")
    assert "Trained and bare" in printed
    assert f"report: {tmp_path / 'out' / 'report.html'}" in printed
    summary = read_summary(StoredRun.read(tmp_path / "out"))
    assert summary is not None
    assert [one.system.name for one in summary.systems] == ["single", "vote", "team", "weighted-vote", "best-of-n"]
    assert list(summary.benchmarks.items()) == [("abacus-easy", 2), (str(finished.problems), 2)]
    by_name = {one.system.name: one for one in summary.systems}
    assert [by_name[name].calls for name in ("single", "vote", "team", "best-of-n")] == [1, 3, 3, 3]
    assert by_name["team"].system.parameters == by_name["vote"].system.parameters == 33_920, "rank 2, counted once"
    assert by_name["single"].system.parameters == 0
    assert (tmp_path / "out" / "report.md").read_text().startswith("# rivals")


def test_the_same_command_again_samples_nothing_and_shows_the_same_table(mada, evaluation_file, tmp_path):
    first = mada("evaluate", evaluation_file, "--out", tmp_path / "out")
    before = (tmp_path / "out" / "records" / "samples.jsonl").read_bytes()
    again = mada("evaluate", evaluation_file, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "records" / "samples.jsonl").read_bytes() == before
    assert first.partition("system ")[2] == again.partition("system ")[2]
    assert "evaluate: done before" in again


def interrupted(folder):
    """Leave of a finished evaluation what a kill after the tenth score would have left."""
    for mark in (folder / "stages").iterdir():
        mark.unlink()
    scores = folder / "records" / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:10]))


@pytest.mark.parametrize("is_finished", [True, False])
def test_other_answers_in_a_second_session_are_refused(mada, evaluation_file, refused, tmp_path, finished, is_finished):
    problems = shutil.copy(finished.problems, tmp_path / "own.jsonl")
    evaluation_file.write_text(evaluation_file.read_text().replace(str(finished.problems), str(problems)))
    out = tmp_path / "out"
    mada("evaluate", evaluation_file, "--out", out)
    if not is_finished:
        interrupted(out)
    rows = [json.loads(line) for line in problems.read_text().splitlines()]
    problems.write_text("".join(json.dumps({**row, "answer": "-7"}) + "\n" for row in rows))
    before = (out / "records" / "scores.jsonl").read_bytes()
    message = refused("evaluate", evaluation_file, "--out", out)
    assert len(message.splitlines()) == 1
    assert f"{problems}/mine/12" in message
    assert (out / "records" / "scores.jsonl").read_bytes() == before
    (out / "evaluation.json").unlink()
    assert f"benchmark {problems}" in refused("evaluate", evaluation_file, "--out", out), "the manifest knows it too"


def test_another_adapter_or_other_weights_in_a_second_session_are_refused(mada, evaluation_file, tmp_path, finished):
    adapter = shutil.copytree(finished.folder / "adapters" / "generator-1", tmp_path / "adapter")
    model = shutil.copytree(EMBEDDED["mada-nano"], tmp_path / "model")
    text = evaluation_file.read_text().replace(str(finished.folder / "adapters" / "generator-1"), str(adapter))
    evaluation_file.write_text(text.replace('"mada-nano"', f'"{model}"'))
    out = tmp_path / "out"
    mada("evaluate", evaluation_file, "--out", out)
    interrupted(out)
    kept = (adapter / "adapter_model.safetensors").read_bytes()
    other = finished.folder / "adapters" / "critic-1" / "adapter_model.safetensors"
    shutil.copy(other, adapter / "adapter_model.safetensors")
    with pytest.raises(RunError, match="in: adapter of trained;"):
        mada("evaluate", evaluation_file, "--out", out)
    (adapter / "adapter_model.safetensors").write_bytes(kept)
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(RunError, match=f"in: weights of {model};"):
        mada("evaluate", evaluation_file, "--out", out)


def test_a_model_by_options(mada, tmp_path):
    printed = mada(
        *("evaluate", "--model", "mada-nano", "--benchmarks", "abacus-easy,abacus-hard", "--seeds", 2),
        *("--problems", 2, "--max-new-tokens", 64, "--window", 384, "--out", tmp_path / "out"),
    )
    for title in ("single agent", "vote at the debate's tokens", "debate 3+3, 2 rounds"):
        assert title in printed
    scores = records(tmp_path / "out", "scores")
    debate = [one for one in scores if one["system"] == "debate"]
    votes = [one for one in scores if one["system"] == "vote"]
    tokens = [sum(map(sum, one["tokens"])) for one in debate]
    spent = [sum(map(sum, one["tokens"])) for one in votes]
    # On average, and up to how long single samples happen to be.
    assert sum(spent) == pytest.approx(sum(tokens), rel=0.35)


def test_a_runs_team_on_another_benchmark_uses_the_samples_there_are(mada, finished, tmp_path):
    mada("evaluate", "--run", finished.folder, "--seeds", 3, "--out", tmp_path / "more")
    scores = records(tmp_path / "more", "scores")
    assert {one["seed"] for one in scores} == {0, 1, 2}
    own = [one for one in records(finished.folder, "scores") if one["system"] in ("single", "debate", "mada")]
    again = [one for one in scores if one["system"] in ("single", "debate", "mada") and one["seed"] < 2]
    assert sorted(own, key=str) == sorted(again, key=str), "the same seeds are the same samples"
    keys = {one["key"] for one in records(finished.folder, "samples")}
    assert not keys & {one["key"] for one in records(tmp_path / "more", "samples")}, "found, not sampled again"


def test_ablations_and_rivals_in_one_command(mada, finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished.folder, folder)
    printed = mada("ablate", "--run", folder, "--price", "3.60")
    summary = read_summary(StoredRun.read(folder / "ablations"))
    assert summary is not None
    assert [one.system.name for one in summary.systems] == [
        *("single", "debate", "vote", "weighted-vote", "judge", "untrained-vote", "generators"),
        *("trained-vote", "trained-weighted-vote", "trained-vote-at-cost", "best-of-n", "mada"),
        *("rounds-1", "rounds-3", "agents-1+1", "homogeneous", "no-counterfactual"),
    ]
    by_name = {one.system.name: one for one in summary.systems}
    assert "no counterfactual" in printed
    assert f"report: {folder / 'ablations' / 'report.html'}" in printed
    assert (folder / "ablations" / "report" / "tables" / "ablations.tex").is_file(), "the paper's Table 4"
    assert "completions asked for" in printed
    assert "in money" in printed
    assert by_name["rounds-1"].mean == by_name["generators"].mean
    assert len(by_name["agents-1+1"].system.members) == len(by_name["homogeneous"].system.members) == 4
    assert [by_name[name].calls for name in ("rounds-1", "rounds-3", "agents-1+1", "homogeneous")] == [2, 6, 2, 4]
    # The team's own samples were there.
    team = [one for one in records(folder, "scores") if one["system"] == "mada"]
    again = [one for one in records(folder / "ablations", "scores") if one["system"] == "mada"]
    assert sorted(team, key=str) == sorted(again, key=str)
    other = json.loads((folder / "no-counterfactual" / "manifest.json").read_text())["recipe"]
    assert other["critics"]["advantage"] == "grpo"
    updates = [
        [json.loads(line)["advantage"] for line in (place / "critics" / "metrics.jsonl").read_text().splitlines()]
        for place in (folder, folder / "no-counterfactual")
    ]
    assert updates[0] != updates[1], "the same examples, another advantage"
    generators = [folder / place / "adapters" / "generator-2" for place in (".", "no-counterfactual")]
    assert len({(one / "adapter_model.safetensors").read_bytes() for one in generators}) == 1


def test_some_ablations_are_the_team_and_what_was_asked_for(mada, finished, refused, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished.folder, folder)
    message = refused("ablate", "--run", folder, "--systems", "rounds-3,homogenous")
    assert "unknown system 'homogenous'; did you mean 'homogeneous'? (systems: single, debate," in message
    assert not (folder / "ablations").exists()
    mada("ablate", "--run", folder, "--systems", "rounds-3,homogeneous")
    summary = read_summary(StoredRun.read(folder / "ablations"))
    assert summary is not None
    assert [one.system.name for one in summary.systems] == ["mada", "rounds-3", "homogeneous"]
    assert len(summary.systems[2].system.members) == 4
    assert not (folder / "no-counterfactual").exists(), "critics that nobody asked for are not trained"
    mada("ablate", "--run", folder, "--systems", "rounds-3", "--out", tmp_path / "elsewhere")
    table = (tmp_path / "elsewhere" / "report" / "tables" / "ablations.md").read_text()
    assert "3 rounds" in table, "the paper's Table 4, in the report that was asked for"


def test_what_the_bare_model_said_elsewhere_is_used_again(mada, finished, tmp_path):
    bare = ("evaluate", "--model", "mada-nano", "--window", 384, "--max-new-tokens", 64, "--problems", 2, "--seeds", 1)
    easy, hard = tmp_path / "easy", tmp_path / "hard"
    mada(*bare, "--systems", "single", "--benchmarks", "abacus-easy", "--out", easy)
    mada(*bare, "--systems", "vote", "--samples", 2, "--benchmarks", "abacus-hard", "--out", hard)
    said = {one["key"] for folder in (easy, hard) for one in records(folder, "samples")}
    assert len(said) == 2 + 4

    def sampled(*words, name):
        mada(*words, "--benchmarks", "abacus-easy,abacus-hard", "--seeds", 1, "--out", tmp_path / name)
        return {one["key"] for one in records(tmp_path / name, "samples")}, records(tmp_path / name, "scores")

    team = ("ablate", "--run", finished.folder, "--systems", "untrained-vote,single")
    alone, scores = sampled(*team, name="alone")
    reused, same = sampled(*team, "--reuse", easy, "--reuse", hard, name="reused")
    own = {one["key"] for one in records(finished.folder, "samples")}
    assert reused == alone - said
    assert alone & said == {one["key"] for one in records(hard, "samples")}, "the run itself has the other two"
    assert said - alone <= own
    assert sorted(scores, key=str) == sorted(same, key=str)
    other, _ = sampled("evaluate", "--run", finished.folder, "--reuse", hard, name="team")
    assert not other & {one["key"] for one in records(hard, "samples")}
    mada(*bare, "--systems", "single", "--benchmarks", "abacus-easy", "--reuse", easy, "--out", tmp_path / "again")
    assert records(tmp_path / "again", "samples") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "got nothing to evaluate; give an evaluation file, --run with the folder of a run, or --model"),
        (("--model", "mada-nano", "--run", "x"), "got --run and --model; leave one of them out"),
        (("--generators", "3", "--run", "x"), "got --generators, which goes with --model"),
        (("--model", "mada-nano", "--systems", "votes"), "--systems: unknown system 'votes'; choose from single, vote"),
        (("--model", "mada-nano", "--benchmarks", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--model", "./nowhere", "--benchmarks", "abacus-easy"), "./nowhere: no such folder or file"),
        (("--run", "nowhere"), "nowhere does not exist; give the folder of a run"),
        (("--model", "mada-nano", "--benchmarks", "abacus-easy", "--reuse", "nowhere"), "nowhere does not exist"),
        (("--run", "x", "--reuse", "x"), "got --reuse and the evaluation of a recipe itself; leave one of them out"),
        (("nowhere.toml",), "nowhere.toml: no such file"),
        (("--model", "mada-nano", "--benchmarks", ","), "benchmarks"),
    ],
)
def test_mistakes(words, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert message in refused("evaluate", *words)
    assert not (tmp_path / "runs").exists(), "a mistake leaves nothing that the right command would stumble over"


def test_mistakes_beside_a_file(evaluation_file, refused, tmp_path):
    assert "goes with a recipe, or --run and --model" in refused("evaluate", evaluation_file, "--seeds", 3)
    assert "write it into the file" in refused("evaluate", evaluation_file, "seeds=3")
    evaluation_file.write_text(evaluation_file.read_text().replace('critics = ["trained"]', 'critics = ["traind"]'))
    message = refused("evaluate", evaluation_file, "--out", tmp_path / "out")
    assert f"{evaluation_file}: system 'team': unknown agent 'traind'; did you mean 'trained'?" in message
    assert not (tmp_path / "out").exists()


def test_a_missing_adapter(evaluation_file, finished, refused, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text = evaluation_file.read_text()
    evaluation_file.write_text(text.replace("generator-1", "generator-9"))
    message = refused("evaluate", evaluation_file, "--out", tmp_path / "out")
    assert (
        f"{finished.folder} has no generator-9; its agents are generator-1, generator-2, critic-1, critic-2" in message
    )
    evaluation_file.write_text(text.replace(str(finished.folder), "owner"))
    assert "owner: no such run" in refused("evaluate", evaluation_file, "--out", tmp_path / "out")
    evaluation_file.write_text(text.replace(str(finished.folder / "adapters" / "generator-1"), "owner/generator-1"))
    assert "owner/generator-1: no such folder" in refused("evaluate", evaluation_file, "--out", tmp_path / "out")


def test_an_evaluation_is_no_team(mada, evaluation_file, refused, tmp_path):
    mada("evaluate", evaluation_file, "--out", tmp_path / "out")
    for command in ("evaluate", "ablate"):
        assert "holds an evaluation and no team" in refused(command, "--run", tmp_path / "out")


def test_what_cannot_be_ablated(finished, refused, tmp_path):
    assert "does not exist" in refused("ablate", "--run", tmp_path / "nowhere")
    half = tmp_path / "half"
    shutil.copytree(finished.folder, half)
    (half / "stages" / "critics.json").unlink()
    assert "has not finished its training (critics is missing)" in refused("ablate", "--run", half)
    assert not (half / "ablations").exists()


def test_a_team_that_is_not_trained_yet(finished, refused, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(finished.folder, half)
    shutil.rmtree(half / "adapters" / "critic-1")
    message = refused("evaluate", "--run", half, "--seeds", 3, "--out", tmp_path / "out")
    assert f"has no adapter for critic-1 yet; `mada run --run {half}` goes on with its training" in message
    assert not (tmp_path / "out").exists()
