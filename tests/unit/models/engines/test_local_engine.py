"""The local engine: its samples and log-probabilities are the model's own, whatever shares the batch."""

import asyncio
import logging
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mada.errors import AdapterError, EngineError, ModelError
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Live, Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.local import setup as engine_setup
from mada.models.engines.local.llama import LlamaNetwork
from mada.models.engines.local.network import HuggingFaceNetwork
from mada.models.engines.local.setup import Limits

AGENTS = ("one", "two", "three")
LLAMA_LIKE = {"qwen2", "qwen3", "llama", "smollm", "smollm3", "mistral"}


def run(*calls):
    async def gather():
        return await asyncio.gather(*calls)

    return asyncio.run(gather())


def make_engine(model, fill, **limits):
    stack = AdapterStack.attach(model, AGENTS, Lora(rank=4, alpha=8))
    fill(stack)
    return stack, LocalEngine(model, stack, **{"context": 64, "rows": 64, **limits})


def requests(count, *, seed=0):
    """Requests of every kind: agents and the bare base, prompts, lengths, temperatures, filters, groups."""
    source = random.Random(seed)
    for number in range(count):
        sampling = Sampling(
            max_tokens=source.randint(1, 20),
            temperature=source.choice([0.0, 0.7, 1.0]),
            top_p=source.choice([1.0, 0.8]),
            top_k=source.choice([None, 5]),
            stop_tokens=(3, 7),
            seed=number,
        )
        prompt = [source.randrange(61) for _ in range(source.randint(1, 30))]
        yield source.choice([*AGENTS, None]), prompt, sampling, source.randint(1, 5)


def own_log_probs(model, stack, agent, prompt, completion, temperature):
    ids = torch.tensor([[*prompt, *completion.token_ids]])
    with torch.no_grad(), stack.routed([agent]):
        log_probs = (model(ids).logits[0] / (temperature or 1.0)).log_softmax(-1)
    return log_probs[len(prompt) - 1 : -1].gather(1, ids[0, len(prompt) :, None])[:, 0]


@pytest.fixture
def asked():
    return list(requests(24))


def sample_all(engine, asked):
    return run(*(engine.sample(agent, prompt, sampling, n=n) for agent, prompt, sampling, n in asked))


def test_log_probs_are_the_models_own_for_every_architecture(architecture, tiny_model, fill, asked):
    model = tiny_model(architecture)
    stack, engine = make_engine(model, fill, rows=7)
    kind = LlamaNetwork if architecture in LLAMA_LIKE else HuggingFaceNetwork
    assert type(engine._batch.network) is kind
    for (agent, prompt, sampling, n), completions in zip(asked, sample_all(engine, asked), strict=True):
        assert len(completions) == n
        for completion in completions:
            want = own_log_probs(model, stack, agent, prompt, completion, sampling.temperature)
            assert torch.tensor(completion.log_probs) == pytest.approx(want, abs=2e-5)


def test_both_networks_sample_the_same_tokens(tiny_model, fill, asked, monkeypatch):
    _, fast = make_engine(tiny_model("qwen3"), fill)
    monkeypatch.setattr(LlamaNetwork, "supports", staticmethod(lambda model: False))
    _, slow = make_engine(tiny_model("qwen3"), fill)
    assert type(slow._batch.network) is HuggingFaceNetwork
    tokens = [[[one.token_ids for one in group] for group in sample_all(each, asked)] for each in (fast, slow)]
    assert tokens[0] == tokens[1]


def test_the_same_request_gives_the_same_tokens_whatever_else_is_in_the_batch(tiny_model, fill):
    asked = list(requests(60))
    _, engine = make_engine(tiny_model(), fill)
    together = sample_all(engine, asked)
    alone = [sample_all(engine, [one])[0] for one in asked]
    shuffled = list(enumerate(asked))
    random.Random(1).shuffle(shuffled)
    _, narrow = make_engine(tiny_model(), fill, rows=5)
    mixed = dict(zip([index for index, _ in shuffled], sample_all(narrow, [one for _, one in shuffled]), strict=True))
    for index, group in enumerate(together):
        tokens = [completion.token_ids for completion in group]
        assert tokens == [completion.token_ids for completion in alone[index]]
        assert tokens == [completion.token_ids for completion in mixed[index]]


def test_greedy_equals_generate(tiny_model, fill):
    model = tiny_model()
    stack, engine = make_engine(model, fill)
    prompt = [5, 9, 11]
    (completions,) = run(engine.sample("two", prompt, Sampling(max_tokens=12, temperature=0)))
    ids = torch.tensor([prompt])
    for _ in range(12):
        with torch.no_grad(), stack.routed(["two"]):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)
    assert completions[0].token_ids == tuple(ids[0, 3:].tolist())
    assert completions[0].stop == "length"


