import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

from mada.difference import ABSENT, Difference
from mada.errors import RunError
from mada.runs import Manifest
from mada.runs import manifest as manifest_module
from mada.runs.manifest import (
    Commit,
    Gpu,
    allowed_changes,
    command_line,
    current_commit,
    current_hardware,
    read_manifest,
    recipe_differences,
    write_manifest,
)


class Training(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float = 1e-6
    steps: int = 10


class Recipe(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 17
    name: str = "é"
    training: Training = Training()


class LaterTraining(Training):
    clip: float = 0.2


class LaterRecipe(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 17
    name: str = "é"
    training: LaterTraining = LaterTraining()
    rounds: int = 2


STORED = Recipe().model_dump(mode="json")


@pytest.fixture
def manifest(monkeypatch: pytest.MonkeyPatch) -> Manifest:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/mada", "train", "--hf-token", "abc", "odd \udcff"])
    return Manifest.of("first", Recipe())


def test_a_manifest_says_what_and_under_which_circumstances(manifest: Manifest) -> None:
    assert (manifest.format, manifest.name, manifest.seed) == (1, "first", 17)
    assert manifest.recipe == {"seed": 17, "name": "é", "training": {"rate": 1e-6, "steps": 10}}
    (session,) = manifest.sessions
    assert (session.host, session.pid) == (socket.gethostname(), os.getpid())
    assert session.command == ("mada", "train", "--hf-token", "***", "odd \udcff")
    assert session.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert session.hardware.cores == os.cpu_count()
    assert timedelta(0) <= datetime.now(UTC) - session.started_at < timedelta(minutes=1)
    assert (manifest.started_at, manifest.ended_at, session.ended_by) == (session.started_at, None, None)


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path, manifest: Manifest) -> None:
    write_manifest(tmp_path, manifest.ended(by=None).resumed())
    again = read_manifest(tmp_path)
    write_manifest(tmp_path, again)
    assert read_manifest(tmp_path) == again
    assert again.sessions[0].command == manifest.sessions[0].command
    plain = json.loads((tmp_path / "manifest.json").read_bytes())
    assert list(plain) == [
        "format",
        "name",
        "seed",
        "recipe_digest",
        "recipe",
        "sessions",
        "inputs",
        "started_at",
        "ended_at",
    ]
    assert plain["ended_at"] is None
    assert plain["started_at"].endswith("Z")


def test_what_a_class_calls_changeable_may_differ_and_is_noted() -> None:
    class Patient(Recipe):
        CHANGEABLE: ClassVar[tuple[str, ...]] = ("training.steps", "nam")

    stored = Patient().model_dump(mode="json")
    assert allowed_changes(Path("runs/x"), stored, Patient()) == {}
    more = Patient(training=Training(steps=20))
    assert allowed_changes(Path("runs/x"), stored, more) == {"training.steps": 20}
    resumed = Manifest.of("x", Patient()).resumed({"training.steps": 20})
    assert [session.changes for session in resumed.sessions] == [{}, {"training.steps": 20}]
    assert resumed.recipe == stored
    # A key is named whole: "nam" is not "name".
    with pytest.raises(RunError, match=r"name +\"é\" +→") as caught:
        allowed_changes(Path("runs/x"), stored, Patient(name="y", training=Training(steps=20)))
    assert "steps" not in str(caught.value)


def test_a_field_lost_since_is_a_difference() -> None:
    stored = LaterRecipe().model_dump(mode="json")
    assert set(recipe_differences(stored, Recipe())) == {
        Difference("rounds", 2, ABSENT),
        Difference("training.clip", 0.2, ABSENT),
    }


def damaged(tmp_path: Path, content: bytes) -> str:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(RunError) as caught:
        read_manifest(tmp_path)
    assert str(tmp_path / "manifest.json") in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "has format 2, and this mada reads 1"),
        ({"format": None}, "has format None"),
        ({"seed": "x"}, "is damaged: seed: Input should be a valid integer"),
        ({"sessions": []}, "is damaged: sessions: Tuple should have at least 1 item"),
        ({"recipe": {"seed": 99}}, "is damaged: its recipe does not have its digest"),
    ],
)
def test_a_manifest_that_was_changed_is_a_clear_error(
    tmp_path: Path, manifest: Manifest, change: dict[str, object], complaint: str
) -> None:
    write_manifest(tmp_path, manifest)
    plain = json.loads((tmp_path / "manifest.json").read_bytes())
    assert complaint in damaged(tmp_path, json.dumps({**plain, **change}).encode())


@pytest.mark.parametrize("content", [b"[]", b"17", b"null", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_something_else_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    assert "is damaged: it " in damaged(tmp_path, content)


# What a session ran with: versions, commit, hardware, command.


def git(*arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.check_output(["git", *identity, *arguments], text=True).strip()


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


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
    monkeypatch.setattr(manifest_module, "_SECONDS", 0.2)
    assert current_commit() is None


def test_the_cards_are_those_the_driver_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["NVIDIA H200, 143771, 550.54", "Odd card, [N/A], 550.54", "no such line"]
    program(tmp_path, "nvidia-smi", "\n".join(f"echo '{row}'" for row in rows))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert current_hardware().gpus == (
        Gpu(name="NVIDIA H200", memory_mib=143771, driver="550.54"),
        Gpu(name="Odd card", memory_mib=None, driver="550.54"),
    )


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
        (["mada", "engine.url=http://host/v1?api_key=secretS"], ["mada", "engine.url=http://host/v1?***"]),
        (["mada", "note=secretSECRET0123456789abcdef"], ["mada", "note=***"]),
        (["mada", "eyJsecretSECRET.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"], ["mada", "***"]),
        (["mada", "Bearer secretSECRET"], ["mada", "***"]),
        (["mada", "0123456789abcdef" * 2], ["mada", "***"]),
        # names, commits and questions are no secrets
        (["mada", "model.name=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"],) * 2,
        (["mada", "model.revision=0123456789abcdef0123456789abcdef01234567"],) * 2,
        (["mada", "training.gradient_checkpointing=true", "What is 3 = 4?"],) * 2,
        ([], []),
    ],
)
def test_the_command_is_kept_without_secrets(arguments: list[str], shown: list[str]) -> None:
    assert command_line(arguments) == tuple(shown)
