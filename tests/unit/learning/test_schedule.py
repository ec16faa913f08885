import math
from typing import get_args

import pytest
import torch
import transformers

from mada.learning.optimizer import SCHEDULES, learning_rate_share
from mada.recipe.schema import Schedule


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


def test_a_run_of_ten_steps():
    shares = [learning_rate_share("linear", step, total_steps=10, warmup_ratio=0.2) for step in range(11)]
    assert shares == pytest.approx([0, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0])


def test_beyond_the_last_step_the_rate_stays_at_its_end():
    assert learning_rate_share("cosine", 50, total_steps=10, warmup_ratio=0.1) == 0
    assert learning_rate_share("constant", 50, total_steps=10, warmup_ratio=0.1) == 1


def test_the_settings_name_exactly_the_schedules_there_are():
    assert set(SCHEDULES) == set(get_args(Schedule))
