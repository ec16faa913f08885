"""Teams: loaded from a run, of a bare base, of anyone."""

import asyncio
import json
import shutil
import threading
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import mada
from mada.debate.protocol import DebateError
from mada.debate.transcript import Response, Turn
from mada.digest import digest_of
from mada.errors import DataError, EngineError, GradingError, RunError
from mada.models.adapters import AdapterStack, Lora, save_adapter
from mada.models.engine_agent import EngineAgent
from mada.models.engines import EngineStatistics, ScriptedEngine
from mada.models.engines.background import BackgroundEngine
from mada.models.engines.starting import Hardware
from mada.models.loading import load_base
from mada.recipe import Recipe
from mada.runs import Run
from mada.team import Team


@dataclass
class Parrot:
    """Answers at once, or when it is told; notes what it was asked."""

    name: str
    says: str = "4"
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def answer(self, question, seen, *, seed):
        self.asked.append((question, len(seen), seed))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if question == "fail":
            raise EngineError("the parrot has flown")
        return Turn(self.name, question, 1, Response(f"\\boxed{{{self.says}}}", self.says, 1))


@pytest.fixture
def team():
    with Team([Parrot("generator-1"), Parrot("generator-2", "5")], [Parrot("critic-1", "2+2")]) as team:
        yield team


@pytest.fixture
def base_team(model_folder):
    with Team.untrained(str(model_folder), generators=2, critics=1, max_new_tokens=12, device="cpu") as team:
        yield team


