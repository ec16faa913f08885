import math
import random
from typing import get_args

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mada.learning.batches import CreditedCompletion, MicroBatch, micro_batches
from mada.learning.loss import AGGREGATIONS, completion_log_probs, grpo, k3, token_log_probs
from mada.models.forward import check_head, trunk
from mada.recipe.schema import TrainingSettings


def loop(log_probs, old, reference, advantages, weights, *, clip_range, kl_coefficient):
    """The objective with nothing but floats."""
    loss = policy_loss = 0.0
    clipped = []
    for own, before, base, advantage, weight in zip(log_probs, old, reference, advantages, weights, strict=True):
        ratio = math.exp(own - before)
        inside = min(max(ratio, 1 - clip_range), 1 + clip_range)
        policy = -min(ratio * advantage, inside * advantage)
        kl = math.exp(base - own) - (base - own) - 1
        loss += weight * (policy + kl_coefficient * kl)
        policy_loss += weight * policy
        clipped.append(inside != ratio and inside * advantage < ratio * advantage)
    return loss, policy_loss, clipped


def tensors(*lists):
    return [torch.tensor(values, dtype=torch.float64) for values in lists]


def test_the_loss_equals_a_plain_loop():
    drawn = random.Random(0)
    rows = [[drawn.uniform(-3, 0) for _ in range(200)] for _ in range(3)]
    advantages, weights = [drawn.gauss(0, 1) for _ in range(200)], [drawn.random() for _ in range(200)]
    advantages[:5] = [0.0] * 5
    log_probs_T, old_T, reference_T, advantages_T, weights_T = tensors(*rows, advantages, weights)
    found = grpo(
        log_probs_T,
        old_T=old_T,
        reference_T=reference_T,
        advantages_T=advantages_T,
        weights_T=weights_T,
        clip_range=0.2,
        kl_coefficient=0.04,
    )
    loss, policy_loss, clipped = loop(
        rows[0], rows[1], rows[2], advantages, weights, clip_range=0.2, kl_coefficient=0.04
    )
    assert found.loss.item() == pytest.approx(loss, rel=1e-12)
    assert found.weighted_T.sum().item() == pytest.approx(loss, rel=1e-12)
    assert found.weighted_policy_T.sum().item() == pytest.approx(policy_loss, rel=1e-12)
    assert found.clipped_T.tolist() == clipped
    assert 20 < sum(clipped) < 180


def test_without_a_reference_there_is_no_kl():
    log_probs_T, advantages_T, weights_T = tensors([-1.0, -2.0], [1.0, -3.0], [0.5, 0.5])
    found = grpo(
        log_probs_T,
        old_T=log_probs_T,
        reference_T=None,
        advantages_T=advantages_T,
        weights_T=weights_T,
        clip_range=0.2,
        kl_coefficient=0.04,
    )
    assert found.kl_T is None
    assert found.loss.item() == 1.0


@pytest.mark.parametrize(
    ("ratio", "advantage", "gradient"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),
        (1.3, 2.0, 0.0),
        (0.7, 2.0, -1.4),
        (1.3, -2.0, 2.6),
        (0.7, -2.0, 0.0),
        (1.3, 0.0, 0.0),
    ],
)
def test_gradients_inside_and_outside_of_the_range(ratio, advantage, gradient):
    """d loss / d log π = −ratio · A, and nothing once the ratio has gone as far as it may."""
    own_T = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    old_T, advantages_T, weights_T = tensors([0.0], [advantage], [1.0])
    found = grpo(
        own_T,
        old_T=old_T,
        reference_T=None,
        advantages_T=advantages_T,
        weights_T=weights_T,
        clip_range=0.2,
        kl_coefficient=0.0,
    )
    found.loss.backward()
    assert own_T.grad is not None
    assert own_T.grad.item() == pytest.approx(gradient, abs=1e-12)
    assert found.clipped_T.item() == (advantage != 0 and gradient == 0)


