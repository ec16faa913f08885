"""The stage `screen`: the bare base answers, and generators learn from what it gets right sometimes."""

import asyncio
from collections import Counter

import pytest

from mada.pipeline.running import copy_generators
from mada.pipeline.screen import Screening, learnable, screen
from mada.pipeline.split import read_problems, read_split, split
from mada.pipeline.stages import generator_stages, stage_names
from mada.seeds import seed_for

SUBSETS = ("subset-1", "subset-2", "subset-3")


@pytest.fixture
def stage(tiny, opened, scripted):
    """A run that is cut; the base gets a subset's first problem right always, its second never, others sometimes."""
    context = opened(tiny("data.screen=5"))
    asyncio.run(split(context))
    problems, cut = read_problems(context.run), read_split(context.run)
    always, never = ({cut.ids(name)[place] for name in SUBSETS} for place in (0, 1))
    turns = Counter()

    def reply(agent, prompt, seed):
        [problem] = [one for one in problems.values() if one.question in prompt]
        turn = turns[problem.id] % 5
        turns[problem.id] += 1
        right = problem.id in always or (problem.id not in never and turn < 3)
        return rf"Therefore, the final answer is: $\boxed{{{problem.answer if right else -7}}}$. I hope it is correct"

    return context, scripted(reply)


def asked_of(engine, base, problems):
    """Return the problem of every request."""
    texts = [base.tokenizer.decode(list(request.prompt_ids)) for request in engine.requests]
    return [one.id for text in texts for one in problems.values() if one.question in text]


def test_only_recipes_that_ask_for_it_have_the_stage(tiny):
    assert stage_names(tiny())[:2] == ("split", "generators")
    assert stage_names(tiny("data.screen=2"))[:3] == ("split", "screen", "generators")
    assert generator_stages(tiny("data.screen=2")) == ("split", "screen", "generators", "critic-data")


def test_the_bare_base_answers_the_subsets_as_it_would_in_training(stage, base):
    context, engines = stage
    asyncio.run(screen(context))
    cut = read_split(context.run)
    asked = asked_of(engines[0], base, read_problems(context.run))
    assert Counter(asked) == {one: 5 for name in SUBSETS for one in cut.ids(name)}, "the validation set stays whole"
    assert engines[0].alone
    for request, name in zip(engines[0].requests, asked, strict=True):
        sampling = request.sampling
        assert request.agent is None
        assert (sampling.max_tokens, sampling.temperature, sampling.seed) == (64, 0.7, seed_for(0, "screen", name))


def test_generators_learn_from_what_is_right_sometimes(stage):
    context, _ = stage
    summary = asyncio.run(screen(context)).to_summary()
    cut = read_split(context.run)
    assert {name: learnable(context, name) for name in SUBSETS} == {name: cut.ids(name)[2:] for name in SUBSETS}
    assert summary == {
        "problems": 18,
        "learnable": 12,
        "by right answers": {"0": 3, "1": 0, "2": 0, "3": 12, "4": 0, "5": 3},
        "problems left out, too long for the window": 0,
        "cut off": 0,
    }


def test_what_was_answered_is_not_asked_again(stage, opened, tiny, base):
    context, engines = stage
    summary = asyncio.run(screen(context)).to_summary()
    path = context.run.path("records/screenings.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    context.run.close()
    path.write_bytes(b"".join(lines[:7]) + lines[7][:10])  # killed in the middle of a record
    again = opened(tiny("data.screen=5"))
    assert asyncio.run(screen(again)).to_summary() == summary
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(lines)
    assert len(asked_of(engines[1], base, read_problems(again.run))) == 11 * 5
    assert again.events.progress_seen[0] == (7, 18, "")


def test_a_run_that_borrows_generators_borrows_what_they_were_chosen_by(stage, opened, tiny, with_adapters, scripted):
    from mada.pipeline.critic_data import critic_data
    from mada.runs import Run, StoredRun

    context, _ = stage
    for name, function in {"screen": screen, "critic-data": critic_data}.items():
        with context.run.stage(name) as mark:
            if name == "critic-data":
                with_adapters(context)
            mark.summarize(asyncio.run(function(context)).to_summary())
    for name in ("split", "generators"):
        with context.run.stage(name) as mark:
            mark.summarize({})
    other = tiny("data.screen=5", "critics.advantage=grpo")
    folder = context.run.folder.parent / "other"
    with Run.open(folder, other) as run:
        copy_generators(StoredRun.read(context.run.folder), run, other)
        assert all(run.mark(name) for name in generator_stages(other))
        assert len(run.records("screenings", Screening)) == 18
