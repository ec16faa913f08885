"""Stage 3: every generator answers every problem once, and an interruption costs nothing that is finished (T5, T7)."""

import asyncio
import json

import pytest

from mada.agents import AdaptedModel
from mada.pipeline.critic_data import CriticExample, critic_data, read_critic_examples
from mada.pipeline.split import read_problems, read_split, split
from mada.seeds import seed_for

GENERATORS = ("generator-1", "generator-2", "generator-3")


@pytest.fixture
def stage(tiny, opened, with_adapters, scripted):
    """A run that is cut and has generators; the first is always right, the second never, the third by the seed."""
    context = opened(tiny())
    asyncio.run(split(context))
    with_adapters(context)
    answers = {one.question: one.answer for one in read_problems(context.run).values()}

    def reply(agent, prompt, seed):
        [answer] = [answer for question, answer in answers.items() if question in prompt]
        said = {"generator-1": answer, "generator-2": "-7", "generator-3": answer if seed % 2 else "-7"}[agent]
        return f"{seed}\n" + rf"Therefore, the final answer is: $\boxed{{{said}}}$. I hope it is correct"

    return context, scripted(reply)


def test_every_generator_answers_every_problem_once_with_its_own_seed(stage):
    context, engines = stage
    asyncio.run(critic_data(context))
    problems = read_problems(context.run)
    assert len(problems) == 22, "three subsets and the validation set"
    wanted = [(agent, name) for name in problems for agent in GENERATORS]
    seeds = {seed_for(0, "critic-data", name, agent): (agent, name) for agent, name in wanted}
    asked = [(request.agent, seeds[request.sampling.seed][1]) for request in engines[0].requests]
    assert sorted(asked) == sorted(wanted)
    assert engines[0].trained == list(GENERATORS)
    assert engines[0].alone
    assert {request.sampling.max_tokens for request in engines[0].requests} == {96}, "as in a debate"


def test_a_record_is_the_problem_with_all_responses_and_their_share_of_right_ones(stage):
    context, _ = stage
    asyncio.run(critic_data(context))
    problems, parts = read_problems(context.run), read_split(context.run).parts
    examples = read_critic_examples(context.run)
    assert [(one.part, one.problem) for one in examples] == [(part.name, name) for part in parts for name in part.ids]
    for one in examples:
        problem = problems[one.problem]
        assert (one.question, one.reference, one.agents) == (problem.question, problem.answer, GENERATORS)
        seeds = [seed_for(0, "critic-data", one.problem, agent) for agent in GENERATORS]
        assert [response.text.split("\n")[0] for response in one.responses] == [str(seed) for seed in seeds]
        lucky = seeds[2] % 2 == 1
        assert one.correct == (True, False, lucky)
        assert [response.answer for response in one.responses] == [
            problem.answer,
            "-7",
            problem.answer if lucky else "-7",
        ]
        assert one.generator_accuracy == pytest.approx(2 / 3 if lucky else 1 / 3)


def test_the_summary_counts_examples_by_right_answers(stage):
    context, _ = stage
    summary = asyncio.run(critic_data(context)).to_summary()
    lucky = sum(seed_for(0, "critic-data", name, "generator-3") % 2 for name in read_problems(context.run))
    assert 0 < lucky < 22
    assert summary == {
        "examples": 22,
        "by right answers": {"0": 0, "1": 22 - lucky, "2": lucky, "3": 0},
        "generator accuracy": pytest.approx((22 + lucky) / 66),
        "problems left out, too long for the window": 0,
        "cut off": 0,
        "no answer": 0,
    }
    assert context.events.progress_seen[0] == (0, 22, "")
    assert context.events.progress_seen[-1] == (22, 22, "")


def test_half_of_it_is_kept_to_the_byte_and_the_rest_comes_out_as_it_would_have(stage, opened, tiny, base):
    context, engines = stage
    summary = asyncio.run(critic_data(context)).to_summary()
    path = context.run.path("records/critic-examples.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    context.run.close()
    path.write_bytes(b"".join(lines[:11]) + lines[11][:40])  # killed in the middle of a record
    again = opened(tiny())
    assert asyncio.run(critic_data(again)).to_summary() == summary
    assert path.read_bytes().startswith(b"".join(lines[:11]))
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(lines)
    kept = {json.loads(line)["problem"] for line in lines[:11]}
    assert len(engines[1].requests) == 11 * 3
    assert again.events.progress_seen[0] == (11, 22, "")
    questions = {one.id: one.question for one in read_problems(again.run).values()}
    asked = [base.tokenizer.decode(list(request.prompt_ids)) for request in engines[1].requests]
    assert not [name for name in kept if any(questions[name] in text for text in asked)]


def test_replies_that_are_cut_off_or_say_nothing_are_counted_and_wrong(stage, scripted):
    context, _ = stage
    scripted(lambda agent, prompt, seed: "1 " * 200 if agent == "generator-1" else "who knows")
    summary = asyncio.run(critic_data(context)).to_summary()
    assert (summary["cut off"], summary["no answer"]) == (22, 66)
    assert summary["by right answers"] == {"0": 22, "1": 0, "2": 0, "3": 0}
    assert summary["generator accuracy"] == 0.0
    assert read_critic_examples(context.run)[0].responses[0].token_count == 96


def test_the_first_failure_ends_the_stage_and_what_was_answered_is_kept(stage, scripted, opened, tiny):
    context, _ = stage
    asked = []

    def reply(agent, prompt, seed):
        asked.append(agent)
        if len(asked) > 30:
            raise RuntimeError("the engine broke")
        return r"\boxed{1}"

    scripted(reply)
    with pytest.raises(RuntimeError, match="the engine broke"):
        asyncio.run(critic_data(context))
    kept = len(context.run.records("critic-examples", CriticExample))
    assert 0 < kept <= 10
    again = opened(tiny())
    engines = scripted(lambda agent, prompt, seed: r"\boxed{1}")
    assert asyncio.run(critic_data(again)).examples == 22
    assert len(engines[-1].requests) == 3 * (22 - kept)


def test_a_problem_too_long_for_the_window_is_left_out_and_counted(stage, monkeypatch):
    context, _ = stage
    too_long = read_split(context.run).ids("subset-2")[0]
    question = read_problems(context.run)[too_long].question
    encode = AdaptedModel.encode
    # The window has 512 tokens, of which a reply may fill 96.
    monkeypatch.setattr(
        AdaptedModel, "encode", lambda self, text: (0,) * 417 if question in text else encode(self, text)
    )
    summary = asyncio.run(critic_data(context)).to_summary()
    assert (summary["examples"], summary["problems left out, too long for the window"]) == (21, 1)
    assert too_long not in {one.problem for one in read_critic_examples(context.run)}
