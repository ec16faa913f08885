import errno
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from mada.errors import MadaError
from mada.learning.checkpoints import (
    BestAdapter,
    damaged_adapter,
    is_better,
    remove_unreferenced,
    save_best,
)
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import load_adapter


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)


@pytest.fixture
def stack() -> AdapterStack:
    return AdapterStack.attach(Model(), ["a", "b"], Lora(rank=2), seed=1)


def best(accuracy: float | None) -> BestAdapter:
    return BestAdapter(agent="a", step=1, accuracy=accuracy, folder="best/a/step-000001")


@pytest.mark.parametrize(
    ("accuracy", "so_far", "expected"),
    [(0.0, None, True), (0.5, best(0.4), True), (0.5, best(0.5), False), (0.4, best(0.5), False), (None, None, True)],
)
def test_only_strictly_more_accuracy_is_better_so_ties_go_to_the_earlier_step(accuracy, so_far, expected):
    assert is_better(accuracy, so_far) is expected


def test_an_adapter_is_saved_as_it_is_and_loads_again(tmp_path: Path, stack: AdapterStack) -> None:
    saved = save_best(stack, "b", step=50, accuracy=0.25, folder=tmp_path, base_name="org/base")
    expected = BestAdapter(agent="b", step=50, accuracy=0.25, folder="best/b/step-000050")
    assert saved == expected.model_copy(update={"digest": saved.digest})
    assert saved.is_whole(tmp_path / saved.folder)
    assert damaged_adapter({"b": saved}, folder=tmp_path) is None
    other = AdapterStack.attach(Model(), ["x"], Lora(rank=2), seed=99)
    load_adapter(other, "x", tmp_path / saved.folder)
    for name, tensor in stack.tensors("b").items():
        assert torch.equal(other.tensors("x")[name], tensor)


def test_one_that_was_saved_before_a_kill_is_replaced(tmp_path: Path, stack: AdapterStack) -> None:
    for seed in (5, 6):
        stack.reset("a", seed=seed)
        save_best(stack, "a", step=3, accuracy=0.1, folder=tmp_path, base_name="base")
    assert [path.name for path in (tmp_path / "best" / "a").iterdir()] == ["step-000003"]
    other = AdapterStack.attach(Model(), ["a"], Lora(rank=2), seed=0)
    load_adapter(other, "a", tmp_path / "best/a/step-000003")
    assert torch.equal(other.tensors("a")["first.lora_A.weight"], stack.tensors("a")["first.lora_A.weight"])


def test_only_adapters_that_nobody_refers_to_are_removed(tmp_path: Path, stack: AdapterStack) -> None:
    saved = [
        save_best(stack, "a", step=step, accuracy=step / 10, folder=tmp_path, base_name="base") for step in (1, 2, 3)
    ]
    remove_unreferenced(tmp_path, referenced={saved[0].folder, saved[2].folder})
    assert sorted(path.name for path in (tmp_path / "best" / "a").iterdir()) == ["step-000001", "step-000003"]
    assert damaged_adapter({"a": saved[1]}, folder=tmp_path) == "best/a/step-000002"
    remove_unreferenced(tmp_path / "not there", referenced=())


def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, stack: AdapterStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MadaError, match="could not be written: No space left on device"):
        save_best(stack, "a", step=1, accuracy=0.5, folder=tmp_path, base_name="base")
    assert list((tmp_path / "best" / "a").iterdir()) == []
