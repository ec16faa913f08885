"""Stage 5: who is compared with whom, on what, and what an interruption costs (E1, I1–I4, B1, T7)."""

import asyncio
import json
import shutil

import pytest

from mada.agents import team_names
from mada.models.adapters import AdapterStack, Lora, save_adapter
from mada.models.loading import load_base
from mada.pipeline.evaluate import evaluate
from mada.pipeline.evaluations import agents_of_run, systems_of_run
from mada.pipeline.split import PROBLEMS
from mada.problems import Problem, load_problems

BENCHMARKS = ("abacus-easy", "abacus-medium")
VOTES = ("vote", "untrained-vote", "trained-vote", "trained-weighted-vote", "trained-vote-at-cost")
DEFAULT = ("single", "debate", *VOTES[:2], "generators", *VOTES[2:], "mada")


def reply_by_adapter(answers):
    """Trained generators 1 and 2 are right, trained critics always, the bare model never."""

    def reply(agent, prompt, seed):
        [answer] = [answer for question, answer in answers.items() if question in prompt]
        right = agent is not None and agent != "generator-3"
        return f"{seed}\n" + rf"Therefore, the final answer is: $\boxed{{{answer if right else -7}}}$."

    return reply


@pytest.fixture
def engines(scripted):
    """The engines that are made, with replies by adapter."""
    answers = {one.question: one.answer for name in BENCHMARKS for one in load_problems(name, limit=2)}
    return scripted(reply_by_adapter(answers))


@pytest.fixture
def stage(tiny, opened, with_adapters, engines):
    """Open a run whose agents have adapters."""

    def make(*overrides):
        context = opened(tiny(*overrides))
        if not context.run.path("adapters").exists():
            with_adapters(context)
        return context

    return make


