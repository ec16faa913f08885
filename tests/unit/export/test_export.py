"""What an export holds, that others can use it as it is, and that it never replaces anything but itself."""

import contextlib
import io
import itertools
import json
import os
import re
import subprocess

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from factories import trained_run
from mada.agents import recipe_of, stack_of
from mada.errors import RunError
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Score
from mada.evaluation.summary import summarize
from mada.export import export_run
from mada.export.card import hub_data_sets
from mada.export.folder import serve_script
from mada.models.loading import EMBEDDED, load_base, load_tokenizer
from mada.recipe import load_recipe
from mada.recipe.schema import ModelSection
from mada.report.forms.markdown import table_markdown
from mada.report.reading import Source
from mada.report.sections.results import headline_tables
from mada.runs import Run, StoredRun
from mada.team import Team
from scores import score_of

AGENTS = ("generator-1", "generator-2", "critic-1")
QUESTION = "What is 12 + 30 - 5?"
HOSTILE = "```\n# Results\n---\nlicense: mit\n---\n<script>alert(1)</script> {question}"


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch):
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    return StoredRun.read(trained_run(folder, inference={"max_new_tokens": 60, "temperature": 0.0}))


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return export_run(run, tmp_path_factory.mktemp("exports") / "tiny-export")


@pytest.fixture
def evaluated(tmp_path):
    """A run with scores of two seeds, in which the team is right in three of four cases and one agent in one."""
    with Run.open(trained_run(tmp_path / "evaluated"), recipe_in(tmp_path / "evaluated")) as run:
        plan = EvaluationPlan(
            systems=(
                PlannedSystem(name="single", title="single agent", generators=("base",), parameters=0),
                PlannedSystem(name="mada", title="MADA debate", generators=AGENTS[:2], critics=AGENTS[2:], rounds=2),
            ),
            reference="mada",
            benchmarks=("abacus-easy", "math-500"),
        )
        run.write_text(PLAN_FILE, plan.to_json())
        places = [(benchmark, seed) for benchmark in plan.benchmarks for seed in (0, 1)]
        for index, (benchmark, seed) in enumerate(places):
            right = int(index != 3)
            for system, rounds in (("single", [[index == 0]]), ("mada", [[0, 1], [right]])):
                run.records("scores", Score).append(score_of(system, rounds, benchmark=benchmark, seed=seed))
    return StoredRun.read(tmp_path / "evaluated")


def recipe_in(folder):
    return recipe_of(StoredRun.read(folder))


def card(folder):
    """The front matter of a card as the Hub reads it, and the rest."""
    _, metadata, body = re.split(r"^---$", (folder / "README.md").read_text("utf-8"), maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(metadata), body


def without_code(text):
    """A card as it is rendered outside of blocks of code, whatever their fences."""
    return re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)


def test_adapters_are_the_runs_and_nothing_of_this_machine_is_in_it(run, exported):
    for agent in AGENTS:
        for folder in (run.folder, exported.folder):
            assert {path.name for path in (folder / "adapters" / agent).iterdir()} == {
                "adapter_config.json",
                "adapter_model.safetensors",
            }
        ours, theirs = (
            folder / "adapters" / agent / "adapter_model.safetensors" for folder in (exported.folder, run.folder)
        )
        assert ours.read_bytes() == theirs.read_bytes()
        config = json.loads((exported.folder / "adapters" / agent / "adapter_config.json").read_bytes())
        assert config["base_model_name_or_path"] == "base"
    text = "".join(
        path.read_text("utf-8", errors="replace")
        for path in exported.folder.rglob("*")
        if path.suffix in (".json", ".md", ".sh", ".toml")
    )
    assert "site-packages" not in text
    assert str(EMBEDDED["mada-nano"]) not in text
    assert {(one.host, one.pid) for one in StoredRun.read(exported.folder).manifest.sessions} == {("", 0)}
    assert load_recipe(exported.folder / "recipe.toml") == recipe_in(run.folder)


