"""The engine on vLLM: it samples what the learner's model says, with the adapters of now, and gives its memory back.

One engine serves most tests, since starting one takes a while; it belongs to the event loop of the module's runner.
bfloat16 throughout: vLLM's adapters know no float32. Rounding then moves a log-prob by up to 0.06 in this model (0.007
on average), another adapter by 3.3 on average, so mixing up adapters or versions cannot hide behind the tolerance.
"""

import asyncio
import importlib.util
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mada.errors import EngineError
from mada.models.adapters import AdapterStack, Lora, save_adapter
from mada.models.engines import Live, Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.vllm import VllmEngine

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM: pip install 'mada-rl[vllm]'"),
    # vLLM and what it imports warn of much that is not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

VOCABULARY = 512
CLOSE, CLOSE_ON_AVERAGE, APART = 0.15, 0.03, 1.0
ENDS = list(range(100))  # what the model's files call ends; only a request's stop tokens may be
GIB = 2**30


def make_model():
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False, eos_token_id=ENDS[0],
    )  # fmt: skip
    model: Any = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(4)  # a random model is close to undecided otherwise
    model.generation_config.eos_token_id = ENDS
    return model.to(torch.bfloat16)


def fill(stack, *, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in stack.parameters().values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


@dataclass(frozen=True)
class Running:
    """An engine, the stack whose adapters it samples, and the runner of its event loop."""

    engine: VllmEngine
    stack: AdapterStack
    runner: asyncio.Runner

    @property
    def llm(self) -> Any:
        """vLLM's own engine."""
        backend: Any = self.engine._backend
        return backend._engine

    def sample(self, asked, engine: Any = None):
        async def gather():
            calls = [(engine or self.engine).sample(agent, prompt, how, n=n) for agent, prompt, how, n in asked]
            return await asyncio.gather(*calls)

        return self.runner.run(gather())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    make_model().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def share():
    """As much as the tiny model needs: a cache for it of all that is free would be millions of blocks."""
    return 6 * GIB / torch.cuda.mem_get_info()[1]


def make_stack():
    stack = AdapterStack.attach(make_model().cuda(), ["a", "b"], Lora(rank=8, alpha=16))
    fill(stack, seed=1)
    return stack


@pytest.fixture(scope="module")
def running(folder, share):
    stack = make_stack()
    with asyncio.Runner() as runner:
        engine = runner.run(VllmEngine.start(folder, stack=stack, context=256, rows=32, memory=share))
        yield Running(engine, stack, runner)
        runner.run(engine.close())


def requests(count, *, temperatures=(0.0, 0.7, 1.0), seed=0) -> Iterator[tuple[str | None, list[int], Sampling, int]]:
    source = random.Random(seed)
    for number in range(count):
        sampling = Sampling(
            max_tokens=source.randint(1, 60), temperature=source.choice(temperatures), stop_tokens=(3, 7), seed=number
        )
        prompt = [source.randrange(VOCABULARY) for _ in range(source.randint(1, 90))]
        yield source.choice(["a", "b", None]), prompt, sampling, source.randint(1, 4)


def log_probs_of(stack, agent, prompt, token_ids, temperature):
    """All log-probs at the places of a reply, as the learner's model has them."""
    ids = torch.tensor([[*prompt, *token_ids]]).cuda()
    with torch.no_grad(), stack.routed([agent]):
        logits = stack.model(ids).logits[0].float() / (temperature or 1.0)
    return logits.log_softmax(-1)[len(prompt) - 1 : -1].cpu()


def differences(stack, asked, sampled, *, agents=None):
    """How far the engine's log-probs are from the learner's; `agents` replaces those asked."""
    found = []
    for (agent, prompt, how, _), completions in zip(asked, sampled, strict=True):
        whose = agents[agent] if agents else agent
        for completion in completions:
            all_of = log_probs_of(stack, whose, prompt, completion.token_ids, how.temperature)
            own = all_of.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0]
            found.append((own - torch.tensor(completion.log_probs)).abs())
    return torch.cat(found)


def assert_close(found):
    assert float(found.mean()) < CLOSE_ON_AVERAGE
    assert float(found.max()) < CLOSE


def test_log_probs_are_the_learners_at_every_temperature(running):
    for temperature in (0.0, 0.7, 1.0):
        asked = list(requests(20, temperatures=(temperature,)))
        assert_close(differences(running.stack, asked, running.sample(asked)))


def test_every_row_has_its_own_adapter(running):
    asked = [request for request in requests(40) if request[0] is not None]
    sampled = running.sample(asked)
    assert_close(differences(running.stack, asked, sampled))
    exchanged = differences(running.stack, asked, sampled, agents={"a": "b", "b": "a"})
    assert float(exchanged.mean()) > APART


