import errno
import logging
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from mada.atomic import writing_folder
from mada.errors import LearningError, RunError
from mada.learning.checkpoints import (
    BestAdapter,
    Checkpoints,
    is_better,
    remove_unreferenced,
    restore_adapters,
    save_best,
)
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import digest_of_adapter, load_adapter

TRAINING = {"seed": 1, "settings": {"learning_rate": 1e-6}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)


def write(checkpoints: Checkpoints, step: int, *, best: dict[str, BestAdapter] | None = None, size: int = 4) -> Path:
    return checkpoints.write(
        step,
        adapters={"layer.A": torch.full((2, size), float(step)), "layer.B": torch.arange(3).bfloat16()},
        optimizer={"counts_K": torch.tensor([step, step])},
        best=best or {},
        training=TRAINING,  # pyright: ignore[reportArgumentType]
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, keep=2)


def test_a_checkpoint_reads_back_as_it_was_written(tmp_path: Path, checkpoints: Checkpoints) -> None:
    assert checkpoints.newest() is None
    best = BestAdapter(agent="a", step=5, accuracy=0.5, folder="best/a/step-000005")
    (tmp_path / best.folder).mkdir(parents=True)
    path = write(checkpoints, 7, best={"a": best})
    found = checkpoints.newest()
    assert found is not None
    assert (found.path, found.state.step, found.state.best, found.state.training) == (path, 7, {"a": best}, TRAINING)
    # The distribution of a CUDA build may leave out the local part, "+cu130".
    assert torch.__version__.startswith(found.state.versions["torch"])
    assert torch.equal(found.adapters["layer.A"], torch.full((2, 4), 7.0))
    assert found.adapters["layer.B"].dtype == torch.bfloat16
    assert torch.equal(found.optimizer["counts_K"], torch.tensor([7, 7]))
    assert checkpoints.referenced() == {best.folder}


def test_the_last_few_are_kept_in_the_order_of_steps(tmp_path: Path, checkpoints: Checkpoints) -> None:
    for step in (0, 25, 50, 999_999, 1_000_000):
        write(checkpoints, step)
    assert names(tmp_path) == ["step-1000000", "step-999999"]
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 1_000_000


def cut_adapters(path: Path) -> None:
    file = path / "adapters.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def flip_a_bit(path: Path) -> None:
    file = path / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def flip_a_bit_of_the_best(path: Path) -> None:
    file = path.parent.parent / "best" / "a" / "step-000009" / "adapter_model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def change_an_accuracy(path: Path) -> None:
    file = path / "state.json"
    text = file.read_text()
    assert text.count('"accuracy": 0.5') == 1
    file.write_text(text.replace('"accuracy": 0.5', '"accuracy": 0.7'))


DAMAGES = {
    "best/a/step-000009, is not there or not what was written": flip_a_bit_of_the_best,
    "state.json is not what was written": change_an_accuracy,
    "adapters.safetensors is not what was written": cut_adapters,
    "optimizer.safetensors is not what was written": flip_a_bit,
    "optimizer.safetensors cannot be read: No such file": lambda path: (path / "optimizer.safetensors").unlink(),
    "state.json cannot be read: 1 validation error": lambda path: (path / "state.json").write_text('{"step": 5'),
    "state.json cannot be read: .*No such file": lambda path: (path / "state.json").unlink(),
    "the best adapter it refers to, best/a/step-000009, is not there": lambda path: shutil.rmtree(
        path.parent.parent / "best" / "a" / "step-000009"
    ),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_checkpoint_is_set_aside_with_a_warning_and_the_one_before_is_used(
    tmp_path: Path, checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    adapter = tmp_path / "best/a/step-000009"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    digest = digest_of_adapter(adapter)
    best = BestAdapter(agent="a", step=9, accuracy=0.5, folder="best/a/step-000009", digest=digest)
    write(checkpoints, 5)
    DAMAGES[reason](write(checkpoints, 10, best={"a": best}))
    with caplog.at_level(logging.WARNING):
        found = checkpoints.newest()
    assert found is not None
    assert found.state.step == 5
    [message] = caplog.messages
    assert "step-000010 is damaged" in message
    assert "it is now damaged-step-000010, and step-000005 is used" in message
    assert re.search(reason, message)
    assert names(tmp_path) == ["damaged-step-000010", "step-000005"]
    write(checkpoints, 7)
    assert names(tmp_path) == ["damaged-step-000010", "step-000005", "step-000007"], "it pushes no good one out"


def test_when_all_are_damaged_nothing_is_touched_and_nothing_is_begun(tmp_path: Path, checkpoints: Checkpoints) -> None:
    cut_adapters(write(checkpoints, 5))
    flip_a_bit(write(checkpoints, 10))
    with pytest.raises(LearningError, match=r"can be used \(step-000010: .*; step-000005: .*\); restore one"):
        checkpoints.newest()
    assert names(tmp_path) == ["step-000005", "step-000010"]


@pytest.mark.parametrize("call", range(1, 8))
def test_a_full_disk_at_any_moment_leaves_the_one_before(
    tmp_path: Path, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    write(checkpoints, 5)
    calls = [0]

    def failing(function):
        def count(*arguments):
            calls[0] += 1
            if calls[0] == call:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments)

        return count

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", failing(Path.write_bytes))
        patch.setattr(os, "fsync", failing(os.fsync))
        with pytest.raises(RunError, match="step-000010 could not be written: No space left on device"):
            write(checkpoints, 10)
    assert names(tmp_path) == ["step-000005"]
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 5


def test_an_interruption_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writing_folder(tmp_path / "folder") as partial:
            (partial / "file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_adapters_are_restored_in_place_and_all_or_nothing() -> None:
    source = AdapterStack.attach(Model(), ["a", "b"], Lora(rank=2), seed=1)
    stack = AdapterStack.attach(Model(), ["a", "b"], Lora(rank=2), seed=9)
    before = {name: parameter.data_ptr() for name, parameter in stack.parameters().items()}
    restore_adapters(stack, source.parameters())
    for name, parameter in stack.parameters().items():
        assert torch.equal(parameter, source.parameters()[name])
        assert parameter.data_ptr() == before[name], "the sampler keeps looking at the same tensors"
    smaller = AdapterStack.attach(Model(), ["a"], Lora(rank=2), seed=2)
    with pytest.raises(LearningError, match=r"does not fit these adapters: they differ at first.A_KRI \(2 in all\)"):
        restore_adapters(stack, smaller.parameters())
    with pytest.raises(LearningError, match=r"they differ at first\.A_KRI"):
        restore_adapters(stack, {})
    assert torch.equal(stack.parameters()["first.A_KRI"], source.parameters()["first.A_KRI"])


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
    assert saved.is_complete(tmp_path / saved.folder)
    other = AdapterStack.attach(Model(), ["x"], Lora(rank=2), seed=99)
    load_adapter(other, "x", tmp_path / saved.folder)
    for name, tensor in stack.tensors("b").items():
        assert torch.equal(other.tensors("x")[name], tensor)


def test_only_adapters_that_nobody_refers_to_are_removed(tmp_path: Path, stack: AdapterStack) -> None:
    saved = [
        save_best(stack, "a", step=step, accuracy=step / 10, folder=tmp_path, base_name="base") for step in (1, 2, 3)
    ]
    remove_unreferenced(tmp_path, referenced={saved[0].folder, saved[2].folder})
    assert sorted(path.name for path in (tmp_path / "best" / "a").iterdir()) == ["step-000001", "step-000003"]
    assert not saved[1].is_complete(tmp_path / saved[1].folder)
    remove_unreferenced(tmp_path / "not there", referenced=())
