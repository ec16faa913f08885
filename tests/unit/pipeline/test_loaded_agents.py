"""Which models and adapters are loaded for the agents of an evaluation, and in which order."""

import asyncio
import shutil

import pytest

from mada.agents import AgentSpec, DebateSettings, adapter_folders
from mada.errors import EngineError, RunError
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.sample_cache import Sample, SampleStore
from mada.evaluation.scores import SCORES, Score
from mada.events import Events
from mada.models.loading import EMBEDDED
from mada.pipeline.evaluate import load_agents, run_evaluation
from mada.pipeline.evaluations import evaluation_of_file
from mada.recipe.evaluation_file import evaluation_of
from mada.recipe.schema import EngineSection, ModelSection
from mada.runs import Records, Run, StoredRun

NANO, SHORT = ModelSection(name="mada-nano"), ModelSection(name="mada-nano", window=64)


@pytest.fixture
def store(tmp_path):
    with Records(tmp_path / "samples.jsonl", Sample) as records:
        yield SampleStore(records)


def with_agents(specs, store, look):
    async def take():
        options = {"settings": DebateSettings(), "engine": EngineSection(), "store": store, "log": lambda text: None}
        async with load_agents(specs, **options) as agents:
            return await look(agents)

    return asyncio.run(take())


def test_agents_on_one_model_share_it_and_a_judge_is_asked_in_its_own_way(scripted, store, adapter_files):
    engines = scripted(lambda agent, prompt, seed: f"{agent} {'Judge the solutions' in prompt}")
    specs = {
        "base": AgentSpec(NANO),
        "judge": AgentSpec(NANO, is_judge=True),
        "trained": AgentSpec(NANO, adapter_files["first"]),
        "other": AgentSpec(NANO, adapter_files["second"]),
    }

    async def look(loaded):
        first = await loaded.agents["base"].answer("What is 2 + 2?", (), seed=1)
        turns = [await loaded.agents[name].answer("What is 2 + 2?", [first.response], seed=1) for name in specs]
        return [(turn.agent, turn.response.text) for turn in turns]

    said = with_agents(specs, store, look)
    assert said == [
        ("base", "None False"),
        ("judge", "None True"),
        ("trained", "first False"),
        ("other", "second False"),
    ]
    assert [engine.alone for engine in engines] == [True]


def test_the_same_adapter_elsewhere_is_the_same_speaker(scripted, store, adapter_files, tmp_path):
    engines = scripted(lambda agent, prompt, seed: "4")
    copy = shutil.copytree(adapter_files["first"], tmp_path / "copy")

    async def ask(loaded):
        await loaded.agents["agent"].answer("What is 2 + 2?", (), seed=1)

    for folder in (adapter_files["first"], copy, adapter_files["second"]):
        with_agents({"agent": AgentSpec(NANO, folder)}, store, ask)
    assert [len(engine.requests) for engine in engines] == [1, 0, 1]


def test_weights_that_were_overwritten_are_another_speaker(scripted, store, tmp_path):
    engines = scripted(lambda agent, prompt, seed: "4")
    folder = shutil.copytree(EMBEDDED["mada-nano"], tmp_path / "model")
    weights = folder / "model.safetensors"
    model = ModelSection(name=str(folder))

    async def ask(loaded):
        await loaded.agents["agent"].answer("What is 2 + 2?", (), seed=1)
        return loaded.inputs

    first = with_agents({"agent": AgentSpec(model)}, store, ask)
    assert with_agents({"agent": AgentSpec(model)}, store, ask) == first
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1
    weights.write_bytes(content)
    other = with_agents({"agent": AgentSpec(model)}, store, ask)
    assert other.keys() == first.keys() == {f"weights of {folder}"}
    assert other != first
    assert [len(engine.requests) for engine in engines] == [1, 0, 1]


def test_a_damaged_adapter_of_a_run_is_named(scripted, store, tiny, opened, with_adapters):
    scripted(lambda agent, prompt, seed: "4")
    context = opened(tiny())
    with context.run.stage("generators") as stage:
        with_adapters(context)
        stage.add_results(context.run.folder.glob("adapters/*/*"))
    weights = context.adapter("generator-1") / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1
    weights.write_bytes(content)

    async def look(loaded):
        pass

    with pytest.raises(RunError, match=r"generator-1.*is damaged"):
        with_agents({"agent": AgentSpec(NANO, context.adapter("generator-1"))}, store, look)
    with pytest.raises(RunError, match=r"generator-1.*is damaged"):
        adapter_folders(context.run, ["generator-2", "generator-1"])