def lines_of(context, name):
    path = context.run.path(f"records/{name}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def items_of(lines, system):
    return sorted((one["benchmark"], one["seed"], one["problem"]) for one in lines if one["system"] == system)


ITEMS = sorted((name, seed, f"{name}/{number}") for name in BENCHMARKS for seed in (0, 1) for number in (1, 2))


def test_every_system_answers_every_problem_with_every_seed_once(stage, engines):
    context = stage()
    summary = asyncio.run(evaluate(context)).to_summary()
    scores = lines_of(context, "scores")
    assert {name: items_of(scores, name) for name in DEFAULT} == dict.fromkeys(DEFAULT, ITEMS)
    assert len(scores) == len(DEFAULT) * 8
    # Replies are about equally long, so matched votes have about six samples; what they have is in the records.
    votes = {name: sum(len(one["answers"][0]) for one in scores if one["system"] == name) for name in VOTES}
    for name in VOTES[:-1]:
        assert 8 * 5 <= votes[name] <= 8 * 7
    assert votes["trained-weighted-vote"] == votes["trained-vote"]
    assert votes["trained-vote-at-cost"] > votes["trained-vote"], "a debate reads more than a vote"
    assert summary == {
        "systems": 9,
        "questions": 8,
        "completions wanted": 8 * (1 + 6 + 3 + 6) + sum(votes.values()),
        "of these sampled": len(engines[0].requests),
        "accuracy of the reference": 1.0,
        "benchmark copies in training": 0,
    }
    assert len(lines_of(context, "samples")) == len(engines[0].requests)
    trained = [folder.rpartition("/")[2] for folder in engines[0].trained]
    assert sorted(trained) == sorted(f"{role}-{number}" for role in ("generator", "critic") for number in (1, 2, 3))
    assert context.events.progress_seen[0] == (0, 72, "")
    assert context.events.progress_seen[-1] == (72, 72, "mada 100.0% right")
    assert [done for done, _, _ in context.events.progress_seen] == list(range(73)), "recorded one by one"


def _size(system):
    if system.matched_to is None:
        return len(system.generators)
    return f"at {system.matched_to}" + ("'s cost" if system.match == "cost" else "")


def shapes(recipe):
    return {
        system.name: (
            _size(system),
            set(system.generators),
            set(system.critics),
            system.rounds,
            system.rule,
        )
        for system in systems_of_run(recipe)
    }


def test_the_systems_of_the_papers_shape(tiny):
    three, critics = {f"generator-{n}" for n in (1, 2, 3)}, {f"critic-{n}" for n in (1, 2, 3)}
    base, nobody = {"base"}, set()
    assert shapes(tiny()) == {
        "single": (1, base, nobody, 1, "vote"),
        "debate": (3, base, base, 2, "vote"),
        "vote": ("at debate", base, nobody, 1, "vote"),
        "weighted-vote": ("at mada", base, nobody, 1, "weigh"),
        "judge": ("at mada", base, {"judge"}, 2, "pick"),
        "untrained-vote": ("at mada", base, nobody, 1, "vote"),
        "generators": (3, three, nobody, 1, "vote"),
        "trained-vote": ("at mada", three, nobody, 1, "vote"),
        "trained-weighted-vote": ("at mada", three, nobody, 1, "weigh"),
        "trained-vote-at-cost": ("at mada's cost", three, nobody, 1, "vote"),
        "best-of-n": (3, three, critics, 2, "pick"),
        "mada": (3, three, critics, 2, "vote"),
    }


def test_the_agents_are_the_base_a_judge_and_the_trained_ones(tiny, tmp_path):
    specs = agents_of_run(tiny("team.critics=1"), tmp_path)
    assert list(specs) == ["base", "judge", "generator-1", "generator-2", "generator-3", "critic-1"]
    assert specs["base"].adapter is specs["judge"].adapter is None
    assert (specs["base"].is_judge, specs["judge"].is_judge) == (False, True)
    assert specs["critic-1"].adapter == tmp_path / "adapters" / "critic-1"
    assert {spec.model.name for spec in specs.values()} == {"mada-nano"}


@pytest.mark.parametrize(("blank", "called"), [(0, "trained"), (1, "partly trained"), (3, "step-0")])
def test_generators_that_learnt_nothing_are_not_called_trained(tiny, tmp_path, adapter_files, blank, called):
    recipe = tiny()
    stack = AdapterStack.attach(load_base("mada-nano", device="cpu").model, ("blank",), Lora(4, 8.0, dropout=0.0))
    specs = agents_of_run(recipe, tmp_path)
    for number, name in enumerate(team_names(recipe)[0]):
        folder = tmp_path / "adapters" / name
        shutil.copytree(adapter_files["first"], folder)
        if number < blank:
            save_adapter(stack, "blank", folder, base_name="mada-nano")
    trained = [specs[name].trained_parameters > 0 for name in team_names(recipe)[0]]
    assert trained == [False] * blank + [True] * (3 - blank)
    titles = {system.name: system.title for system in systems_of_run(recipe, specs)}
    assert titles["generators"] == f"generators, {called}"
    assert titles["trained-vote"].startswith(f"{called} vote")


@pytest.mark.parametrize("critics", [0, 3])
def test_a_team_of_one_round_has_no_critics_and_no_transcripts(stage, critics):
    context = stage(f"team.critics={critics}", "team.rounds=1")
    found = shapes(context.recipe)
    assert "best-of-n" not in found
    assert [found[name][3] for name in ("debate", "mada")] == [1, 1]
    summary = asyncio.run(evaluate(context)).to_summary()
    assert summary["accuracy of the reference"] == 1.0
    assert lines_of(context, "transcripts") == []


def test_half_of_it_is_kept_and_nothing_is_done_twice(stage, engines):
    context = stage()
    asyncio.run(evaluate(context))
    names = ("scores", "transcripts", "samples")
    files = {name: context.run.path(f"records/{name}.jsonl") for name in names}
    whole = {name: files[name].read_bytes().splitlines(keepends=True) for name in names}
    asked = len(engines[0].requests)
    context.run.close()
    # Killed after the tenth score; later transcripts and half of the samples had been written too.
    files["scores"].write_bytes(b"".join(whole["scores"][:10]))
    files["transcripts"].write_bytes(b"".join(whole["transcripts"][:6]))
    kept = len(whole["samples"]) // 2
    files["samples"].write_bytes(b"".join(whole["samples"][:kept]))
    again = stage()
    summary = asyncio.run(evaluate(again)).to_summary()
    assert (summary["questions"], summary["accuracy of the reference"]) == (8, 1.0)
    assert len(engines[-1].requests) == asked - kept, "what was sampled is not sampled again"
    assert again.events.progress_seen[0][:2] == (10, 72)
    for name in names:
        assert sorted(files[name].read_bytes().splitlines(keepends=True)) == sorted(whole[name]), name
    assert files["scores"].read_bytes().startswith(b"".join(whole["scores"][:10]))


def test_training_problems_that_a_benchmark_has_too_are_counted(stage):
    context = stage('data.decontaminate=["abacus-hard"]')
    context.run.records(PROBLEMS, Problem).extend(load_problems("abacus-easy", limit=3))
    assert asyncio.run(evaluate(context)).copies_in_training == 3
