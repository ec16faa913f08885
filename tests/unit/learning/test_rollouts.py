import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from mada.errors import LearningError
from mada.learning.advantages import Credit, check_credit, credit_groups
from mada.learning.rollouts import (
    Group,
    GroupRequest,
    Reward,
    TrainingPrompt,
    digest_of_prompts,
    prompts_of_step,
    sample_groups,
    steps_to_take,
)
from mada.models.engines import Completion, Sampling, ScriptedEngine, ScriptedRequest
from mada.recipe.schema import TrainingSettings

PROMPTS = [TrainingPrompt(f"p{place}", (place,)) for place in range(5)]
SAMPLING = Sampling(max_tokens=4, temperature=0.7)


def ids(prompts: Sequence[TrainingPrompt]) -> list[str]:
    return [prompt.id for prompt in prompts]


def step(number: int, *, count: int = 2, agent: str = "a", prompts: Sequence[TrainingPrompt] = PROMPTS) -> list[str]:
    return ids(prompts_of_step(prompts, number, agent=agent, count=count, seed=3))


def test_every_epoch_is_a_permutation_and_steps_go_on_across_epochs():
    seen = [name for number in range(1, 11) for name in step(number)]
    epochs = [seen[start : start + 5] for start in range(0, 20, 5)]
    assert all(sorted(epoch) == ids(PROMPTS) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4, "a fresh order every epoch"


def test_an_agent_with_few_prompts_sees_them_more_than_once_in_a_step():
    few = PROMPTS[:2]
    seen = step(1, count=5, prompts=few)
    assert [sorted(seen[:2]), sorted(seen[2:4])] == [["p0", "p1"]] * 2
    assert step(1, count=5, prompts=few)[4:] + step(2, count=5, prompts=few)[:1] in (["p0", "p1"], ["p1", "p0"])


@pytest.mark.parametrize(
    ("epochs", "steps", "expected"),
    [(1.0, None, 3), (0.8, None, 2), (0.2, None, 1), (2.0, None, 5), (0.4, None, 1), (1.0, 7, 7)],
)
def test_steps_come_from_the_settings_or_from_the_epochs_of_the_largest_share(epochs, steps, expected):
    settings = TrainingSettings(batch_size=8, group_size=4, epochs=epochs, steps=steps)
    assert steps_to_take(settings, {"a": PROMPTS, "b": PROMPTS[:1]}) == expected


def test_a_digest_names_everything_but_payloads():
    one = TrainingPrompt("a", (1, 2), "x", 0.5)
    same, others = TrainingPrompt("a", (1, 2), object(), 0.5), [TrainingPrompt("a", (1, 2)), TrainingPrompt("a", (12,))]
    assert digest_of_prompts([one]) == digest_of_prompts([same])
    assert len({digest_of_prompts([prompt]) for prompt in (one, *others)}) == 3


def requests(count: int) -> list[GroupRequest]:
    return [GroupRequest(f"agent-{place % 2}", PROMPTS[place], 100 + place) for place in range(count)]


async def by_length(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
    return [Reward(float(len(one.token_ids)), len(one.token_ids) > 1) for one in drawn]


def test_groups_come_in_the_order_of_their_requests_whichever_is_done_first():
    async def script(request: ScriptedRequest) -> list[int]:
        await asyncio.sleep(0.01 * (3 - request.prompt_ids[0]))
        return [request.sampling.seed] * (request.index + 1)

    engine, seen = ScriptedEngine(script), []
    groups = asyncio.run(
        sample_groups(
            engine, requests(3), by_length, sampling=SAMPLING, size=2, progress=lambda *done: seen.append(done)
        )
    )
    assert [(group.agent, group.prompt.id) for group in groups] == [
        ("agent-0", "p0"),
        ("agent-1", "p1"),
        ("agent-0", "p2"),
    ]
    assert [one.token_ids for one in groups[1].completions] == [(101,), (101, 101)]
    assert groups[1].rewards == (Reward(1.0, False), Reward(2.0, True))
    assert (groups[1].tokens, groups[1].has_spread) == (3, True)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert {(request.sampling.temperature, request.sampling.max_tokens) for request in engine.requests} == {(0.7, 4)}


def test_a_group_is_scored_while_others_are_still_sampled():
    async def main() -> None:
        scored = asyncio.Event()

        async def script(request: ScriptedRequest) -> list[int]:
            if request.prompt_ids == (1,):
                await asyncio.wait_for(scored.wait(), 5)
            return [1]

        async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
            scored.set()
            return [Reward(0.0)]

        await sample_groups(ScriptedEngine(script), requests(2), score, sampling=SAMPLING, size=1)

    asyncio.run(main())


@pytest.mark.parametrize("where", ["engine", "scorer", "outside"])
def test_a_failure_ends_the_others_and_is_raised_as_it_is(where):
    ended: list[int] = []

    async def main() -> None:
        async def script(request: ScriptedRequest) -> list[int]:
            if request.prompt_ids == (0,):
                if where == "engine":
                    raise LookupError("no such thing")
                return [1]
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(request.prompt_ids[0])
                raise
            return [1]

        async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
            if where == "scorer":
                raise LookupError("no such thing")
            return [Reward(0.0)]

        task = asyncio.create_task(sample_groups(ScriptedEngine(script), requests(4), score, sampling=SAMPLING, size=1))
        await asyncio.sleep(0.05)
        if where == "outside":
            task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError if where == "outside" else LookupError):
        asyncio.run(main())
    assert sorted(ended) == [1, 2, 3], "nothing goes on sampling"


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (
            [Reward(1.0)],
            r"prompt 'p0' of agent-0 the scorer returned the rewards \[1\.0\]; .* each of 2 completions",
        ),
        ([Reward(1.0), Reward(float("nan"))], r"'p0' of agent-0 the scorer returned the rewards \[1\.0, nan\]"),
    ],
)
def test_a_scorer_that_breaks_its_promise_is_named(rewards, message):
    async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
        return rewards

    engine = ScriptedEngine(lambda request: [1])
    with pytest.raises(LearningError, match=message):
        asyncio.run(sample_groups(engine, requests(1), score, sampling=SAMPLING, size=2))


