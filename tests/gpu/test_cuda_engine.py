"""The engine on a CUDA device: kernels, captured steps, and what they sample."""

import asyncio
import random

import pytest
import torch
from torch.nn import functional

from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.local.setup import Limits


def requests(count):
    source = random.Random(0)
    for number in range(count):
        sampling = Sampling(
            max_tokens=source.randint(1, 60),
            temperature=source.choice([0.0, 0.7, 1.0]),
            top_p=source.choice([1.0, 0.9]) if number > count // 2 else 1.0,
            stop_tokens=(3, 7),
            seed=number,
        )
        prompt = [source.randrange(100) for _ in range(source.randint(1, 90))]
        yield source.choice(["a", "b", None]), prompt, sampling, source.randint(1, 5)


def sample_all(engine, asked):
    async def gather():
        return await asyncio.gather(*(engine.sample(agent, prompt, how, n=n) for agent, prompt, how, n in asked))

    return asyncio.run(gather())


def largest_difference(stack, asked, sampled):
    worst = 0.0
    for (agent, prompt, how, _), completions in zip(asked, sampled, strict=True):
        for completion in completions:
            ids = torch.tensor([[*prompt, *completion.token_ids]]).cuda()
            with torch.no_grad(), stack.routed([agent]):
                logits = stack.model(ids).logits[0].float() / (how.temperature or 1.0)
            own = logits.log_softmax(-1)[len(prompt) - 1 : -1].gather(1, ids[0, len(prompt) :, None])[:, 0]
            worst = max(worst, float((own.cpu() - torch.tensor(completion.log_probs)).abs().max()))
    return worst


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "mistral", "gemma2"])
@pytest.mark.parametrize("rows", [7, 64])
def test_log_probs_are_the_models_own(make_stack, architecture, rows):
    stack = make_stack(architecture)
    engine = LocalEngine(stack.model, stack, context=256, rows=rows)
    expected = "HuggingFaceNetwork" if architecture == "gemma2" else "CudaLlamaNetwork"
    assert type(engine._batch.network).__name__ == expected
    asked = list(requests(30))
    assert largest_difference(stack, asked, sample_all(engine, asked)) < 5e-5


def test_half_precision_stays_close(make_stack):
    stack = make_stack(dtype=torch.bfloat16, std=0.05)
    engine = LocalEngine(stack.model, stack, context=256, rows=16)
    asked = list(requests(20))
    assert largest_difference(stack, asked, sample_all(engine, asked)) < 0.1


def test_an_update_is_seen_by_captured_steps(make_stack):
    stack = make_stack()
    engine = LocalEngine(stack.model, stack, context=256, rows=16)
    asked = list(requests(10))
    before = sample_all(engine, asked)
    with torch.no_grad():
        for parameter in stack.parameters().values():
            parameter.mul_(-1.3)
    after = sample_all(engine, asked)
    assert before != after
    assert largest_difference(stack, asked, after) < 5e-5


def test_memory_that_is_left_to_the_allocator_is_free(make_stack):
    model = make_stack().model
    fresh = Limits.of(model, context=256, rows=None, kv_memory=None).kv_memory
    left = torch.empty(torch.cuda.mem_get_info()[0] // 2, dtype=torch.uint8, device="cuda")
    del left
    assert Limits.of(model, context=256, rows=None, kv_memory=None).kv_memory > 0.9 * fresh


def test_attention_over_rows_of_different_lengths():
    from mada.models.engines.local import kernels

    generator = torch.Generator(device="cuda").manual_seed(0)

    def rand(*shape):
        return torch.randn(*shape, generator=generator, device="cuda")

    for heads, per_head, size, rows, window in ((2, 6, 128, 3, None), (2, 1, 64, 5, 20), (1, 4, 32, 300, None)):
        context = 700
        keys, values = rand(rows, heads, context, size), rand(rows, heads, context, size)
        lengths = torch.randint(0, context, (rows,), generator=generator, device="cuda")
        lengths[0], lengths[1] = 0, context - 1
        queries = rand(rows, heads * per_head, size)
        ours = kernels.attend(queries, keys, values, lengths, scale=0.1, window=window)
        back = lengths[:, None] - torch.arange(context, device="cuda")
        seen = (back >= 0) & (back < (window or context + 1))
        want = functional.scaled_dot_product_attention(
            queries.view(rows, heads, per_head, size), keys, values, attn_mask=seen[:, None, None], scale=0.1
        )
        assert torch.allclose(ours, want.reshape(rows, -1), atol=1e-4)


def test_both_devices_draw_the_same_tokens():
    from mada.models.engines.local import kernels
    from mada.models.engines.local.sampling import SamplingTensors, random_keys
    from mada.models.engines.local.sampling import sample_tokens as sample_on_cpu

    logits = torch.randn(300, 9000, generator=torch.Generator().manual_seed(0)) * 3
    temperature = torch.full((300,), 0.8)
    temperature[:20] = 0
    numbers = torch.arange(300)
    settings = SamplingTensors(temperature, torch.ones(300), torch.full((300,), 9000), numbers, numbers)
    tokens, log_probs = sample_on_cpu(logits, settings, filtered=False)
    found, found_log_probs = kernels.sample_tokens(
        logits.cuda(), temperature.cuda(), random_keys(numbers, numbers).cuda()
    )
    assert (found.cpu() != tokens).sum() <= 1
    same = found.cpu() == tokens
    assert torch.allclose(found_log_probs.cpu()[same], log_probs[same], atol=1e-5)
