"""How many threads a model is computed with: the recipe's, somebody's, one for a small model, or PyTorch's."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mada.models.threads import choose_threads


@pytest.fixture
def threads(monkeypatch):
    """PyTorch's setting, which is 8 until somebody sets it."""
    now = [8]
    monkeypatch.setattr("torch.set_num_threads", lambda count: now.__setitem__(0, count))
    monkeypatch.setattr("torch.get_num_threads", lambda: now[0])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return now


def model(parameters: int, device: str = "cpu") -> Any:
    return cast("Any", SimpleNamespace(device=SimpleNamespace(type=device), num_parameters=lambda: parameters))


@pytest.mark.parametrize(
    ("parameters", "device", "wanted", "expected"),
    [
        (2_000_000, "cpu", None, 1),
        (49_999_999, "cpu", None, 1),
        (50_000_000, "cpu", None, 8),
        (2_000_000, "cuda", None, 8),
        (2_000_000, "cpu", 3, 3),
        (2_000_000_000, "cpu", 2, 2),
    ],
)
def test_a_small_model_on_a_cpu_gets_one_thread_unless_another_number_is_wanted(
    threads, parameters, device, wanted, expected
):
    assert choose_threads(model(parameters, device), wanted) == expected
    assert threads == [expected]


def test_what_the_environment_says_stands_until_a_recipe_says_otherwise(threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert choose_threads(model(10)) == 8
    assert choose_threads(model(10), 2) == 2


def test_a_real_small_model_is_small(threads, tiny_model):
    assert choose_threads(tiny_model()) == 1