def test_matched_systems_wait_until_the_length_of_their_samples_is_known(scripted, tmp_path):
    """The vote's agent also answers beside the second model, so its length is known only after that."""
    engines = scripted(lambda agent, prompt, seed: "4" * (seed % 7) + r" \boxed{4}")
    recipe = evaluation_of(
        {
            "benchmarks": ["abacus-easy"],
            "problems": 2,
            "seeds": 1,
            "grading": {"workers": 1},
            "agents": {
                "a": {"model": "mada-nano", "window": 512},
                "b": {"model": "mada-nano", "window": 512},
                "c": {"model": "mada-nano", "window": 384},
            },
            "systems": [
                {"kind": "debate", "agents": ["a"], "critics": ["a"]},
                {"kind": "vote", "agents": ["b"], "matched_to": "debate"},
                {"kind": "single", "agents": ["b", "c"]},
            ],
        },
        where="here",
    )
    with Run.open(tmp_path / "run", recipe) as run:
        done = asyncio.run(run_evaluation(run, evaluation_of_file(recipe), events=Events()))
    assert (done.systems, done.questions) == (3, 2)
    assert len(engines) == 1 + 2 + 1, "the debate's model, both for the single, and the vote's again"


def test_the_price_of_a_prompt_token_is_measured_once_and_recorded(scripted, tmp_path, monkeypatch):
    scripted(lambda agent, prompt, seed: "4" * (seed % 7) + r" \boxed{4}")
    recipe = evaluation_of(
        {
            "benchmarks": ["abacus-easy"],
            "problems": 2,
            "seeds": 1,
            "grading": {"workers": 1},
            "agents": {"a": {"model": "mada-nano", "window": 512}, "b": {"model": "mada-nano", "window": 384}},
            "systems": [
                {"kind": "single", "agents": ["b"]},
                {"kind": "debate", "agents": ["a"], "critics": ["a"]},
                {"kind": "vote", "agents": ["a"], "matched_to": "debate", "match": "cost"},
            ],
        },
        where="here",
    )
    measured = []

    async def measure(engine, agent, *, prompt_ids, clock):
        measured.append(len(prompt_ids))
        return 0.25

    monkeypatch.setattr("mada.pipeline.evaluate.measure_prompt_price", measure)

    def hold(name, *, earlier=()):
        with Run.open(tmp_path / name, recipe) as run:
            asyncio.run(run_evaluation(run, evaluation_of_file(recipe), events=Events(), earlier=earlier))
            sizes = [len(one.agents[0]) for one in run.records(SCORES, Score) if one.system == "vote"]
            return sizes, EvaluationPlan.from_json(run.path(PLAN_FILE).read_text()).prompt_price

    sizes, price = hold("run")
    assert (price, len(measured)) == (0.25, 1)
    file = tmp_path / "run" / "records" / "scores.jsonl"
    kept = [line for line in file.read_bytes().splitlines(keepends=True) if b'"vote"' not in line]
    file.write_bytes(b"".join(kept))
    assert hold("run") == (sizes, 0.25)
    assert hold("other", earlier=[StoredRun.read(tmp_path / "run")]) == (sizes, 0.25)
    assert len(measured) == 1, "recorded, and known to who uses its samples"
    assert hold("new")[1] == 0.25
    assert len(measured) == 2


@pytest.fixture
def held(scripted, tmp_path, adapter_files):
    """Hold a small evaluation of an adapter that lies where it can be changed, and what its engine says."""
    shutil.copytree(adapter_files["first"], tmp_path / "adapter")
    recipe = evaluation_of(
        {
            "benchmarks": ["abacus-easy"],
            "problems": 2,
            "seeds": 1,
            "grading": {"workers": 1},
            "agents": {"a": {"model": "mada-nano", "window": 512, "adapter": str(tmp_path / "adapter")}},
            "systems": [{"kind": "single", "agents": ["a"]}],
        },
        where="here",
    )

    def hold(reply):
        scripted(reply)
        with Run.open(tmp_path / "run", recipe) as run:
            return asyncio.run(run_evaluation(run, evaluation_of_file(recipe), events=Events()))

    return hold


def change_adapter(adapter_files, folder):
    shutil.rmtree(folder)
    shutil.copytree(adapter_files["second"], folder)


def test_an_adapter_that_changed_is_refused_when_all_is_answered_too(held, adapter_files, tmp_path):
    held(lambda agent, prompt, seed: "4")
    held(lambda agent, prompt, seed: "4")
    change_adapter(adapter_files, tmp_path / "adapter")
    with pytest.raises(RunError, match="adapter of a"):
        held(lambda agent, prompt, seed: "4")


def test_inputs_may_change_while_nothing_is_answered(held, adapter_files, tmp_path):
    def failing(agent, prompt, seed):
        raise EngineError("not today")

    with pytest.raises(EngineError):
        held(failing)
    change_adapter(adapter_files, tmp_path / "adapter")
    assert held(lambda agent, prompt, seed: "4").questions == 2
