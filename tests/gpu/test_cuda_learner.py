"""The learner on a CUDA device: the CPU's updates, and memory that really runs out."""

import logging
import random

import pytest
import torch

from mada.learning.batches import CreditedCompletion
from mada.learning.learner import Learner
from mada.learning.loss import token_log_probs
from mada.recipe.schema import TrainingSettings

SETTINGS = TrainingSettings(learning_rate=1e-2, warmup_ratio=0.0, schedule="constant")


def completions(count, *, length=30):
    source = random.Random(0)
    for number in range(count):
        ids = tuple(source.randrange(100) for _ in range(length))
        yield CreditedCompletion("ab"[number % 2], ids[:5], ids[5:], None, source.gauss(0, 1))


def groups(count, *, prompt=40, size=4):
    """Completions of all lengths that continue a few long prompts, as critics' do."""
    source = random.Random(1)
    for number in range(count):
        ids = tuple(source.randrange(100) for _ in range(prompt))
        for _ in range(size):
            reply = tuple(source.randrange(100) for _ in range(source.randint(1, 12)))
            yield CreditedCompletion("ab"[number % 2], ids, reply, None, source.gauss(0, 1))


@pytest.mark.parametrize("lessons", [list(completions(8)), list(groups(4))], ids=["own prompts", "shared prompts"])
def test_updates_are_the_cpus(make_stack, lessons):
    found = []
    for device in ("cpu", "cuda"):
        stack = make_stack(device=device)
        start = {name: parameter.detach().cpu().clone() for name, parameter in stack.parameters().items()}
        learner = Learner(stack, SETTINGS, total_steps=10)
        for step in range(5):
            learner.update(lessons, step=step)
        moved = [parameter.detach().cpu() - start[name] for name, parameter in stack.parameters().items()]
        found.append(torch.cat([one.flatten() for one in moved]))
    assert float((found[0] - found[1]).norm()) < 1e-3 * float(found[0].norm())


def test_bfloat16_learns_with_small_steps(make_stack):
    """A learning rate far below what bfloat16 can add still moves the adapter, through float32 masters."""
    stack = make_stack(dtype=torch.bfloat16)
    learner = Learner(stack, SETTINGS.model_copy(update={"learning_rate": 1e-5}), total_steps=400)
    before = {name: parameter.detach().clone() for name, parameter in stack.parameters().items()}
    for step in range(200):
        learner.update(list(completions(4)), step=step)
    moved = [float((parameter.detach() - before[name]).abs().max()) for name, parameter in stack.parameters().items()]
    assert max(moved) > 5e-4


def test_recomputed_activations_take_the_same_attention_kernels(make_stack):
    """In bfloat16 with heads of 128 torch prefers cuDNN's attention, which learning leaves alone."""
    norms = []
    for recomputes in (False, True):
        stack = make_stack(
            dtype=torch.bfloat16, std=0.02, hidden_size=256, num_attention_heads=2, num_key_value_heads=1
        )
        learner = Learner(stack, SETTINGS.model_copy(update={"gradient_checkpointing": recomputes}), total_steps=10)
        report = learner.update(list(completions(8, length=500)), step=0)
        norms += [report.agents[agent].gradient_norm for agent in "ab"]
    assert norms[2:] == pytest.approx(norms[:2], rel=0.02)


def test_memory_that_runs_out_halves_the_micro_batches(make_stack, caplog):
    stack = make_stack()
    data = list(completions(64, length=500))
    learner = Learner(stack, SETTINGS.model_copy(update={"micro_batch_tokens": 64 * 500}), total_steps=10)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    used = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction((used + 160 * 2**20) / total)
    try:
        with caplog.at_level(logging.WARNING):
            report = learner.update(data, step=0)
        assert report.out_of_memory > 0
        assert "out of memory" in caplog.text
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_log_probs_from_kernels_are_the_plain_ones(make_stack):
    stack = make_stack()
    generator = torch.Generator().manual_seed(0)
    start, ids = torch.randn(70, 64, generator=generator), torch.randint(0, 100, (70,), generator=generator)
    weights = torch.randn(70, generator=generator)
    found = []
    for device in ("cpu", "cuda"):
        hidden = start.clone().to(device).requires_grad_()
        model = stack.model.to(device)
        made = token_log_probs(model, hidden, ids.to(device), temperature=0.7, chunk_logits=3000)
        (made.log_probs_T * weights.to(device)).sum().backward()
        assert hidden.grad is not None
        found.append([one.detach().cpu() for one in (made.log_probs_T, made.entropies_T, hidden.grad)])
    for plain, ours in zip(*found, strict=True):
        assert torch.allclose(plain, ours, rtol=1e-4, atol=1e-5)
