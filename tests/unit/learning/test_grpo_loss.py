import math
import random
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mada.learning.loss import AGGREGATIONS, grpo, k3
from mada.recipe.schema import TrainingSettings

LOG_PROB = st.floats(-8, 0)


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


@given(LOG_PROB, LOG_PROB)
def test_k3_is_never_negative(own, reference):
    assert k3(*tensors([own], [reference])).item() >= -1e-12


def test_k3_estimates_the_kl_divergence_of_the_policy_from_the_reference():
    """Σ_v p(v) · k3(v) = KL(p ‖ q), exactly."""
    p, q = [row.log_softmax(0) for row in torch.randn(2, 9, generator=torch.Generator().manual_seed(0)).double()]
    assert (p.exp() * k3(p, q)).sum().item() == pytest.approx((p.exp() * (p - q)).sum().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sequence", [1 / 6, 1 / 12, 1 / 3]), ("token", [1 / 7] * 3), ("budget", [1 / 30] * 3)],
)
def test_weights_of_three_completions(name, expected):
    assert AGGREGATIONS[name]([2, 4, 1], 10) == pytest.approx(expected, rel=1e-15)


def test_the_recipe_names_exactly_the_aggregations_there_are():
    assert set(AGGREGATIONS) == set(get_args(TrainingSettings.model_fields["loss_aggregation"].annotation))
