"""Stages 2 and 4 up to the trainer's door: whose prompts, which credit, what they are rewarded for (T4, T5, R1–R3)."""

import asyncio
import re
import shutil
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch

from mada.debate.transcript import Response, Role
from mada.errors import DataError
from mada.grading import Grader
from mada.learning.checkpoints import BestAdapter
from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.trainer import TrainingResult
from mada.models.chat import chat_prompt, prompt_ids
from mada.models.engines import Completion
from mada.pipeline.critic_data import CriticExample
from mada.pipeline.screen import SCREENINGS, Screening
from mada.pipeline.split import read_problems, read_split, split
from mada.pipeline.training import critics, generators
from mada.pipeline.training_prompts import make_scorer
from mada.report.reading import CRITIC_EXAMPLES
from mada.team import Team

if TYPE_CHECKING:
    from mada.agents import AdaptedModel


@pytest.fixture
def trainer(monkeypatch, adapter_files):
    """A trainer that remembers what it was given, and says that agents are best with one of two adapters."""
    given: dict[str, Any] = {}

    class Recorder:
        def __init__(self, stack, engine, task, **options):
            given.update(stack=stack, task=task, **options)
            self.agents, self.folder = stack.agents, options["folder"]

        async def train(self):
            best = {}
            for index, agent in enumerate(self.agents):
                shutil.copytree(adapter_files["second" if index else "first"], self.folder / agent)
                best[agent] = BestAdapter(agent=agent, step=index, accuracy=0.25 * index, folder=agent)
            return TrainingResult(self.folder, 7, best)

    monkeypatch.setattr("mada.pipeline.training.Trainer", Recorder)
    return given


def answered(
    context, *, accuracy=lambda index: (index % 3) / 3, text="It is so.", right=(False, False, False), cut=None
):
    """Write critic data as if the generators had answered, and return it by problem."""
    asyncio.run(split(context))
    agents = context.agents("generator")
    problems, examples = read_problems(context.run), {}
    indices = iter(range(1000))
    for part in read_split(context.run).parts:
        for name in part.ids:
            problem = problems[name]
            said = tuple(
                Response(f"{agent}: {text}", "1", 3, stop="length" if index == cut else "end")
                for index, agent in enumerate(agents)
            )
            correct = right[: len(agents)]
            share = accuracy(next(indices))
            examples[name] = CriticExample(
                name, part.name, problem.question, problem.answer, agents, said, correct, share
            )
    context.run.records(CRITIC_EXAMPLES, CriticExample).extend(examples.values())
    return examples


def test_every_generator_gets_its_own_subset_as_bare_questions(tiny, opened, trainer, base, scripted):
    context = opened(tiny("generators.learning_rate=0.5", "reward.accuracy=3"))
    engines = scripted(lambda agent, prompt, seed: "4")
    asyncio.run(split(context))
    summary = asyncio.run(generators(context)).to_summary()
    task, cut, problems = trainer["task"], read_split(context.run), read_problems(context.run)
    assert {agent: tuple(one.id for one in own) for agent, own in task.prompts.items()} == {
        f"generator-{number}": cut.ids(f"subset-{number}") for number in (1, 2, 3)
    }
    assert [one.id for one in task.validation] == list(cut.ids("validation"))
    one = task.prompts["generator-2"][0]
    text = context.settings.prompts.ask(problems[one.id].question)
    assert one == TrainingPrompt(
        one.id, prompt_ids(chat_prompt(text, base.tokenizer), base.tokenizer), payload=problems[one.id].answer
    )
    assert (task.credit.advantage, task.credit.accuracy_weight, task.stop_tokens) == ("grpo", 3.0, (1,))
    assert (trainer["settings"].learning_rate, trainer["settings"].steps) == (0.5, 2)
    assert (trainer["folder"], trainer["seed"]) == (context.run.path("generators"), context.run.seed("generators"))
    assert summary == {
        "steps": 7,
        "best": {f"generator-{n}": {"step": n - 1, "accuracy": 0.25 * (n - 1)} for n in (1, 2, 3)},
        "problems left out, too long for the window": 0,
        "prompts with shortened responses": 0,
    }
    assert [engine.alone for engine in engines] == [False], "the learner needs memory too"