def test_peft_on_the_exported_base_computes_what_the_run_computes(run, exported):
    from peft import PeftModel

    prompt = f"<|user|>{QUESTION}<|end|><|assistant|>"
    ids = load_tokenizer("mada-nano").encode(prompt, add_special_tokens=False)
    tokenizer = AutoTokenizer.from_pretrained(exported.folder / "tokenizer")
    chat = [{"role": "user", "content": QUESTION}]
    assert tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) == prompt
    assert tokenizer.encode(prompt, add_special_tokens=False) == ids
    stack = stack_of(load_base("mada-nano", device="cpu"), {one: run.path("adapters", one) for one in AGENTS})
    model = AutoModelForCausalLM.from_pretrained(exported.folder / "base", dtype=torch.float32)
    folders = {one: str(exported.folder / "adapters" / one) for one in AGENTS}
    model = PeftModel.from_pretrained(model, folders[AGENTS[0]], adapter_name=AGENTS[0])
    for agent in AGENTS[1:]:
        model.load_adapter(folders[agent], adapter_name=agent)
    found = []
    for agent in AGENTS:
        model.set_adapter(agent)
        with torch.no_grad(), stack.routed([agent]):
            theirs, ours = model(torch.tensor([ids])).logits, stack.model(torch.tensor([ids])).logits
        torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=1e-4)
        found.append(ours)
    assert not torch.allclose(found[0], found[1], atol=1e-2)


def test_the_python_of_the_card_runs_as_it_is_and_says_what_the_first_generator_says(run, exported, monkeypatch):
    [python] = re.findall(r"^```python\n(.*?)^```$", card(exported.folder)[1], re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(exported.folder)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(python, "README.md", "exec"), {})
    with Team.load(run.folder, rounds=1, device="cpu") as team:
        said = team.debate_sync(QUESTION).rounds[0].turns[0].response.text
    assert printed.getvalue().strip() == said


def test_mada_takes_the_folder_wherever_it_takes_a_run_but_does_not_go_on_with_it(run, exported, mada_command):
    replies = []
    for folder in (run.folder, exported.folder):
        with Team.load(folder, device="cpu") as team:
            debate = team.debate_sync("Calculate 64 + 57 - 38.")
        replies.append([turn.response.text for one in debate.rounds for turn in one.turns])
    assert replies[0] == replies[1]
    with pytest.raises(RunError, match="export"):
        Run.open(exported.folder, recipe_in(run.folder))
    with pytest.raises(RunError, match="export already"):
        export_run(StoredRun.read(exported.folder), exported.folder.parent / "again")
    assert "an export" in mada_command("runs", exported.folder.parent)


def test_the_script_gives_vllm_what_it_needs(exported, tmp_path):
    script = exported.folder / "serve.sh"
    subprocess.run(["bash", "-n", script], check=True)
    (tmp_path / "vllm").write_text('#!/bin/sh\npwd; printf "%s\\n" "$@"\n')
    (tmp_path / "vllm").chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [script, "--port", "9000"], env=path, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    where, *words = done.stdout.splitlines()
    assert where == str(exported.folder)
    assert words == [
        *("serve", "base", "--served-model-name", "mada-nano", "--tokenizer", "tokenizer", "--max-model-len", "512"),
        *("--generation-config", "vllm", "--enable-lora", "--max-loras", "4", "--max-lora-rank", "8"),
        *("--lora-modules", *(f"{agent}=adapters/{agent}" for agent in AGENTS), "--port", "9000"),
    ]


