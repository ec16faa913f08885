"""Adapters on their way to vLLM: what is written, under which names, and what is left of it."""

import gc
import tempfile
from pathlib import Path

import pytest
import torch

from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.engines.vllm.handover import Handover


@pytest.fixture
def stack(tiny_model, fill):
    stack = AdapterStack.attach(tiny_model(), {"one": Lora(rank=4, alpha=8), "a/two": Lora(rank=2, alpha=6)})
    fill(stack)
    return stack


@pytest.fixture
def handover(stack, tmp_path):
    return Handover(stack, base_name="the-base", memory=tmp_path)


def test_a_version_is_the_adapter_as_it_was(handover, stack, tiny_model):
    wanted = {name: tensor.clone() for name, tensor in stack.tensors("a/two").items()}
    version = handover.write("a/two")
    with torch.no_grad():
        for parameter in stack.parameters().values():
            parameter.mul_(2)
    again = AdapterStack.attach(tiny_model(), ["two"], Lora(rank=2, alpha=6))
    load_adapter(again, "two", version.folder, any_base=True)
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in again.tensors("two").items())


def test_names_and_numbers_are_never_used_twice(handover):
    versions = [handover.write(agent) for agent in ("one", "a/two", "one", "one")]
    assert [version.name for version in versions] == ["one@1", "a/two@1", "one@2", "one@3"]
    assert [version.number for version in versions] == [1, 2, 3, 4]
    assert len({version.folder for version in versions}) == 4


def test_only_what_is_removed_goes(handover):
    first, second = handover.write("one"), handover.write("one")
    handover.remove(first)
    assert [file.name for file in handover.folder.iterdir()] == [second.folder.name]


def test_closing_removes_everything(handover, tmp_path):
    handover.write("one")
    handover.close()
    handover.close()
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_one_leaves_nothing(stack, tmp_path):
    handover = Handover(stack, base_name="the-base", memory=tmp_path)
    handover.write("one")
    del handover
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reason", ["missing", "small"])
def test_without_room_in_memory_the_temporary_folder_serves(stack, tmp_path, monkeypatch, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = tmp_path / "nowhere"
    if reason == "small":
        memory.mkdir()
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
    handover = Handover(stack, base_name="the-base", memory=memory)
    assert handover.folder.parent == Path(tmp_path)
    assert handover.write("one").folder.is_dir()
    handover.close()