def test_generators_see_what_the_screening_left_and_validate_on_everything(tiny, opened, trainer):
    context = opened(tiny("data.screen=4"))
    asyncio.run(split(context))
    cut = read_split(context.run)
    subsets = {number: cut.ids(f"subset-{number}") for number in (1, 2, 3)}
    # One of each subset is right twice, one was too long to be asked, and the others are right always or never.
    found = [
        Screening(name, 2 if index == 1 else 4 * (index % 2), 4, 0)
        for names in subsets.values()
        for index, name in enumerate(names[:-1])
    ]
    context.run.records(SCREENINGS, Screening).extend(found)
    asyncio.run(generators(context))
    task = trainer["task"]
    assert {agent: [one.id for one in own] for agent, own in task.prompts.items()} == {
        f"generator-{number}": [names[1]] for number, names in subsets.items()
    }
    assert [one.id for one in task.validation] == list(cut.ids("validation"))


@pytest.mark.parametrize(
    ("team", "sizes"),
    [
        (["team.generators=2", "team.critics=3"], [4, 4, 4]),
        (["team.generators=3", "team.critics=1"], [18]),
        (["team.generators=2", "team.critics=5"], [2] * 5),
    ],
)
def test_critics_share_the_examples_out_in_disjoint_parts_of_one_size(tiny, opened, trainer, team, sizes):
    context = opened(tiny(*team))
    examples = answered(context)
    asyncio.run(critics(context))
    task = trainer["task"]
    assert list(task.prompts) == [f"critic-{number}" for number in range(1, len(sizes) + 1)]
    assert [len(own) for own in task.prompts.values()] == sizes
    learning = Counter(one.id for own in task.prompts.values() for one in own)
    assert set(learning.values()) == {1}
    assert set(learning) <= {name for name, one in examples.items() if one.part != "validation"}
    assert {one.id for one in task.validation} == {name for name, one in examples.items() if one.part == "validation"}
    if len(sizes) == 3:
        parts = [{examples[one.id].part for one in own} for own in task.prompts.values()]
        assert {"subset-1", "subset-2"} in parts, "shuffled, not cut along the generators' subsets"


def test_a_critic_sees_the_question_with_all_responses_and_is_credited_against_the_generators(
    tiny, opened, trainer, base
):
    context = opened(tiny("reward.accuracy=4"))
    examples = answered(context)
    summary = asyncio.run(critics(context)).to_summary()
    task = trainer["task"]
    shares = {one.id: one.generator_accuracy for own in task.prompts.values() for one in own}
    assert len(shares) == 18
    assert shares == {name: one.generator_accuracy for name, one in examples.items() if name in shares}
    assert set(shares.values()) == {0.0, 1 / 3, 2 / 3}
    assert {one.generator_accuracy for one in task.validation} <= {0.0, 1 / 3, 2 / 3}
    one = task.prompts["critic-3"][-1]
    example = examples[one.id]
    seen = base.tokenizer.decode(list(one.prompt_ids))
    order = [seen.index(part) for part in (example.question, "generator-1: It", "generator-2: It", "generator-3: It")]
    assert order == sorted(order)
    assert one.payload == example.reference
    assert (task.credit.advantage, task.credit.accuracy_weight) == ("counterfactual", 4.0)
    assert (trainer["folder"].name, trainer["seed"]) == ("critics", context.run.seed("critics"))
    assert summary["prompts with shortened responses"] == 0


def test_shuffled_responses_stand_in_other_orders_for_other_problems_and_in_the_same_next_time(
    tiny, opened, trainer, base
):
    def orders(run):
        context = opened(tiny("prompts.order=shuffled"), run)
        answered(context)
        asyncio.run(critics(context))
        task = trainer["task"]
        assert task.validation.keys() == task.prompts.keys()
        every = [(agent, one) for agent in task.prompts for one in (*task.prompts[agent], *task.validation_of(agent))]
        texts = {(agent, one.id): base.tokenizer.decode(list(one.prompt_ids)) for agent, one in every}
        return {name: tuple(re.findall(r"generator-(\d): It", text)) for name, text in texts.items()}

    first = orders("first")
    assert {"".join(sorted(order)) for order in first.values()} == {"123"}
    assert len(set(first.values())) > 2
    assert orders("second") == first
    seen = Counter(problem for _, problem in first)
    held_out = [problem for problem, critics in seen.items() if critics == 3]
    assert len(held_out) == 4, "each critic validates on all of them"
    assert any(len({first[f"critic-{n}", problem] for n in (1, 2, 3)}) > 1 for problem in held_out), "in its own order"


