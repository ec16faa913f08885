import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mada
from mada.run import manifest
from mada.run.manifest import (
    Commit,
    Gpu,
    command_line,
    current_commit,
    current_hardware,
    package_versions,
)


def git(*arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.check_output(["git", *identity, *arguments], text=True).strip()


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_versions_of_what_is_installed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PACKAGES", ("numpy", "no-such-package-anywhere"))
    assert package_versions() == {
        "mada": mada.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def test_the_commit_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")
    assert current_commit() is None, "no repository"
    git("init", "--quiet")
    assert current_commit() is None, "no commit"
    Path("code.py").write_text("one")
    git("add", "code.py")
    git("commit", "--quiet", "--message", "first")
    head = git("rev-parse", "HEAD")
    assert current_commit() == Commit(id=head, dirty=False)
    Path("untracked").write_text("a run folder, say")
    assert current_commit() == Commit(id=head, dirty=False)
    Path("code.py").write_text("two")
    assert current_commit() == Commit(id=head, dirty=True)


@pytest.mark.parametrize("script", ["exit 1", "echo unexpected", "sleep 5"])
def test_a_git_that_misbehaves_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program(tmp_path, "git", f"exec {script}" if script.startswith("sleep") else script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(manifest, "_SECONDS", 0.2)
    assert current_commit() is None


def test_the_cards_are_those_the_driver_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["NVIDIA H200, 143771, 550.54", "Odd card, [N/A], 550.54", "no such line"]
    program(tmp_path, "nvidia-smi", "\n".join(f"echo '{row}'" for row in rows))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert current_hardware().gpus == (
        Gpu(name="NVIDIA H200", memory_mib=143771, driver="550.54"),
        Gpu(name="Odd card", memory_mib=None, driver="550.54"),
    )


def test_a_machine_without_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hardware = current_hardware()
    assert hardware.gpus == ()
    assert hardware.cores == os.cpu_count()
    assert hardware.memory_mib is not None
    assert hardware.memory_mib > 100
    assert hardware.cpu


@pytest.mark.parametrize(
    ("cpuinfo", "cpu"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2GHz \nmodel name\t: other\n", "Some CPU @ 2GHz"),
        ("processor : 0\nFeatures : fp\n", platform.machine()),
        (None, platform.machine()),
    ],
)
def test_the_processors_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpuinfo: str | None, cpu: str) -> None:
    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(cpuinfo)
    monkeypatch.setattr(manifest, "CPUINFO", path)
    assert current_hardware().cpu == cpu


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["/somewhere/bin/mada", "train", "paper.toml"], ["mada", "train", "paper.toml"]),
        (["mada", "--max-new-tokens", "512", "seed=3"], ["mada", "--max-new-tokens", "512", "seed=3"]),
        (["mada", "--hf-token", "abc", "--x"], ["mada", "--hf-token", "***", "--x"]),
        (["mada", "--hf-token", "--x", "y"], ["mada", "--hf-token", "--x", "y"]),
        (["mada", "--api_key=abc"], ["mada", "--api_key=***"]),
        (["mada", "engine.api_key=abc=="], ["mada", "engine.api_key=***"]),
        (["mada", "PASSWORD=p w"], ["mada", "PASSWORD=***"]),
        (["mada", "Authorization: Bearer abc"], ["mada", "Authorization:***"]),
        (["mada", "note=hf_abcdefghijkl!"], ["mada", "note=***!"]),
        (["mada", "sk-abcdefghij"], ["mada", "***"]),
        (["mada", "url=https://me:pass@host/x"], ["mada", "url=https://***@host/x"]),
        ([], []),
    ],
)
def test_the_command_is_kept_without_secrets(arguments: list[str], shown: list[str]) -> None:
    assert command_line(arguments) == tuple(shown)


@pytest.mark.parametrize(
    "word",
    [
        "engine.url=http://name:geheimGEHEIM@host/v1",
        "engine.url=http://host/v1?api_key=geheimGEHEIM",
        "note=geheimGEHEIM0123456789abcdef",
        "eyJgeheimGEHEIM.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "nvapi-geheimGEHEIM-abc",
        "Bearer geheimGEHEIM",
    ],
)
def test_secrets_are_masked_by_their_shape(word):
    [_, shown] = command_line(["mada", word])
    assert "geheimGEHEIM" not in shown
    assert "***" in shown


def test_hexadecimal_keys_are_masked():
    assert command_line(["mada", "0123456789abcdef" * 2, "key-" + "0123456789abcdef" * 4]) == ("mada", "***", "key-***")


@pytest.mark.parametrize(
    "word",
    [
        "model.name=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        "model.revision=0123456789abcdef0123456789abcdef01234567",
        "recipes/baselines/deepscaler-lora.toml",
        "training.gradient_checkpointing=true",
        "What is 3 = 4?",
    ],
)
def test_names_and_commits_are_no_secrets(word):
    assert command_line(["mada", word]) == ("mada", word)
