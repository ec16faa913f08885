"""Adapters on their way to vLLM: what is written, under which names, and what is left of it."""

import gc
import tempfile
from pathlib import Path

import pytest
import torch

from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.engines.vllm import AdapterFiles


@pytest.fixture
def stack(tiny_model, fill):
    stack = AdapterStack.attach(tiny_model(), {"one": Lora(rank=4, alpha=8), "a/two": Lora(rank=2, alpha=6)})
    fill(stack)
    return stack


@pytest.fixture
def files(stack, tmp_path):
    return AdapterFiles(stack, base_name="the-base", memory=tmp_path)


def test_a_version_is_the_adapter_as_it_was(files, stack, tiny_model):
    wanted = {name: tensor.clone() for name, tensor in stack.tensors("a/two").items()}
    version = files.write("a/two")
    with torch.no_grad():
        for parameter in stack.parameters().values():
            parameter.mul_(2)
    again = AdapterStack.attach(tiny_model(), ["two"], Lora(rank=2, alpha=6))
    load_adapter(again, "two", version.folder, any_base=True)
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in again.tensors("two").items())


def test_names_and_numbers_are_never_used_twice(files):
    versions = [files.write(agent) for agent in ("one", "a/two", "one", "one")]
    assert [version.name for version in versions] == ["one@1", "a/two@1", "one@2", "one@3"]
    assert [version.number for version in versions] == [1, 2, 3, 4]
    assert len({version.folder for version in versions}) == 4


def test_only_what_is_removed_goes(files):
    first, second = files.write("one"), files.write("one")
    files.remove(first)
    assert [file.name for file in files.folder.iterdir()] == [second.folder.name]


def test_closing_removes_everything(files, tmp_path):
    files.write("one")
    files.close()
    files.close()
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_one_leaves_nothing(stack, tmp_path):
    files = AdapterFiles(stack, base_name="the-base", memory=tmp_path)
    files.write("one")
    del files
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reason", ["missing", "small"])
def test_without_room_in_memory_the_temporary_folder_serves(stack, tmp_path, monkeypatch, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = tmp_path / "nowhere"
    if reason == "small":
        memory.mkdir()
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
    files = AdapterFiles(stack, base_name="the-base", memory=memory)
    assert files.folder.parent == Path(tmp_path)
    assert files.write("one").folder.is_dir()
    files.close()
