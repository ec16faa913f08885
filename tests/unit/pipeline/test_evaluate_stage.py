"""Stage 5: who is compared with whom, on what, and what an interruption costs (E1, I1–I4, T7)."""

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.scores import Score
from mada.models.engines.scripted import ScriptedEngine
from mada.pipeline.evaluate import evaluate, systems_of
from mada.problems import load_problems
from mada.report.run_report import read_summary

if TYPE_CHECKING:
    from mada.pipeline.context import Workshop

BENCHMARKS = ("abacus-easy", "abacus-medium")


def reply_by_adapter(answers):
    """Trained generators are right in seat 1 and 2, trained critics always, the bare model never."""

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
def stage(tiny, opened, seated, engines):
    """Open a run whose seats are filled."""

    def make(*overrides):
        context = opened(tiny(*overrides))
        if not context.run.path("adapters").exists():
            seated(context)
        return context

    return make


def lines_of(context, name):
    path = context.run.path(f"records/{name}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def places(lines, system):
    return sorted((one["benchmark"], one["seed"], one["problem"]) for one in lines if one["system"] == system)


ITEMS = sorted((name, seed, f"{name}/{number}") for name in BENCHMARKS for seed in (0, 1) for number in (1, 2))
NAMES = ("single", "vote", "debate", "generators", "trained-vote", "mada")


def test_every_system_answers_every_problem_with_every_seed_once(stage, engines):
    context = stage()
    summary = asyncio.run(evaluate(context))
    scores = lines_of(context, "scores")
    assert {name: places(scores, name) for name in NAMES} == dict.fromkeys(NAMES, ITEMS)
    assert len(scores) == 6 * 8
    assert summary == {
        "problems": 8,
        "completions wanted in this session": 8 * (1 + 6 + 6 + 3 + 6 + 6),
        # the bare model's six and three of its critics, the trained generators' six and three trained critics
        "of these sampled": 8 * (6 + 3 + 6 + 3),
        "mean accuracy of the team": 1.0,
    }
    assert len(engines[0].requests) == 8 * 18
    assert engines[0].trained == [f"{role}-{number}" for role in ("generator", "critic") for number in (1, 2, 3)]
    assert context.watch.progress[0] == (0, 8, "")
    assert context.watch.progress[-1] == (8, 8, "team 100.0% right")


def test_accuracies_are_those_of_the_seats(stage):
    context = stage()
    asyncio.run(evaluate(context))
    summary = read_summary(context.run)
    assert summary is not None
    assert {one.system.name: one.accuracy.mean for one in summary.systems} == pytest.approx(
        {"single": 0.0, "vote": 0.0, "debate": 0.0, "generators": 2 / 3, "trained-vote": 1.0, "mada": 1.0}
    )
    assert summary.reference.name == "mada"
    assert dict(summary.benchmarks) == {"abacus-easy": 2, "abacus-medium": 2}
    assert summary.seeds == (0, 1)
    team = next(one for one in lines_of(context, "scores") if one["system"] == "mada")
    assert team["round_accuracies"] == [pytest.approx(2 / 3), 1.0]
    assert team["correct"] == [[True, True, False], [True, True, True]]


def test_systems_draw_the_same_samples_where_they_seat_the_same_model(stage):
    context = stage()
    asyncio.run(evaluate(context))
    scores = {(one["system"], one["seed"], one["problem"]): one for one in lines_of(context, "scores")}
    transcripts = {(one["system"], one["seed"], one["problem"]): one for one in lines_of(context, "transcripts")}
    texts = {}
    for system in ("debate", "mada"):
        debate = transcripts[system, 1, "abacus-easy/2"]["debate"]
        texts[system] = [turn["response"]["text"].split("\n")[0] for turn in debate["rounds"][0]["turns"]]
    assert texts["debate"] == texts["mada"], "seeds are of seats, so trained and untrained meet the same luck"
    assert len(set(texts["mada"])) == 3
    assert scores["generators", 1, "abacus-easy/2"]["correct"][0] == scores["mada", 1, "abacus-easy/2"]["correct"][0]
    other = transcripts["mada", 0, "abacus-easy/2"]["debate"]["rounds"][0]["turns"][0]["response"]["text"]
    assert other.split("\n")[0] not in texts["mada"], "another seed of the evaluation is another sample"


def test_transcripts_are_kept_of_debates_alone(stage):
    context = stage()
    asyncio.run(evaluate(context))
    transcripts = lines_of(context, "transcripts")
    assert {one["system"] for one in transcripts} == {"debate", "mada"}
    assert places(transcripts, "debate") == places(transcripts, "mada") == ITEMS
    references = {one.id: one.answer for name in BENCHMARKS for one in load_problems(name, limit=2)}
    assert all(one["reference"] == references[one["problem"]] for one in transcripts)
    [verdict] = {
        one["debate"]["verdict"]["answer"] == one["reference"] for one in transcripts if one["system"] == "mada"
    }
    assert verdict is True


def adapters_of(agents):
    return [agent.adapter for agent in agents]


def shapes(context, base):
    shop = cast("Workshop", SimpleNamespace(base=base, window=512))
    return {
        system.name: (
            system.title,
            adapters_of(system.generators),
            adapters_of(system.critics),
            system.rounds,
            system.measure,
            system.calls,
        )
        for system in systems_of(context, shop, ScriptedEngine(lambda request: []))
    }


def test_the_systems_of_the_papers_shape(stage, base):
    three, critics = [f"generator-{n}" for n in (1, 2, 3)], [f"critic-{n}" for n in (1, 2, 3)]
    none = [None] * 3
    assert shapes(stage(), base) == {
        "single": ("single agent, untrained", [None], [], 1, "mean", 1),
        "vote": ("vote of 6, untrained", [None] * 6, [], 1, "vote", 6),
        "debate": ("debate, untrained", none, none, 2, "mean", 6),
        "generators": ("generators, trained", three, [], 1, "mean", 3),
        "trained-vote": ("vote of 6, trained generators", three * 2, [], 1, "vote", 6),
        "mada": ("MADA debate", three, critics, 2, "mean", 6),
    }


def test_votes_have_as_many_calls_as_debates_of_another_shape(stage, base):
    found = shapes(stage("team.generators=2", "team.critics=1", "team.rounds=4"), base)
    assert {name: shape[-1] for name, shape in found.items()} == {
        "single": 1,
        "vote": 5,
        "debate": 5,
        "generators": 2,
        "trained-vote": 5,
        "mada": 5,
    }
    assert found["trained-vote"][1] == [f"generator-{n}" for n in (1, 2, 1, 2, 1)]


@pytest.mark.parametrize("critics", [0, 3])
def test_a_team_of_one_round_has_no_critics_and_no_transcripts(stage, base, critics):
    context = stage(f"team.critics={critics}", "team.rounds=1")
    assert [(shape[2], shape[3], shape[5]) for shape in shapes(context, base).values()] == [
        ([], 1, calls) for calls in (1, 3, 3, 3, 3, 3)
    ]
    summary = asyncio.run(evaluate(context))
    assert (summary["completions wanted in this session"], summary["of these sampled"]) == (8 * (1 + 5 * 3), 8 * 6)
    assert summary["mean accuracy of the team"] == pytest.approx(2 / 3)
    assert lines_of(context, "transcripts") == []


def test_half_of_it_is_kept_and_nothing_is_done_twice(stage, engines):
    context = stage()
    asyncio.run(evaluate(context))
    scores, transcripts = (context.run.path(f"records/{name}.jsonl") for name in ("scores", "transcripts"))
    whole = scores.read_bytes().splitlines(keepends=True), transcripts.read_bytes().splitlines(keepends=True)
    context.run.close()
    # Killed after the transcripts of the fourth item and before its scores.
    scores.write_bytes(b"".join(whole[0][: 3 * 6]))
    transcripts.write_bytes(b"".join(whole[1][: 4 * 2]))
    again = stage()
    summary = asyncio.run(evaluate(again))
    assert (summary["problems"], summary["mean accuracy of the team"]) == (8, 1.0)
    assert len(engines[-1].requests) == 5 * 18
    assert again.watch.progress[0] == (3, 8, "team 100.0% right")
    assert scores.read_bytes().startswith(b"".join(whole[0][: 3 * 6]))
    assert sorted(scores.read_bytes().splitlines(keepends=True)) == sorted(whole[0])
    assert sorted(transcripts.read_bytes().splitlines(keepends=True)) == sorted(whole[1]), "no debate is there twice"


def test_scores_of_an_item_come_all_at_once_and_after_its_transcripts(stage, monkeypatch):
    context = stage()
    written = []
    scores = context.run.records("scores", Score)
    extend = scores.extend

    def note(items):
        items = list(items)
        debates = len(lines_of(context, "transcripts"))
        extend(items)
        written.append((len(items), len({(one.benchmark, one.seed, one.problem) for one in items}), debates))

    monkeypatch.setattr(scores, "extend", note)
    asyncio.run(evaluate(context))
    assert written == [(6, 1, 2 * (place + 1)) for place in range(8)]


def test_the_plan_that_is_written_names_systems_reference_and_benchmarks(stage):
    context = stage()
    asyncio.run(evaluate(context))
    plan = EvaluationPlan.from_json(context.run.path("evaluation.json").read_text())
    assert [(one.name, one.calls, one.measure) for one in plan.systems] == [
        ("single", 1, "mean"),
        ("vote", 6, "vote"),
        ("debate", 6, "mean"),
        ("generators", 3, "mean"),
        ("trained-vote", 6, "vote"),
        ("mada", 6, "mean"),
    ]
    assert (plan.reference, plan.benchmarks) == ("mada", BENCHMARKS)