def test_completions_of_a_group_differ_and_depend_on_the_seed(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill)
    one, same, other = run(
        *(engine.sample("one", [4, 5], Sampling(max_tokens=15, seed=seed), n=4) for seed in (1, 1, 2))
    )
    assert len({completion.token_ids for completion in one}) == 4
    assert one == same
    assert one != other


def test_stop_tokens_end_a_completion_and_are_part_of_it(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill)
    sampling = Sampling(max_tokens=60, stop_tokens=tuple(range(0, 61, 2)))
    (completions,) = run(engine.sample("one", [4, 5], sampling, n=20))
    for completion in completions:
        assert completion.stop == "end"
        assert [token % 2 for token in completion.token_ids] == [1] * (len(completion.token_ids) - 1) + [0]


def test_a_row_that_fills_the_context_is_cut_there(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill, context=16)
    (completions,) = run(engine.sample("one", [4] * 15, Sampling(max_tokens=50), n=2))
    assert [(len(one.token_ids), one.stop) for one in completions] == [(1, "length")] * 2
    (completions,) = run(engine.sample("one", [4] * 10, Sampling(max_tokens=50)))
    assert len(completions[0].token_ids) == 6


def test_a_groups_prompt_is_read_once(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill)
    run(engine.sample("one", [4] * 20, Sampling(max_tokens=5), n=16))
    assert engine.statistics.prompt_tokens == 20
    assert engine.statistics.generated_tokens == 80


def test_a_group_larger_than_the_batch_shares_its_prompt_with_rows_still_alive(tiny_model, fill):
    model = tiny_model()
    stack, engine = make_engine(model, fill, rows=4)
    sampling = Sampling(max_tokens=12, stop_tokens=tuple(range(30)))
    (completions,) = run(engine.sample("two", [4, 8, 9, 30], sampling, n=30))
    # Read again only when a whole batch of its rows ended at once.
    assert engine.statistics.prompt_tokens < 30 * 4 / 3
    for completion in completions:
        want = own_log_probs(model, stack, "two", [4, 8, 9, 30], completion, 1.0)
        assert torch.tensor(completion.log_probs) == pytest.approx(want, abs=2e-5)


def test_freed_slots_are_refilled_at_once(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill, rows=4)
    lengths = [20, 2, 2, 2, 18, 2, 2, 2, 16]
    run(*(engine.sample("one", [4], Sampling(max_tokens=length, seed=length)) for length in lengths))
    # Rows of 20, 18 + 2 and so on run side by side; in padded batches of four, steps would be 20 + 18 + 16.
    assert engine.statistics.steps < 28


def test_the_engine_sees_an_update_at_once(tiny_model, fill):
    model = tiny_model()
    stack, engine = make_engine(model, fill)
    ask = ("one", [4, 5, 6], Sampling(max_tokens=10, temperature=0), 1)
    before = sample_all(engine, [ask])[0][0]
    fill(stack, seed=9)
    after = sample_all(engine, [ask])[0][0]
    assert before.token_ids != after.token_ids
    want = own_log_probs(model, stack, "one", [4, 5, 6], after, 0)
    assert torch.tensor(after.log_probs) == pytest.approx(want, abs=2e-5)


def test_weights_are_shared_and_stay_the_models(tiny_model, fill, token_ids):
    model = tiny_model()
    ids = token_ids(2)
    with torch.no_grad():
        before = model(ids).logits
    count = sum(parameter.numel() for parameter in model.parameters())
    stack, engine = make_engine(model, fill)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, before)
    adapters = sum(parameter.numel() for parameter in stack.parameters().values())
    assert sum(parameter.numel() for parameter in model.parameters()) == count + adapters
    network = engine._batch.network
    assert isinstance(network, LlamaNetwork)
    joined = network.blocks[0].qkv
    layer = stack.layers["model.layers.0.self_attn.k_proj"]
    for whole, part in ((joined.weight, layer.base.weight), (joined.A_IGKR, layer.A_KRI), (joined.B_KRO, layer.B_KRO)):
        assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()


def test_cancelling_frees_the_slot(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill, rows=2)

    async def scenario():
        long = asyncio.create_task(engine.sample("one", [4], Sampling(max_tokens=60), n=2))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(engine.sample("two", [4], Sampling(max_tokens=3)))
        unlucky = asyncio.create_task(engine.sample("two", [4], Sampling(max_tokens=3)))
        await asyncio.sleep(0)
        long.cancel()
        unlucky.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        return await asyncio.wait_for(waiting, 60)

    steps = engine.statistics.steps
    assert len(asyncio.run(scenario())[0].token_ids) == 3
    assert engine.statistics.steps - steps < 60
    assert not engine._rows
    assert not engine._queue