@pytest.mark.parametrize(
    ("setting", "share"),
    [
        ("critics.truncated=learn", 2 / 3),
        ("critics.truncated=skip", 2 / 3),
        ("critics.truncated=wrong", 1 / 3),
        ("training.truncated=wrong", 1 / 3),
        ("generators.truncated=wrong", 2 / 3),
    ],
)
def test_the_generators_accuracy_follows_the_rule_of_the_critics_reward(tiny, opened, trainer, setting, share):
    """Of each three responses the first and the second are right, and the second was cut off."""
    context = opened(tiny(setting))
    answered(context, accuracy=lambda index: 2 / 3, right=(True, True, False), cut=1)
    asyncio.run(critics(context))
    task = trainer["task"]
    every = [one for own in task.prompts.values() for one in own]
    assert {one.generator_accuracy for one in (*every, *task.validation)} == {share}


@pytest.mark.parametrize(
    ("settings", "examples", "message"),
    [
        (["team.generators=1", "team.critics=7"], {}, "6 critic examples cannot be cut into 7 subsets"),
        (["critics.examples=disputed"], {"accuracy": lambda index: index % 2}, "0 critic examples of 18 .* disputed"),
        (
            ["critics.truncated=wrong", "critics.examples=answered"],
            {"accuracy": lambda index: 1 / 3, "right": (False, True, False), "cut": 1},
            "answered",
        ),
    ],
)
def test_too_few_critic_examples_are_refused(tiny, opened, trainer, settings, examples, message):
    context = opened(tiny(*settings))
    answered(context, **examples)
    with pytest.raises(DataError, match=message):
        asyncio.run(critics(context))


@pytest.mark.parametrize(
    ("wanted", "shares", "sizes"),
    [
        ("all", {0, 1 / 3, 2 / 3, 1}, [6, 6, 6]),
        ("answered", {1 / 3, 2 / 3, 1}, [4, 4, 4]),
        ("disputed", {1 / 3, 2 / 3}, [3] * 3),
    ],
)
def test_critics_learn_from_the_wanted_examples_and_validate_on_everything(
    tiny, opened, trainer, wanted, shares, sizes
):
    context = opened(tiny(f"critics.examples={wanted}"))
    examples = answered(context, accuracy=lambda index: (index % 4) / 3)
    summary = asyncio.run(critics(context)).to_summary()
    task = trainer["task"]
    assert {one.generator_accuracy for own in task.prompts.values() for one in own} == shares
    assert [len(own) for own in task.prompts.values()] == sizes
    learnt_from = sum(one.part != "validation" and one.generator_accuracy in shares for one in examples.values())
    wanted_of = {} if wanted == "all" else {"examples": 18, "learnt from": learnt_from}
    assert {name: summary[name] for name in ("examples", "learnt from") if name in summary} == wanted_of
    assert {one.id for one in task.validation} == {name for name, one in examples.items() if one.part == "validation"}


@pytest.mark.parametrize("start", ["blank", "generators"])
def test_critics_begin_blank_or_as_the_generators_in_turn(tiny, opened, trainer, start):
    context = opened(tiny("team.generators=2", f"critics.start={start}"))
    answered(context)
    asyncio.run(generators(context))  # generator-1 and generator-2 get adapters that differ
    asyncio.run(critics(context))
    given = trainer["stack"]
    trained = context.load_model("generator", trained=True).stack
    blank = context.load_model("critic", trained=False).stack
    for critic, generator in (("critic-1", "generator-1"), ("critic-2", "generator-2"), ("critic-3", "generator-1")):
        expected = blank.tensors(critic) if start == "blank" else trained.tensors(generator)
        for name, tensor in given.tensors(critic).items():
            assert torch.equal(tensor, expected[name])
    if start == "generators":
        pairs = zip(given.tensors("critic-1").values(), given.tensors("critic-2").values(), strict=True)
        assert any(not torch.equal(one, other) for one, other in pairs)


def test_long_responses_are_shortened_for_critics_and_counted(tiny, opened, trainer):
    context = opened(tiny("training.max_new_tokens=200"))
    answered(context, text="12 + 34 = 46\n" * 30)
    summary = asyncio.run(critics(context)).to_summary()
    assert summary["problems left out, too long for the window"] == 0
    assert summary["prompts with shortened responses"] == 22
    lengths = [len(one.prompt_ids) for own in trainer["task"].prompts.values() for one in own]
    assert max(lengths) <= 512 - 200
    assert max(lengths) > 150, "shortened, not left out"