def test_greedy_replies_are_the_local_engines(running):
    local = LocalEngine(running.stack.model, running.stack, context=256, rows=32)
    asked = [(agent, prompt, how, 1) for agent, prompt, how, _ in requests(20, temperatures=(0.0,))]
    pairs = zip(asked, running.sample(asked), running.sample(asked, local), strict=True)
    same = 0
    for (agent, prompt, _, _), [ours], [theirs] in pairs:
        both = zip(ours.token_ids, theirs.token_ids, strict=False)
        place = next((place for place, (one, other) in enumerate(both) if one != other), None)
        if place is None:
            assert (ours.token_ids, ours.stop) == (theirs.token_ids, theirs.stop)
            same += 1
            continue
        # They may part where rounding decides between two tokens, and nowhere else.
        likely = log_probs_of(running.stack, agent, prompt, ours.token_ids[: place + 1], 1.0)[place]
        tied = likely[[ours.token_ids[place], theirs.token_ids[place]]]
        assert float(likely.max() - tied.min()) < CLOSE
    assert same >= 5


def test_samples_depend_on_seed_and_index(running):
    prompt = list(range(100, 150))
    how = Sampling(max_tokens=30, seed=11)
    running.sample([("a", prompt, how, 8)])  # from here on, the prompt is in the cache
    [first], [again] = (running.sample([("a", prompt, how, 8)]) for _ in range(2))
    [other] = running.sample([("a", prompt, replace(how, seed=12), 8)])
    assert len({completion.token_ids for completion in first}) == 8
    # Once in a while rounding, which depends on the batch, makes another token of the same random number.
    assert sum(one.token_ids == two.token_ids for one, two in zip(first, again, strict=True)) >= 5
    assert not {completion.token_ids for completion in first} & {completion.token_ids for completion in other}
    [few] = running.sample([("a", prompt, how, 2)])
    assert sum(one.token_ids[:3] == two.token_ids[:3] for one, two in zip(few, first, strict=False)) >= 1


def test_only_our_stop_tokens_end_a_reply(running):
    prompt = list(range(200, 230))
    [[free]] = running.sample([("a", prompt, Sampling(max_tokens=20, temperature=0.0), 1)])
    assert (len(free.token_ids), len(free.log_probs), free.stop) == (20, 20, "length")
    stop = free.token_ids[4]
    place = free.token_ids.index(stop)
    how = Sampling(max_tokens=20, temperature=0.0, stop_tokens=(stop,))
    [[stopped]] = running.sample([("a", prompt, how, 1)])
    assert (stopped.token_ids, stopped.stop) == (free.token_ids[: place + 1], "end")
    [many] = running.sample([("a", prompt, Sampling(max_tokens=50, seed=1), 16)])
    assert {(len(completion.token_ids), completion.stop) for completion in many} == {(50, "length")}
    assert any(token in ENDS for completion in many for token in completion.token_ids[:-1])


def test_the_context_cuts_a_reply(running):
    [[completion]] = running.sample([("b", [9] * 250, Sampling(max_tokens=50, temperature=0.0), 1)])
    assert (len(completion.token_ids), completion.stop) == (6, "length")


def test_a_prompt_is_read_once_for_its_group(running):
    prompt = [(17 * place) % VOCABULARY for place in range(160)]
    before = running.engine.statistics.prompt_tokens
    running.sample([("b", prompt, Sampling(max_tokens=2), 1)])
    assert running.engine.statistics.prompt_tokens - before == 160
    running.sample([("b", prompt, Sampling(max_tokens=2), 8)])
    assert running.engine.statistics.prompt_tokens - before <= 160 + 8 * 16


@pytest.mark.parametrize("sleeping", [False, True])
def test_an_update_is_sampled_from_and_nothing_of_before_is_left(running, sleeping):
    """Without sleeping the prefix cache is full of the older version's keys and values for the very same prompts."""
    asked = [request for request in requests(20, seed=5) if request[0] is not None]
    before = running.sample(asked)
    assert_close(differences(running.stack, asked, before))
    if sleeping:
        running.runner.run(running.engine.sleep())
    fill(running.stack, seed=20 + sleeping)
    running.runner.run(running.engine.wake_up())
    after = running.sample(asked)
    assert_close(differences(running.stack, asked, after))
    assert float(differences(running.stack, asked, before).mean()) > APART
    loaded = running.runner.run(running.llm.list_loras())
    assert set(loaded) == {version.number for version in running.engine._current.values()}
    assert running.engine._files is not None
    kept = {version.folder for version in running.engine._current.values()}
    assert set(running.engine._files.folder.iterdir()) == kept