def test_closing_cancels_what_waits(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill, rows=1)

    async def scenario():
        tasks = [asyncio.create_task(engine.sample("one", [4], Sampling(max_tokens=60))) for _ in range(3)]
        await asyncio.sleep(0)
        await engine.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in asyncio.run(scenario())] == [asyncio.CancelledError] * 3


def test_a_failing_step_reaches_every_caller(tiny_model, fill, monkeypatch):
    _, engine = make_engine(tiny_model(), fill)

    def broken(*_, **__):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(engine._batch.network, "decode", broken)

    async def scenario():
        asked = [engine.sample("one", [4], Sampling(max_tokens=5)) for _ in range(2)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [str(error) for error in asyncio.run(scenario())] == ["the device is gone"] * 2


def test_an_engine_serves_one_event_loop_after_another(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill)
    ask = ("one", [4], Sampling(max_tokens=5), 1)
    assert sample_all(engine, [ask]) == sample_all(engine, [ask])


def test_without_a_stack_it_samples_the_model_and_refuses_agents(tiny_model, fill):
    model = tiny_model()
    engine = LocalEngine(model, context=32)
    (completions,) = run(engine.sample(None, [4, 5], Sampling(max_tokens=6, temperature=0)))
    ids = torch.tensor([[4, 5, *completions[0].token_ids]])
    with torch.no_grad():
        assert model(ids).logits[0, 1:-1].argmax(-1).tolist() == list(completions[0].token_ids)
    with pytest.raises(EngineError, match="has no adapters"):
        run(engine.sample("one", [4], Sampling(max_tokens=5)))
    _, engine = make_engine(tiny_model(), fill)
    for agent, prompt, error in (("four", [4], AdapterError), ("one", [], EngineError), ("one", [61], EngineError)):
        with pytest.raises(error):
            run(engine.sample(agent, prompt, Sampling(max_tokens=5)))


def test_the_batch_is_as_large_as_the_memory_budget(tiny_model, fill):
    # 2 layers × keys and values × 2 heads × 8 numbers × 4 bytes = 256 bytes a token.
    _, engine = make_engine(tiny_model(), fill, context=64, rows=None, kv_memory=5 * 64 * 256 + 100)
    assert engine.slots == 5


def test_memory_in_torchs_cache_is_free(tiny_model, monkeypatch):
    gpu = {"taken": 30, "cached": 60}
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: gpu.update({"cached": 0}))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 - sum(gpu.values()), 100))
    on_a_gpu: Any = SimpleNamespace(device=torch.device("cuda"), config=tiny_model().config)

    def budget(*, alone):
        return Limits.of(on_a_gpu, context=64, rows=None, kv_memory=None, alone=alone).kv_memory

    assert (budget(alone=False), budget(alone=True)) == (28, 49)


def test_a_context_beyond_the_models_window_is_refused(tiny_model):
    with pytest.raises(EngineError, match="window is 64"):
        LocalEngine(tiny_model(), context=65)
    with pytest.raises(EngineError, match="at least 1 row"):
        LocalEngine(tiny_model(), rows=0)


def test_a_network_that_differs_from_the_model_is_not_used(tiny_model, fill, monkeypatch, caplog, asked):
    monkeypatch.setattr("mada.models.engines.local.llama._rotate", lambda x, cos, sin: x)
    with caplog.at_level(logging.WARNING):
        model = tiny_model()
        stack, engine = make_engine(model, fill)
    assert "LlamaNetwork is off by" in caplog.text
    assert type(engine._batch.network) is HuggingFaceNetwork
    monkeypatch.setattr(engine_setup, "_difference", lambda *_: 1.0)
    with pytest.raises(ModelError, match="cannot be sampled"):
        LocalEngine(model, stack)


def test_what_is_sampled_so_far_can_be_read_and_nothing_else_changes(tiny_model, fill):
    _, engine = make_engine(tiny_model(), fill)
    prompt, sampling = [5, 6, 7], Sampling(max_tokens=20, seed=3)
    [plain] = run(engine.sample("one", prompt, sampling, n=3))
    lives, seen = [Live() for _ in range(3)], []

    async def watch():
        task = asyncio.ensure_future(engine.sample("one", prompt, sampling, n=3, live=lives))
        while not task.done():
            seen.append([len(live.token_ids) for live in lives])
            await asyncio.sleep(0)
        return await task

    completions = asyncio.run(watch())
    assert completions == plain
    assert [tuple(live.token_ids) for live in lives] == [one.token_ids for one in completions]
    assert [tuple(live.log_probs) for live in lives] == [one.log_probs for one in completions]
    assert len({tuple(lengths) for lengths in seen}) > 10