def test_the_script_quotes_names_and_says_revision_and_number_format():
    model = ModelSection(name="/models/it's; $(rm x)", dtype="bfloat16", revision="v1")
    script = serve_script(model, ("generator-1",), base=model.name, revision="v1", rank=17)
    words = subprocess.run(
        ["bash", "-c", script.replace("exec vllm", "printf '%s\\n'").replace("cd --", "true")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert words[:2] == ["serve", model.name]
    assert {"--revision v1", "--dtype bfloat16", "--max-lora-rank 32"} <= {
        f"{a} {b}" for a, b in itertools.pairwise(words)
    }
    assert "--max-model-len" not in words


def test_a_card_without_an_evaluation_has_no_number_about_it(exported):
    metadata, body = card(exported.folder)
    assert not exported.evaluated
    assert metadata["library_name"] == "peft"
    # The Hub refuses a base that it does not have, and mada knows no license.
    assert not {"model-index", "model_name", "base_model", "license", "datasets"} & metadata.keys()
    assert "has not begun: how often it is right is not known" in body
    assert "Measured on" not in body
    assert "% of its verdicts" not in body


def test_a_card_has_the_tables_of_the_report_and_the_measured_accuracy_for_the_hub(evaluated, tmp_path):
    done = export_run(evaluated, tmp_path / "out", license_name="apache-2.0")
    metadata, body = card(done.folder)
    grid = Source.of(evaluated).grid
    assert grid is not None
    assert done.evaluated
    assert table_markdown(headline_tables(summarize(grid))[0]) in body
    for title in ("Votes, from the first", "Critics, from the vote", "Costs per question", "Power:"):
        assert title in body
    assert metadata["license"] == "apache-2.0"
    [model] = metadata["model-index"]
    values = {one["dataset"]["type"]: one["metrics"][0]["value"] for one in model["results"]}
    assert values == {"abacus-easy": 100.0, "HuggingFaceH4/MATH-500": 50.0}


def test_prompts_are_verbatim_and_hostile_text_stays_text(tmp_path):
    name, critics = "a: [b] # <script>", {"reasoning": HOSTILE, "debate_header": "````"}
    data = {"train": 'hub:owner/name{split = "<img src=x>|"}'}
    folder = trained_run(tmp_path / "run", name=name, prompts=critics, data=data)
    metadata, body = card(export_run(StoredRun.read(folder), tmp_path / "out").folder)
    assert metadata["datasets"] == ["owner/name"]
    assert "license" not in metadata
    assert HOSTILE in body
    assert "# a: \\[b\\] \\# \\<script\\>" in body
    outside = without_code(body)
    assert "<script>" not in outside.replace("\\<script\\>", "")
    assert "alert(1)" not in outside
    assert [line for line in outside.splitlines() if line.startswith("## ")] == [
        f"## {title}"
        for title in (
            *("Results", "Use", "Prompts and sampling", "Training", "Intended use and limits", "How it was run"),
            "Files",
        )
    ]


def test_without_critics_yet_there_are_the_generators_and_the_card_says_so(tmp_path):
    run = StoredRun.read(trained_run(tmp_path / "half", critics_too=False))
    done = export_run(run, tmp_path / "out")
    assert (done.agents, done.missing) == (AGENTS[:2], AGENTS[2:])
    assert not (done.folder / "adapters" / "critic-1").exists()
    assert "critic-1=" not in (done.folder / "serve.sh").read_text()
    _, body = card(done.folder)
    assert "**The critics are missing**: critic-1" in body
    assert "mada debate --run . --rounds 1" in body
    with Team.load(done.folder, rounds=1, device="cpu") as team:
        assert len(team.debate_sync(QUESTION).rounds) == 1


def test_a_run_without_trained_generators_says_which_stage_is_missing(tmp_path):
    folder = trained_run(tmp_path / "run")
    (folder / "stages" / "generators.json").unlink()
    with pytest.raises(RunError, match="stage generators has not finished"):
        export_run(StoredRun.read(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damage_is_found_on_the_way_out_and_in_the_export(tmp_path):
    folder = trained_run(tmp_path / "run")
    run = StoredRun.read(folder)
    done = export_run(run, tmp_path / "out")
    for damaged in (done.folder, folder):
        path = damaged / "adapters" / "critic-1" / "adapter_model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match="damaged"):
        Team.load(done.folder, device="cpu")
    with pytest.raises(RunError, match="damaged"):
        export_run(run, tmp_path / "second")


def test_only_an_untouched_export_of_the_same_run_is_replaced(run, tmp_path):
    out = tmp_path / "out"
    first = export_run(run, out)
    export_run(run, out, license_name="mit")
    assert card(first.folder)[0]["license"] == "mit"
    (out / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"notes\.txt"):
        export_run(run, out)
    (out / "notes.txt").unlink()
    with pytest.raises(RunError, match="another run"):
        export_run(StoredRun.read(trained_run(tmp_path / "other")), out)
    (out / "README.md").write_text("better words")
    with pytest.raises(RunError, match=r"README\.md was changed"):
        export_run(run, out)
    assert (out / "README.md").read_text() == "better words"
    for folder in (run.folder, tmp_path):
        with pytest.raises(RunError, match="not an earlier export"):
            export_run(run, folder)


def test_an_export_that_fails_leaves_the_earlier_one(run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    export_run(run, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr("mada.export.folder._make_readable", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        export_run(run, out, license_name="mit")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert list(tmp_path.iterdir()) == [out]


def test_the_server_of_the_run_is_not_passed_on(tmp_path):
    folder = trained_run(tmp_path / "run", engine={"kind": "openai", "url": "http://gpu7.internal:8000/v1"})
    done = export_run(StoredRun.read(folder), tmp_path / "out")
    for path in done.folder.rglob("*"):
        assert path.is_dir() or b"gpu7" not in path.read_bytes()


def test_a_base_of_the_hub_is_pinned_to_the_commit_that_was_trained_on(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    own = load_tokenizer("mada-nano")
    monkeypatch.setattr("mada.export.folder.load_tokenizer", lambda name, *, revision: own)
    name = "owner/model-1b"
    folder = trained_run(tmp_path / "run", model={"name": name, "window": 512})
    with Run.open(folder, recipe_in(folder)) as run:
        run.check_inputs("generators", {f"weights of {name}": f"{name}@{commit}"})
    done = export_run(StoredRun.read(folder), tmp_path / "out")
    assert f"--revision {commit}" in (done.folder / "serve.sh").read_text()
    metadata, body = card(done.folder)
    assert metadata["base_model"] == name
    assert f"from_pretrained('{name}', revision='{commit}')" in body
    assert not (done.folder / "base").exists()


def test_names_of_data_sets_on_the_hub():
    assert [*hub_data_sets('math-train + hub:a/b{split = "x"} + mine.jsonl + abacus-short')] == [
        "hiyouga/math12k",
        "a/b",
    ]


@pytest.fixture
def mada_command(monkeypatch):
    """Run a command that works, and return what it printed."""
    from typer.testing import CliRunner

    from mada.cli import app

    monkeypatch.setattr("mada.cli.export.silence_libraries", lambda: None)

    def do(*words):
        done = CliRunner(env={"COLUMNS": "220", "TERM": "dumb"}).invoke(app, [*map(str, words)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return do


def test_a_served_run_keeps_debates_in_its_folder_and_a_served_export_does_not(
    run, exported, monkeypatch, mada_command
):
    stores = []

    async def serve_teams(specs, listening, *, store, **_):
        stores.append(store)

    monkeypatch.setattr("mada.serve.server.serve_teams", serve_teams)
    monkeypatch.setattr("mada.cli.serve.silence_libraries", lambda: None)
    monkeypatch.setattr("mada.cli.serve._log_to_stderr", lambda formatter: None)
    for folder in (run.folder, exported.folder):
        mada_command("serve", folder, "--port", "0")
    assert stores == [run.folder / "served" / "debates.sqlite", None]


def test_the_command_writes_beside_where_it_is_called_and_says_what_to_do_next(
    run, tmp_path, monkeypatch, mada_command
):
    monkeypatch.chdir(tmp_path)
    said = mada_command("export", run.folder)
    assert "tiny-export: 3 adapters on mada-nano" in said
    assert "mada debate --run tiny-export" in said
    assert (tmp_path / "tiny-export" / "serve.sh").stat().st_mode & 0o111
    assert "license" not in mada_command("export", run.folder, "--license", "mit", "--out", "elsewhere/here")
    assert card(tmp_path / "elsewhere" / "here")[0]["license"] == "mit"
