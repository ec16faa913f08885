"""From an evaluation file to evaluations: plan, agents, parameters and titles. No model is loaded here."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mada.agents import AgentSpec, DebateSettings, find_adapters
from mada.debate.prompts import Prompts
from mada.errors import AdapterError, MadaError
from mada.evaluation.systems import best_of_n, debate_system, llm_judge, majority_vote, single_agents
from mada.pipeline.evaluations import evaluation_of_file, models_of
from mada.problems import BENCHMARKS
from mada.recipe import Recipe
from mada.recipe.evaluation_file import EvaluationRecipe, evaluation_of, load_evaluation
from mada.recipe.schema import ModelSection
from mada.runs import Run

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("mada.agents.load_base", refuse)
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)


def adapter(folder: Path, numbers: int) -> str:
    """An adapter file with so many numbers; nothing else of it is looked at here."""
    folder.mkdir(parents=True)
    save_file({"a": torch.zeros(numbers - 2), "b": torch.zeros(1, 2)}, folder / "adapter_model.safetensors")
    return str(folder)


def recipe(systems, *, agents=None, **others) -> EvaluationRecipe:
    values = {"benchmarks": ["abacus-easy", "abacus-hard"], "agents": agents or AGENTS, "systems": systems, **others}
    return evaluation_of(values, where="here")


AGENTS = {
    "base": {"model": "some/model", "revision": "v2", "dtype": "float32", "window": 512},
    "other": {"model": "other/model"},
}
KINDS = [
    {"kind": "single", "agents": ["base"]},
    {"kind": "single", "agents": ["base", "other"], "name": "mean"},
    {"kind": "vote", "agents": ["base"], "samples": 6},
    {"kind": "vote", "agents": ["base", "other"], "name": "matched", "matched_to": "debate"},
    {"kind": "weighted-vote", "agents": ["base", "base"]},
    {"kind": "vote", "agents": ["base"], "name": "costly", "matched_to": "debate", "match": "cost"},
    {"kind": "judge", "agents": ["base"], "samples": 3, "judge": "other", "title": "The judge"},
    {"kind": "judge", "agents": ["base"], "judge": "base", "name": "matched judge", "matched_to": "debate"},
    {"kind": "best-of-n", "agents": ["base"], "samples": 4, "critics": ["other", "base"]},
    {"kind": "debate", "agents": ["base", "other"], "critics": ["other"], "rounds": 3},
]


def test_every_kind_becomes_the_system_of_that_kind():
    evaluation = evaluation_of_file(recipe(KINDS))
    plain = [system.model_copy(update={"parameters": None}) for system in evaluation.plan.systems]
    assert plain == [
        single_agents("single", "single: base", ["base"]),
        single_agents("mean", "mean of 2: base, other", ["base", "other"]),
        majority_vote("vote", "vote of 6: base", ["base"], samples=6),
        majority_vote("matched", "vote at debate's tokens: base, other", ["base", "other"], matched_to="debate"),
        majority_vote("weighted-vote", "weighted vote of 2: base", ["base", "base"], weighted=True),
        majority_vote("costly", "vote at debate's cost: base", ["base"], matched_to="debate", match="cost"),
        llm_judge("judge", "The judge", ["base"], judge="other as judge", samples=3),
        llm_judge("matched judge", plain[7].title, ["base"], judge="base as judge", matched_to="debate"),
        best_of_n("best-of-n", "best of 4: base, other", ["base"], critics=["other", "base"], samples=4),
        debate_system("debate", "debate 2+1, 3 rounds: base, other", ["base", "other"], critics=["other"], rounds=3),
    ]
    assert plain[7].title.startswith("judge at debate's tokens: ")


def test_the_agents_are_every_agent_and_judges_by_their_own_name():
    base = ModelSection(name="some/model", revision="v2", dtype="float32", window=512)
    other = ModelSection(name="other/model")
    assert evaluation_of_file(recipe(KINDS)).agents == {
        "base": AgentSpec(base),
        "other": AgentSpec(other),
        "base as judge": AgentSpec(base, is_judge=True),
        "other as judge": AgentSpec(other, is_judge=True),
    }
    assert set(evaluation_of_file(recipe(KINDS[:3])).agents) == {"base", "other"}


def test_everything_else_of_the_file_arrives(tmp_path):
    evaluation = evaluation_of_file(
        recipe(
            KINDS,
            seeds=4,
            prompt_price=0.3,
            problems=7,
            folder=str(tmp_path),
            inference={"temperature": 0.5, "top_p": 0.75, "top_k": 3, "max_new_tokens": 99},
            prompts={"judge_header": "H", "share": "answer"},
            engine={"rows": 6},
            grading={"workers": 2},
        )
    )
    assert (evaluation.seeds, evaluation.problems, evaluation.folder) == (4, 7, tmp_path)
    assert evaluation.plan.prompt_price == 0.3
    assert evaluation.settings == DebateSettings(
        prompts=Prompts(judge_header="H", share="answer"), temperature=0.5, top_p=0.75, top_k=3, max_new_tokens=99
    )
    assert (evaluation.engine.rows, evaluation.grading.workers) == (6, 2)
    questions = evaluation_of_file(recipe(KINDS, problems=3)).questions
    assert {name: len(problems) for name, problems in questions.items()} == {"abacus-easy": 3, "abacus-hard": 3}


def test_parameters_are_those_of_the_agents_each_once(tmp_path):
    agents = {
        "base": {"model": "m"},
        "first": {"model": "m", "adapter": adapter(tmp_path / "first", 10)},
        "second": {"model": "m", "adapter": adapter(tmp_path / "second", 100)},
        "tuned": {"model": "t", "parameters": 5000},
        "again": {"model": "m", "window": 64, "adapter": str(tmp_path / "first")},
        # What the file says is believed, also where there is an adapter.
        "merged": {"model": "m", "adapter": adapter(tmp_path / "merged", 20), "parameters": 7},
    }
    systems = [
        {"kind": "single", "name": "bare", "agents": ["base"]},
        {"kind": "vote", "agents": ["first"], "samples": 6},
        {"kind": "debate", "agents": ["first", "first"], "critics": ["first", "second", "base"]},
        {"kind": "debate", "name": "alone", "agents": ["first"], "critics": ["second"], "rounds": 1},
        {"kind": "single", "agents": ["tuned", "merged"]},
        {"kind": "judge", "agents": ["base"], "samples": 2, "judge": "second"},
        {"kind": "vote", "name": "matched", "agents": ["first", "second"], "matched_to": "vote"},
        {"kind": "single", "name": "both", "agents": ["first", "second", "again"]},
        {"kind": "judge", "name": "own judge", "agents": ["first"], "samples": 2, "judge": "first"},
        {"kind": "judge", "name": "tuned judge", "agents": ["base"], "samples": 2, "judge": "tuned"},
    ]
    plan = evaluation_of_file(recipe(systems, agents=agents)).plan
    assert {system.name: system.parameters for system in plan.systems} == {
        "bare": 0,
        "vote": 10,
        "debate": 110,
        "alone": 10,
        "single": 5007,
        "judge": 100,
        "matched": 110,
        "both": 110,
        "own judge": 10,
        "tuned judge": 5000,
    }


def test_the_papers_public_baselines(tmp_path, monkeypatch):
    fetched = []

    def fetch(name, *, allow_patterns):
        fetched.append((name, allow_patterns))
        adapter(tmp_path / "checkpoint-2000", 36_929_536)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    evaluation = evaluation_of_file(load_evaluation(REPOSITORY / "recipes" / "baselines" / "public-models.toml"))
    assert fetched == [("Tina-Yi/R1-Distill-Qwen-1.5B-STILL", ["checkpoint-2000/adapter_*"])]
    by_name = {system.name: system for system in evaluation.plan.systems}
    assert len(by_name) == 15
    assert {name: system.parameters for name, system in by_name.items() if system.is_debate} == {
        "deepseek-r1": 0,
        **dict.fromkeys(("still-3", "deepscaler", "open-rs1", "open-rs2", "open-rs3"), 1_777_088_000),
        "tina": 36_929_536,
    }
    # One model is every agent, as in the paper; the adapter is on the base, so six models are loaded in all.
    assert all(len(system.agents) == 1 and len(system.generators) == 3 for system in by_name.values() if system.critics)
    assert len(models_of(evaluation.agents, tuple(evaluation.agents))) == 6
    assert (evaluation.seeds, evaluation.plan.benchmarks) == (10, BENCHMARKS)


def test_a_run_that_has_not_trained_its_adapter_is_told_from_one_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Run.open(tmp_path / "runs" / "half", Recipe()):
        pass
    adapter(tmp_path / "runs" / "half" / "adapters" / "generator-1", 10)
    (tmp_path / "runs" / "half" / "adapters" / "generator-1" / "adapter_config.json").touch()
    for name, message in {
        "half/adapters/critic-1": "runs/half has no adapter for critic-1 yet",
        "none/adapters/generator-1": "runs/none: no such run",
    }.items():
        agents = {"a": {"model": "m", "adapter": f"runs/{name}"}}
        with pytest.raises(MadaError, match=message):
            evaluation_of_file(recipe([{"kind": "single", "agents": ["a"]}], agents=agents))


def test_an_adapter_that_is_nowhere(monkeypatch):
    def fetch(name, **_):
        raise OSError("no network here. Try later.")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    with pytest.raises(AdapterError, match=r"owner/name: no such folder.* the Hub does not give it \(no network"):
        find_adapters(["owner/name"])