def group(*rewards: float, accuracy: float | None = None, stops: str = "") -> Group:
    ends = stops or "e" * len(rewards)
    drawn = tuple(Completion((1, 2), (-0.5, -0.5), "length" if end == "l" else "end") for end in ends)
    prompt = TrainingPrompt("p", (7,), generator_accuracy=accuracy)
    return Group("a", prompt, drawn, tuple(Reward(reward) for reward in rewards))


def test_the_specs_examples_go_through():
    rewards = (2.5, 2.0, -0.5, 1.5)
    [critic] = credit_groups([group(*rewards, accuracy=1 / 3)], Credit("counterfactual"), truncated="learn")
    np.testing.assert_allclose(critic.advantages, [11 / 6, 4 / 3, -7 / 6, 5 / 6], rtol=1e-15)
    [generator] = credit_groups([group(*rewards)], Credit("grpo", "sample"), truncated="learn")
    assert np.round(generator.advantages, 4).tolist() == [0.8555, 0.4753, -1.4259, 0.0951]
    [generator] = credit_groups([group(*rewards)], Credit("grpo", "population"), truncated="learn")
    assert np.round(generator.advantages, 4).tolist() == [0.9879, 0.5488, -1.6465, 0.1098]
    assert generator.learn == (True,) * 4


def test_a_group_without_spread_is_passed_over_by_grpo_and_learnt_from_by_the_counterfactual():
    groups = [group(2.0, 2.0, accuracy=0.5), group(2.0, 1.0, accuracy=0.5), group(1.0, 1.0, accuracy=0.5)]
    learn = [own.learn for own in credit_groups(groups, Credit("grpo"), truncated="learn")]
    assert learn == [(False, False), (True, True), (False, False)]
    critics = credit_groups(groups, Credit("counterfactual"), truncated="learn")
    assert [own.advantages for own in critics] == [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    assert [own.learn for own in critics] == [(True, True), (True, True), (False, False)], "only if all are exactly 0"


def test_a_truncated_completion_counts_in_its_group_and_is_learnt_from_by_the_stated_rule():
    groups = [group(2.0, 0.0, 1.0, stops="ele")]
    [learnt] = credit_groups(groups, Credit(), truncated="learn")
    [skipped] = credit_groups(groups, Credit(), truncated="skip")
    assert learnt.advantages == skipped.advantages
    assert (learnt.learn, skipped.learn) == ((True, True, True), (True, False, True))


def test_the_learner_is_given_tokens_and_log_probs():
    [credited] = credit_groups([group(1.0, 0.0, stops="el")], Credit(), truncated="skip")
    first, second = credited.for_learner()
    assert (first.agent, first.prompt_ids, first.completion_ids) == ("a", (7,), (1, 2))
    assert (first.engine_log_probs, first.learn, second.learn) == ((-0.5, -0.5), True, False)
    assert first.advantage == -second.advantage > 0


@pytest.mark.parametrize(
    ("accuracies", "credit", "message"),
    [
        ([None, None], Credit("counterfactual"), "'counterfactual': .* needs the generators' accuracy on every prompt"),
        ([0.5, None], Credit("grpo"), "1 of 2 prompts have no generator_accuracy, 'p1' for one; give it to all"),
        ([0.5, 1.5], Credit("counterfactual"), r"must be one number in \[0, 1\]"),
        ([None, None], Credit("gae"), "unknown advantage 'gae'"),
    ],
)
def test_prompts_that_cannot_be_credited_are_refused_before_anything_is_sampled(accuracies, credit, message):
    prompts = [TrainingPrompt(f"p{place}", (1,), None, accuracy) for place, accuracy in enumerate(accuracies)]
    with pytest.raises(LearningError, match=message):
        check_credit(prompts, credit)