@pytest.fixture(scope="module")
def run_folder(model_folder, tmp_path_factory):
    """A run whose training is over: every agent has its adapter."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    recipe = make_recipe(model_folder)
    with Run.open(folder, recipe):
        pass
    base = load_base(str(model_folder), device="cpu")
    agents = ("generator-1", "generator-2", "critic-1")
    stack = AdapterStack.attach(base.model, agents, Lora(rank=4, alpha=8, dropout=0.0))
    generator = torch.Generator().manual_seed(1)
    for agent in agents:
        own = stack.tensors(agent)
        stack.assign(agent, {name: torch.randn(one.shape, generator=generator) * 0.2 for name, one in own.items()})
        save_adapter(stack, agent, folder / "adapters" / agent, base_name=base.name)
    return folder


def member(team) -> EngineAgent:
    """The first generator, loaded as all others."""
    return team.generators[0]


def make_recipe(model_folder):
    return Recipe.model_validate(
        {
            "model": {"name": str(model_folder)},
            "team": {"generators": 2, "critics": 1, "rounds": 2},
            "inference": {"max_new_tokens": 12, "temperature": 0.5},
            "prompts": {"reasoning": "Q: {question}"},
            "lora": {"rank": 4, "alpha": 8.0},
        }
    )


def test_a_debate_ends_with_a_verdict(team):
    debate = asyncio.run(team.debate("2 + 2?"))
    assert [(one.number, one.role) for one in debate.rounds] == [(1, "generator"), (2, "critic")]
    assert debate.verdict is not None
    assert debate.verdict.answer == "2+2"


def test_the_seed_depends_on_the_question_so_questions_share_no_random_numbers(team):
    parrot = team.generators[0]
    for question, seed in (("a", 0), ("b", 0), ("a", 1), ("a", 0)):
        team.debate_sync(question, seed=seed)
    seeds = [seed for _, _, seed in parrot.asked]
    assert seeds[0] == seeds[3]
    assert len(set(seeds)) == 3


def test_many_debates_come_in_order_with_a_bound_on_how_many_run(team):
    async def answers():
        return [debate.question async for debate in team.debates([f"q{n}" for n in range(20)], at_once=4)]

    assert asyncio.run(answers()) == [f"q{n}" for n in range(20)]
    assert team.generators[0].most_running <= 4


def test_a_debate_is_the_same_alone_and_among_many(team):
    async def among_many():
        return [debate async for debate in team.debates(["a", "b"], seed=3)]

    assert asyncio.run(among_many())[1] == team.debate_sync("b", seed=3)


def test_a_failure_arrives_as_it_is_and_stops_the_rest(team):
    async def all_of():
        before = len(asyncio.all_tasks())
        debates = team.debates(["a", "fail", *map(str, range(50))])
        first = await anext(debates)
        with pytest.raises(EngineError, match="flown"):
            await anext(debates)
        return first.question, len(asyncio.all_tasks()) - before

    assert asyncio.run(all_of()) == ("a", 0)


def test_a_reader_who_has_had_enough_leaves_nothing_running(team):
    async def first():
        before = len(asyncio.all_tasks())
        async with aclosing(team.debates(["a", "b", "c"])) as debates:
            debate = await anext(debates)
        return debate.question, len(asyncio.all_tasks()) - before

    assert asyncio.run(first()) == ("a", 0)


@pytest.mark.parametrize(
    ("question", "message"),
    [("", "is empty"), (" \n ", "is empty"), ("\udcff", r"half of a character \('\\udcff'\)")],
)
def test_a_question_that_cannot_be_asked_is_refused(team, question, message):
    with pytest.raises(DataError, match=message):
        team.debate_sync(question)


def test_synchronous_calls_work_inside_a_running_loop_as_in_a_notebook(model_folder):
    async def cell():
        with Team.untrained(str(model_folder), device="cpu", generators=1, critics=1, max_new_tokens=8) as team:
            awaited = await team.debate("q")
            assert team.debate_sync("q") == awaited == await team.debate("q")
            with pytest.raises(DataError, match="half"):
                team.debate_sync("\udcff")
        with pytest.raises(GradingError, match="closed"):
            team.grader.compare([("4", "4")])

    asyncio.run(cell())


def test_agents_that_do_not_go_together_are_refused(model_folder):
    with pytest.raises(DebateError, match="2 rounds and no critics"):
        Team([Parrot("a")])
    with pytest.raises(DebateError, match="no generators"):
        Team.untrained(str(model_folder), generators=0)
    with pytest.raises(ValueError, match="at_once must be at least 1"):
        asyncio.run(anext(Team([Parrot("a")], rounds=1).debates(["q"], at_once=0)))


def test_closing_ends_what_the_team_made_and_leaves_what_it_was_given():
    from mada.grading import Grader

    async def close_twice(team):
        async with team:
            await team.close()

    with Grader(workers=1) as grader:
        asyncio.run(close_twice(Team([Parrot("a")], rounds=1, grader=grader)))
        assert grader.compare([("4", "4")])[0].correct
    own = Team([Parrot("a")], rounds=1)
    asyncio.run(close_twice(own))
    with pytest.raises(GradingError, match="closed"):
        own.grader.compare([("4", "4")])


def test_a_team_is_reached_from_the_package():
    assert mada.Team is Team
    with pytest.raises(AttributeError, match="no attribute 'Teem'"):
        mada.Teem  # type: ignore[attr-defined] # noqa: B018


def test_a_bare_base_debates_twice_in_a_row_and_the_same(base_team):
    one = base_team.debate_sync("What is 2 + 2?", seed=4)
    two = base_team.debate_sync("What is 2 + 2?", seed=4)
    assert one == two
    assert [len(one.turns) for one in one.rounds] == [2, 1]
    assert all(turn.response.token_count <= 12 for turn in one.last.turns)
    assert one.rounds[0].turns[0].response.text != one.rounds[0].turns[1].response.text
    assert base_team.debate_sync("What is 2 + 2?", seed=5) != one


def test_many_at_once_in_one_batch_give_what_each_gives_alone(base_team):
    questions = [f"What is {n} + 1?" for n in range(5)]

    async def together():
        return [debate async for debate in base_team.debates(questions, seed=1)]

    assert asyncio.run(together()) == [base_team.debate_sync(question, seed=1) for question in questions]


def test_defaults_leave_room_for_the_other_agents_words(model_folder):
    with Team.untrained(str(model_folder), device="cpu", window=2000) as team:
        first = member(team)
        assert (len(team.generators), len(team.critics), team.rounds) == (3, 3, 2)
        assert (first.window, first.sampling.max_tokens, first.sampling.temperature) == (2000, 1000, 1.0)
        assert first.sampling.stop_tokens == (7, 256)
        assert first.adapter is None
        assert team.base is not None
        assert team.base.name == str(model_folder)


def test_every_agent_of_a_trained_team_has_its_own_adapter(run_folder):
    with Team.load(run_folder, device="cpu", temperature=0.0) as team:
        agents: list[Any] = [*team.generators, *team.critics]
        assert [agent.name for agent in agents] == ["generator-1", "generator-2", "critic-1"]
        assert [agent.adapter for agent in agents] == ["generator-1", "generator-2", "critic-1"]
        debate = team.debate_sync("q")
    assert debate.rounds[0].turns[0].prompt == "<|user|>Q: q<|end|><|assistant|>"
    first, second = debate.rounds[0].turns
    assert first.prompt == second.prompt
    assert first.response.text != second.response.text  # at temperature 0 only the adapters differ


class OwnLoopEngine(ScriptedEngine):
    """Refuses other event loops than the one it was started in, as vLLM does."""

    slots, statistics = 4, EngineStatistics()

    def __init__(self):
        super().__init__(lambda request: [65, 66, 256])
        self.loop = asyncio.get_running_loop()
        self.closed = False

    async def sample(self, *args, **options):
        assert asyncio.get_running_loop() is self.loop
        return await super().sample(*args, **options)

    async def close(self):
        assert asyncio.get_running_loop() is self.loop
        self.closed = True


@pytest.fixture
def run_with_engine(run_folder, tmp_path):
    """Copy the run with another `[engine]`."""

    def make(**engine):
        folder = shutil.copytree(run_folder, tmp_path / "run")
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["recipe"]["engine"] |= engine
        manifest["recipe_digest"] = digest_of(manifest["recipe"])
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    return make


def test_a_trained_team_uses_the_runs_vllm_in_any_event_loop(run_with_engine, monkeypatch):
    started = []

    async def start(model, **options):
        started.append((options, OwnLoopEngine()))
        return started[-1][1]

    monkeypatch.setattr("mada.models.engines.vllm.VllmEngine.start", start)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    monkeypatch.setattr(Hardware, "detect", lambda: Hardware(2**40, has_vllm=True))
    folder = run_with_engine(kind="vllm", rows=7)
    with Team.load(folder, window=900) as team:
        assert team.base is None, "no weights are loaded here"
        assert team.debate_sync("q") == team.debate_sync("q")
        assert asyncio.run(team.debate("q")).last.turns[0].response.text == "bc"
    [(options, engine)] = started
    names = ("generator-1", "generator-2", "critic-1")
    assert {name: options[name] for name in ("adapters", "rows", "context")} == {
        "adapters": {name: folder / "adapters" / name for name in names},
        "rows": 7,
        "context": 900,
    }
    assert {request.agent for request in engine.requests} == set(names)
    assert engine.closed


def test_without_a_gpu_a_run_of_vllm_debates_on_the_local_engine(run_with_engine, caplog):
    with Team.load(run_with_engine(kind="vllm")) as team:
        assert team.base is not None
    assert "vLLM, which cannot be used here" in caplog.text


@pytest.mark.parametrize("server", [None, "http://localhost:2/v1"])
def test_a_trained_team_uses_the_runs_server_or_the_one_that_is_given(run_with_engine, monkeypatch, server):
    checked = []

    async def check(engine):
        checked.append(engine)

    monkeypatch.setattr("mada.models.engines.openai.OpenAIEngine.check", check)
    with Team.load(run_with_engine(url="http://localhost:1/v1", rows=3), server=server) as team:
        assert team.base is None
    [engine] = checked
    assert (server or "http://localhost:1/v1") in repr(engine)
    assert engine.slots == 3
    assert set(engine.models.values()) >= {"generator-1", "generator-2", "critic-1"}


def test_an_engine_that_does_not_start_leaves_no_thread():
    async def fail():
        raise EngineError("no memory")

    before = threading.active_count()
    with pytest.raises(EngineError, match="no memory"):
        BackgroundEngine(fail)
    assert threading.active_count() == before


def test_adapters_do_what_they_did_when_they_were_saved(run_folder, model_folder):
    """An agent's likeliest reply is that of its adapter in PEFT."""
    from peft import PeftModel

    with Team.load(run_folder, device="cpu", temperature=0.0, rounds=1) as team:
        [_, turn] = team.debate_sync("q").last.turns
    base = load_base(str(model_folder), device="cpu")
    model = PeftModel.from_pretrained(base.model, str(run_folder / "adapters" / "generator-2"))
    ids = base.tokenizer.encode(turn.prompt, add_special_tokens=False)
    said: list[int] = []
    with torch.inference_mode():
        for _ in range(turn.response.token_count):
            said.append(int(model(input_ids=torch.tensor([[*ids, *said]])).logits[0, -1].argmax()))
    assert base.tokenizer.decode(said, skip_special_tokens=True) == turn.response.text


