import math
from typing import get_args

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from mada.errors import LearningError
from mada.learning.optimizer import SCHEDULES, StackedAdamW, learning_rate_share
from mada.recipe.schema import Schedule

SHAPES = {"one.A": (3, 5), "one.B": (3, 4), "two.A": (2, 7)}
OPTIONS = {"betas": (0.9, 0.99), "epsilon": 1e-8, "weight_decay": 0.1}


def parameters(agents, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: nn.Parameter(torch.randn(agents, *shape, generator=generator).to(dtype)) for name, shape in SHAPES.items()
    }


def gradients(agents, step):
    generator = torch.Generator().manual_seed(1000 + step)
    return {name: torch.randn(agents, *shape, generator=generator) for name, shape in SHAPES.items()}


def give(stacked, drawn):
    for name, parameter in stacked.items():
        parameter.grad = drawn[name].to(parameter)


def run(stacked, optimizer, steps, active=None):
    agents = len(next(iter(stacked.values())))
    for step in steps:
        give(stacked, gradients(agents, step))
        optimizer.take_gradients()
        active_K = [True] * agents if active is None else active(step)
        optimizer.step(learning_rate=0.01 * (1 + step % 3), active_K=active_K)


def of_torch(start, agent, steps, max_norm):
    """One agent's slice trained by torch itself."""
    own = [nn.Parameter(parameter.detach()[agent].clone()) for parameter in start.values()]
    optimizer = torch.optim.AdamW(own, lr=1.0, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    for step in steps:
        for parameter, drawn in zip(own, gradients(len(start["one.A"]), step).values(), strict=True):
            parameter.grad = drawn[agent].clone()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(own, max_norm)
        optimizer.param_groups[0]["lr"] = 0.01 * (1 + step % 3)
        optimizer.step()
    return own


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("max_norm", [None, 0.5, 100.0])
def test_every_agent_moves_as_torch_would_move_it(agents, max_norm):
    stacked, start = parameters(agents), parameters(agents)
    run(stacked, StackedAdamW(stacked, **OPTIONS, max_gradient_norm=max_norm), range(30))
    for agent in range(agents):
        for mine, other in zip(stacked.values(), of_torch(start, agent, range(30), max_norm), strict=True):
            torch.testing.assert_close(mine[agent], other, rtol=1e-6, atol=5e-7)


def test_an_agent_that_sits_out_is_left_as_if_the_step_had_not_been():
    stacked, start = parameters(3), parameters(3)
    optimizer = StackedAdamW(stacked, **OPTIONS, max_gradient_norm=0.5)
    run(stacked, optimizer, [0, 1], active=lambda step: [True, False, True])
    for name, parameter in stacked.items():
        assert torch.equal(parameter[1], start[name][1])
        assert not torch.equal(parameter[0], start[name][0])
    state = optimizer.state_dict()
    assert state["counts_K"].tolist() == [2, 0, 2]
    assert not state["m_KP"][1].any()
    assert not state["v_KP"][1].any()
    before = {name: parameter.detach().clone() for name, parameter in stacked.items()}
    moments = state["m_KP"][0].clone(), state["v_KP"][0].clone()
    run(stacked, optimizer, [2, 3], active=lambda step: [False, True, False])
    for name, parameter in stacked.items():
        assert torch.equal(parameter[0], before[name][0])
    assert torch.equal(optimizer.state_dict()["m_KP"][0], moments[0])
    assert torch.equal(optimizer.state_dict()["v_KP"][0], moments[1])
    # The agent that came late takes its first steps with the bias correction of first steps.
    for mine, other in zip(stacked.values(), of_torch(start, 1, [2, 3], 0.5), strict=True):
        torch.testing.assert_close(mine[1], other, rtol=1e-6, atol=5e-7)


def test_gradients_of_micro_batches_are_summed_in_float32():
    stacked = {"one": nn.Parameter(torch.zeros(1, 2, 2, dtype=torch.bfloat16))}
    optimizer = StackedAdamW(stacked)
    for _ in range(100):
        stacked["one"].grad = torch.full((1, 2, 2), 1 + 2**-7, dtype=torch.bfloat16)
        optimizer.take_gradients()
    assert stacked["one"].grad is None
    assert optimizer.gradient_norms().item() == 200 * (1 + 2**-7)  # bfloat16 would stop adding at 256 = 2^8


def test_a_parameter_without_gradient_counts_as_zero():
    stacked = parameters(1)
    optimizer = StackedAdamW(stacked)
    stacked["one.A"].grad = torch.ones_like(stacked["one.A"])
    optimizer.take_gradients()
    assert optimizer.gradient_norms().item() == pytest.approx(15**0.5)


def test_bfloat16_parameters_follow_a_float32_master():
    """Steps far below bfloat16's resolution add up."""
    stacked = {"one": nn.Parameter(torch.ones(1, 2, 2, dtype=torch.bfloat16))}
    optimizer = StackedAdamW(stacked)
    place = stacked["one"].data_ptr()
    for _ in range(100):
        stacked["one"].grad = torch.ones_like(stacked["one"])
        optimizer.take_gradients()
        optimizer.step(learning_rate=1e-4, active_K=[True])
    assert optimizer.state_dict()["master_KP"][0].tolist() == pytest.approx([0.99] * 4, rel=1e-5)
    assert torch.equal(stacked["one"].float(), torch.full((1, 2, 2), 0.99).bfloat16().float())
    assert stacked["one"].data_ptr() == place  # written in place: the sampler holds the same tensor


def test_what_others_wrote_into_a_parameter_counts():
    stacked = {"one": nn.Parameter(torch.ones(2, 2, 2, dtype=torch.bfloat16))}
    optimizer = StackedAdamW(stacked)
    with torch.no_grad():
        stacked["one"][1] = 5.0  # an adapter was loaded
    stacked["one"].grad = torch.ones_like(stacked["one"])
    optimizer.take_gradients()
    optimizer.step(learning_rate=1e-4, active_K=[True, True])
    assert optimizer.state_dict()["master_KP"].mean(1).tolist() == pytest.approx([0.9999, 4.9999], rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_saved_and_loaded_goes_on_bit_for_bit(tmp_path, dtype):
    straight = parameters(2, dtype)
    run(straight, StackedAdamW(straight, **OPTIONS), range(10))

    stacked = parameters(2, dtype)
    optimizer = StackedAdamW(stacked, **OPTIONS)
    run(stacked, optimizer, range(5))
    save_file(optimizer.state_dict(), tmp_path / "state.safetensors")
    resumed = {name: nn.Parameter(parameter.detach().clone()) for name, parameter in stacked.items()}
    later = StackedAdamW(resumed, **OPTIONS)
    later.load_state_dict(load_file(tmp_path / "state.safetensors"))
    run(resumed, later, range(5, 10))
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_a_strange_state_is_refused_before_anything_is_taken_over():
    optimizer = StackedAdamW(parameters(2))
    state = {**StackedAdamW(parameters(3)).state_dict()}
    with pytest.raises(LearningError, match=r"counts_K is \[3\], wanted \[2\]"):
        optimizer.load_state_dict(state)
    with pytest.raises(LearningError, match="v_KP is missing"):
        optimizer.load_state_dict({name: own for name, own in optimizer.state_dict().items() if name != "v_KP"})


def of_transformers(name, total_steps, warmup_ratio):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    arguments = {"num_warmup_steps": math.ceil(total_steps * warmup_ratio), "num_training_steps": total_steps}
    if name == "constant":
        del arguments["num_training_steps"]
    schedule = getattr(transformers, f"get_{name}_schedule_with_warmup")(optimizer, **arguments)
    rates = []
    for _ in range(total_steps):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("total_steps", [1, 2, 10, 37])
@pytest.mark.parametrize("warmup_ratio", [0.0, 0.1, 0.25, 1.0])
def test_every_step_equals_transformers(name, total_steps, warmup_ratio):
    ours = [
        learning_rate_share(name, step, total_steps=total_steps, warmup_ratio=warmup_ratio)
        for step in range(total_steps)
    ]
    assert ours == pytest.approx(of_transformers(name, total_steps, warmup_ratio), abs=1e-12)


def test_the_settings_name_exactly_the_schedules_there_are():
    assert set(SCHEDULES) == set(get_args(Schedule))