def test_k3_values():
    own_T, reference_T = tensors([-1.0, -1.0, -1.0], [-1.0, -1.0 + math.log(2), -1.0 - math.log(2)])
    expected = [0.0, 2 - math.log(2) - 1, 0.5 + math.log(2) - 1]
    assert k3(own_T, reference_T).tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sequence", [1 / 6, 1 / 12, 1 / 3]), ("token", [1 / 7] * 3), ("budget", [1 / 30] * 3)],
)
def test_weights_of_three_completions(name, expected):
    assert AGGREGATIONS[name]([2, 4, 1], 10) == pytest.approx(expected, rel=1e-15)


def test_the_recipe_names_exactly_the_aggregations_there_are():
    assert set(AGGREGATIONS) == set(get_args(TrainingSettings.model_fields["loss_aggregation"].annotation))


KINDS = ["qwen2", "gemma2"]
TEMPERATURE = 0.7


def hidden_and_ids(model, tokens=7):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 40, (tokens,), generator=generator)
    with torch.no_grad():
        hidden = trunk(model)(input_ids=ids[None], use_cache=False)[0][0]
    return hidden.clone(), ids.roll(-1)


def by_autograd(model, ids):
    """Log-probabilities and entropies of a sequence's next tokens the plain way, from the model's own logits."""
    logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float() / TEMPERATURE
    all_log_probs = logits.log_softmax(-1)
    return all_log_probs.gather(1, ids[1:, None])[:, 0], -(all_log_probs.exp() * all_log_probs).sum(-1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_tokens", [1, 3, 7, 100])
def test_values_and_gradients_are_those_of_a_full_log_softmax(make_model, kind, chunk_tokens):
    model = make_model(kind)
    model.requires_grad_(False)
    check_head(model)
    hidden, ids = hidden_and_ids(model)
    weights = torch.linspace(-1, 2, len(ids))
    head = model.get_output_embeddings()

    full = hidden.clone().requires_grad_()
    cap = model.config.final_logit_softcapping if kind == "gemma2" else None
    logits = head(full) if cap is None else cap * torch.tanh(head(full) / cap)
    expected = (logits / TEMPERATURE).log_softmax(-1)
    (expected.gather(1, ids[:, None])[:, 0] * weights).sum().backward()

    ours = hidden.clone().requires_grad_()
    found = token_log_probs(model, ours, ids, temperature=TEMPERATURE, chunk_logits=40 * chunk_tokens)
    (found.log_probs_T * weights).sum().backward()

    torch.testing.assert_close(found.log_probs_T, expected.gather(1, ids[:, None])[:, 0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.entropies_T, -(expected.exp() * expected).sum(-1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.grad, full.grad, rtol=1e-5, atol=1e-6)
    assert not found.entropies_T.requires_grad
    assert expected.detach().std() > 0.3  # the distributions are not all but uniform


@pytest.mark.parametrize("kind", KINDS)
def test_completions_get_the_log_probs_of_the_whole_model(make_model, make_completions, kind):
    """Padding and the rows beside a completion change nothing, and only its own tokens are scored."""
    model = make_model(kind)
    completions = make_completions("a", "b", each=5)
    for batch in micro_batches(completions, agents=["a", "b"], max_tokens=60):
        found = completion_log_probs(model, batch, temperature=TEMPERATURE)
        log_probs = found.log_probs_T.split(batch.completion_lengths)
        entropies = found.entropies_T.split(batch.completion_lengths)
        for completion, own, own_entropies in zip(batch.completions, log_probs, entropies, strict=True):
            ids = torch.tensor(completion.prompt_ids + completion.completion_ids)
            expected, expected_entropies = by_autograd(model, ids)
            last = len(completion.completion_ids)
            torch.testing.assert_close(own, expected[-last:], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(own_entropies, expected_entropies[-last:], rtol=1e-5, atol=1e-5)


def test_a_bfloat16_model_gives_float32_log_probs_and_bfloat16_gradients(make_model):
    model = make_model(dtype=torch.bfloat16)
    model.requires_grad_(False)
    hidden, ids = hidden_and_ids(model)
    hidden.requires_grad_()
    found = token_log_probs(model, hidden, ids)
    found.log_probs_T.sum().backward()
    logits = model.get_output_embeddings()(hidden).float()
    torch.testing.assert_close(found.log_probs_T, logits.log_softmax(-1).gather(1, ids[:, None])[:, 0])
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.bfloat16


class LargestTensor(TorchDispatchMode):
    """Looks at every tensor any operation makes."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.largest = max(self.largest, *sizes, 0)
        return out


def test_no_tensor_is_as_large_as_all_logits(make_model):
    model = make_model()
    model.requires_grad_(False)
    tokens, vocabulary, chunk = 512, 40, 8
    hidden = torch.randn(tokens, 16, requires_grad=True)
    ids = torch.randint(0, vocabulary, (tokens,))
    with LargestTensor() as seen:
        token_log_probs(model, hidden, ids, chunk_logits=chunk * vocabulary).log_probs_T.sum().backward()
    assert seen.largest == tokens * 16  # the hidden states' own gradient
    with LargestTensor() as seen:
        model.get_output_embeddings()(hidden).log_softmax(-1).gather(1, ids[:, None]).sum().backward()
    assert seen.largest == tokens * vocabulary  # the measure does see what the plain way makes


def test_only_completion_tokens_go_through_the_head(make_model):
    model = make_model()
    rows = []
    model.get_output_embeddings().register_forward_hook(lambda module, args, output: rows.append(len(args[0])))
    completion = CreditedCompletion("a", tuple(range(30)), (1, 2, 3), None, 1.0)
    completion_log_probs(model, MicroBatch((completion,), (0,)))
    assert rows == [3]


def groups(*shapes):
    """Completions in groups, (agent, prompt length, completion lengths) each; every group has its own prompt."""
    generator = torch.Generator().manual_seed(3)

    def draw(count):
        return tuple(torch.randint(0, 40, (count,), generator=generator).tolist())

    for agent, prompt, lengths in shapes:
        ids = draw(prompt)
        yield from (CreditedCompletion(agent, ids, draw(length), None, 1.0) for length in lengths)


@pytest.mark.parametrize(
    "shapes",
    [
        [("a", 6, [4, 4]), ("b", 6, [4, 4])],
        [("a", 5, [1, 5, 2]), ("a", 7, [3]), ("b", 2, [2, 6])],
        [("b", 9, [1, 1, 1])],
    ],
)
def test_prompts_passed_once_give_the_same_values_and_gradients(make_stack, shapes):
    completions = tuple(groups(*shapes))
    found = []
    for share in (True, False):
        batch = MicroBatch(completions, tuple(range(len(completions))), share)
        stack = make_stack("a", "b")
        rows: list[int] = []
        next(iter(stack.layers.values())).register_forward_pre_hook(lambda _, x, rows=rows: rows.append(len(x[0])))
        made = completion_log_probs(stack.model, batch, temperature=TEMPERATURE, route=stack.routed)
        (made.log_probs_T * torch.linspace(-1, 2, len(made.log_probs_T))).sum().backward()
        gradients = [parameter.grad for parameter in stack.parameters().values()]
        found.append([made.log_probs_T.detach(), made.entropies_T, *gradients])
        prompts = len(shapes)
        several = any(length > 1 for *_, lengths in shapes for length in lengths)
        assert rows == ([prompts, *[len(batch.indices)] * several] if share else [len(batch.indices)])
    for once, each in zip(*found, strict=True):
        torch.testing.assert_close(once, each, rtol=1e-4, atol=1e-5 * float(each.abs().max()))


def test_prompts_are_not_shared_between_agents():
    same = tuple(CreditedCompletion(agent, (1, 2, 3), (4,), None, 1.0) for agent in ("a", "b"))
    assert MicroBatch(same, (0, 1), True).prompts() == ([("a", (1, 2, 3)), ("b", (1, 2, 3))], [0, 1])