def test_cancelling_removes_a_request(running):
    async def cancel():
        how = Sampling(max_tokens=240)
        task = asyncio.ensure_future(running.engine.sample("a", [5, 6, 7], how, n=4))
        while not running.llm.output_processor.has_unfinished_requests():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    running.runner.run(cancel())
    assert not running.llm.output_processor.has_unfinished_requests()
    asked = list(requests(3))
    assert_close(differences(running.stack, asked, running.sample(asked)))


def test_what_is_sampled_so_far_can_be_read_and_nothing_else_changes(running):
    prompt, how = list(range(40)), Sampling(max_tokens=100, seed=4)
    [plain] = running.sample([("a", prompt, how, 3)])
    lives, seen = [Live() for _ in range(3)], []

    async def watch():
        task = asyncio.ensure_future(running.engine.sample("a", prompt, how, n=3, live=lives))
        while not task.done():
            seen.append(len(lives[0].token_ids))
            await asyncio.sleep(0.001)
        return await task

    completions = running.runner.run(watch())
    assert [one.token_ids for one in completions] == [one.token_ids for one in plain]
    assert [tuple(live.token_ids) for live in lives] == [one.token_ids for one in completions]
    assert [tuple(live.log_probs) for live in lives] == [one.log_probs for one in completions]
    assert len(set(seen)) > 5


def test_sleeping_frees_memory(running):
    asked = list(requests(5))

    async def sleep_and_wake_up():
        await running.engine.sleep()
        agent, prompt, how, n = asked[0]
        waiting = asyncio.ensure_future(running.engine.sample(agent, prompt, how, n=n))
        await asyncio.sleep(0.1)
        free = torch.cuda.mem_get_info()[0]
        assert not waiting.done()
        await running.engine.wake_up()
        return free, await waiting

    torch.cuda.empty_cache()  # as `wake_up` does
    awake = torch.cuda.mem_get_info()[0]
    sleeping, completions = running.runner.run(sleep_and_wake_up())
    assert sleeping - awake > 2 * GIB
    assert abs(torch.cuda.mem_get_info()[0] - awake) < GIB
    assert_close(differences(running.stack, asked[:1], [completions]))
    assert_close(differences(running.stack, asked, running.sample(asked)))


def test_a_request_that_vllm_refuses_does_not_end_the_engine(running):
    with pytest.raises(EngineError, match="temperature"):
        running.sample([("a", [1], Sampling(max_tokens=1, temperature=3.0), 1)])
    asked = list(requests(3))
    assert_close(differences(running.stack, asked, running.sample(asked)))


def test_fixed_folders_and_closing(folder, tmp_path):
    """The share of memory is found by itself; afterwards the process and its memory are gone."""
    stack = make_stack()
    for agent in stack.agents:
        save_adapter(stack, agent, tmp_path / agent, base_name=str(folder))
    adapters = {"x": tmp_path / "a", "y": tmp_path / "b"}
    names = {"a": "x", "b": "y", None: None}
    asked = [(names[agent], prompt, how, n) for agent, prompt, how, n in requests(12)]
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]

    async def use():
        start = VllmEngine.start(folder, adapters=adapters, context=256, rows=8, reserve=free - 10 * GIB, eager=True)
        engine = await start
        taken = free - torch.cuda.mem_get_info()[0]
        sampled = await asyncio.gather(*(engine.sample(agent, prompt, how, n=n) for agent, prompt, how, n in asked))
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await engine.sample("x", [1], Sampling(max_tokens=1))
        return sampled, taken

    sampled, taken = asyncio.run(use())
    assert_close(differences(stack, asked, sampled, agents={"x": "a", "y": "b", None: None}))
    assert 3 * GIB < taken < 12 * GIB
    assert abs(torch.cuda.mem_get_info()[0] - free) < GIB


def test_closing_removes_the_files_of_a_stack(folder, share):
    async def use():
        engine = await VllmEngine.start(
            folder, stack=make_stack(), context=64, rows=8, memory=share, sleep=False, eager=True
        )
        assert engine._files is not None
        files = engine._files.folder
        assert len(list(files.glob("*/adapter_model.safetensors"))) == 2
        running = asyncio.ensure_future(engine.sample("a", [1, 2], Sampling(max_tokens=60), n=4))
        await asyncio.sleep(0.05)
        await engine.close()
        assert not files.exists()
        return (await asyncio.gather(running, return_exceptions=True))[0]

    # Sixty tokens take longer than 0.05 s as a rule; what is asserted is that closing leaves nobody waiting.
    left = asyncio.run(use())
    assert isinstance(left, asyncio.CancelledError | list)