def test_the_best_adapters_are_what_a_team_loads(tiny, opened, trainer, adapter_files):
    context = opened(tiny())
    answered(context)
    asyncio.run(generators(context))
    asyncio.run(critics(context))
    context.run.close()
    for agent, source in (("generator-1", "first"), ("generator-3", "second"), ("critic-1", "first")):
        for file in adapter_files[source].iterdir():
            assert (context.adapter(agent) / file.name).read_bytes() == file.read_bytes()
    with Team.load(context.run.folder, device="cpu") as team:
        assert [agent.name for agent in team.generators] == ["generator-1", "generator-2", "generator-3"]
        assert [agent.name for agent in team.critics] == ["critic-1", "critic-2", "critic-3"]


def test_a_stage_loads_blank_adapters_or_the_trained_ones(tiny, opened, trainer):
    context = opened(tiny())
    asyncio.run(split(context))

    def tensors(*, trained):
        model = context.load_model("generator", trained=trained)
        return {
            agent: {name: tensor.detach().clone() for name, tensor in model.stack.tensors(agent).items()}
            for agent in model.stack.agents
        }

    asyncio.run(generators(context))
    blank, trained = tensors(trained=False), tensors(trained=True)
    given = trainer["stack"]
    for agent in context.agents("generator"):
        for name, tensor in given.tensors(agent).items():
            assert torch.equal(tensor, blank[agent][name]), "training begins with blank adapters"
        for name, tensor in trained[agent].items():
            assert not torch.equal(tensor, blank[agent][name])
            other = "generator-3" if agent == "generator-2" else agent
            assert torch.equal(tensor, trained[other][name])


@pytest.fixture
def scored(opened, tiny, base):
    """Score completions of a problem whose answer is 4."""

    def score(completions, *settings, role: Role = "generator"):
        async def scores():
            with Grader(workers=1) as grader:
                model = cast("AdaptedModel", SimpleNamespace(chat=base))
                scorer = make_scorer(opened(tiny(*settings), f"run-{len(settings)}"), model, grader, role=role)
                return await scorer(TrainingPrompt("p", (1,), payload="4"), completions)

        return asyncio.run(scores())

    return score


def test_rewards_are_those_of_the_paper_for_real_tokens(scored, base):
    """Lengths 26, 30, 28, 30 with the end: λ = .5, −.5, 0, −.5; right, wrong, right, right (R1–R3)."""
    [one] = base.tokenizer.encode("1", add_special_tokens=False)

    def completion(text, length):
        ids = [*base.tokenizer.encode(text, add_special_tokens=False), base.tokenizer.eos_token_id]
        return Completion((one,) * (length - len(ids)) + tuple(ids), (0.0,) * length, "end")

    texts = (r"\boxed{4}", r"\boxed{5}", r"\boxed{4}", r"\boxed{\frac{8}{2}}")
    drawn = [completion(text, length) for text, length in zip(texts, (26, 30, 28, 30), strict=True)]
    assert [len(one.token_ids) for one in drawn] == [26, 30, 28, 30]

    assert scored(drawn) == [
        Reward(2.5, True, {"accuracy": 1.0, "length": 0.5}),
        Reward(-0.5, False, {"accuracy": 0.0, "length": -0.5}),
        Reward(2.0, True, {"accuracy": 1.0, "length": 0.0}),
        Reward(1.5, True, {"accuracy": 1.0, "length": -0.5}),
    ]
    weighted = scored(drawn, "reward.accuracy=3", "reward.length=0.5")
    assert [one.total for one in weighted] == [3.25, -0.25, 3.0, 2.75]


@pytest.mark.parametrize(
    ("settings", "role", "right"),
    [
        ([], "critic", [True, True]),
        (["training.truncated=skip"], "critic", [True, True]),
        (["training.truncated=wrong"], "critic", [True, False]),
        (["training.truncated=wrong"], "generator", [True, False]),
        (["critics.truncated=wrong"], "critic", [True, False]),
        (["critics.truncated=wrong"], "generator", [True, True]),
    ],
)
def test_what_was_cut_off_may_count_as_wrong_whatever_it_says(scored, base, settings, role, right):
    ids = tuple(base.tokenizer.encode(r"\boxed{4}", add_special_tokens=False))
    drawn = [Completion(ids, (0.0,) * len(ids), stop) for stop in ("end", "length")]
    rewards = scored(drawn, "reward.length=0", *settings, role=role)
    assert [one.correct for one in rewards] == right
    assert [one.total for one in rewards] == [2.0 * one for one in right]