def test_a_trained_team_debates_as_its_recipe_says_but_for_what_is_given(run_folder):
    with Team.load(run_folder, device="cpu") as team:
        assert (team.rounds, member(team).sampling.temperature) == (2, 0.5)
        assert member(team).prompts.share == "full"
    with Team.load(run_folder, device="cpu", rounds=1, share="answer", max_new_tokens=5, window=500) as team:
        assert (team.rounds, team.critics) == (1, ())
        assert member(team).sampling.max_tokens == 5
        assert (member(team).window, member(team).prompts.share) == (500, "answer")


def test_a_run_whose_training_is_not_over_names_the_missing_adapters(model_folder, run_folder, tmp_path):
    folder = tmp_path / "begun"
    with Run.open(folder, make_recipe(model_folder)):
        pass
    (folder / "adapters").mkdir()
    (folder / "adapters" / "generator-2").symlink_to(run_folder / "adapters" / "generator-2")
    with pytest.raises(RunError, match=r"no adapter for generator-1, critic-1 yet; `mada run --run .*begun` goes on"):
        Team.load(folder)


def test_a_recipe_of_another_mada_is_refused(run_folder, tmp_path):
    manifest = json.loads((run_folder / "manifest.json").read_text())
    manifest["recipe"]["team"]["judges"] = 3
    manifest["recipe_digest"] = digest_of(manifest["recipe"])
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match=r"cannot read the run's recipe \(team\.judges"):
        Team.load(tmp_path)
