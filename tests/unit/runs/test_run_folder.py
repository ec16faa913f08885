import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

import mada.runs.manifest
from mada.errors import RunError
from mada.runs import Run

FORKING = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Recipe(BaseModel):
    model_config = ConfigDict(frozen=True)

    seed: int = 17
    rate: float = 1e-6


@dataclass(frozen=True)
class Reply:
    text: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture(autouse=True)
def quick_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests open many runs; asking git each time is what test_run_environment is for."""
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: None)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fail(number: int) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return failing


def test_a_run_is_made_written_closed_and_continued(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        assert run.manifest.name == "first"
        assert run.manifest.recipe == {"seed": 17, "rate": 1e-6}
        run.records("replies", Reply).append(Reply("a"))
        with run.stage("split") as stage:
            stage.summarize({"problems": 3})
    with Run.open(str(folder), Recipe()) as run:
        run.records("replies", Reply).append(Reply("b"))
        assert run.mark("split")
        assert run.mark("train") is None
        with run.stage("train"):
            pass
    stored = Run.read(folder)
    assert [reply.text for reply in stored.records("replies", Reply)] == ["a", "b"]
    assert [(mark.name, mark.summary) for mark in stored.finished_stages()] == [
        ("split", {"problems": 3}),
        ("train", {}),
    ]
    assert [session.ended_at is not None for session in stored.manifest.sessions] == [True, True]
    assert stored.manifest.started_at == stored.manifest.sessions[0].started_at
    assert stored.record_names() == ("replies",)
    assert sorted(content(folder)) == [
        ".lock",
        "manifest.json",
        "records/replies.jsonl",
        "stages/split.json",
        "stages/train.json",
    ]


def test_files_are_replaced_as_wholes(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        assert run.write_text("notes/a.txt", "é\ud800") == folder / "notes" / "a.txt"
        assert run.write_bytes("b.bin", b"\x00") == folder / "b.bin"
    assert (folder / "notes" / "a.txt").read_bytes() == b"\xc3\xa9\\ud800"
    assert (folder / "b.bin").read_bytes() == b"\x00"


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("",),
        ("..",),
        ("a", "..", "b"),
        ("a/../../b",),
        ("/etc",),
        (".",),
    ],
)
def test_a_path_does_not_lead_out_of_the_folder(folder: Path, parts: tuple[str, ...]) -> None:
    with Run.open(folder, Recipe()) as run:
        with pytest.raises(RunError, match="is not a path inside"):
            run.path(*parts)
        with pytest.raises(RunError, match="is not a path inside"):
            run.write_text("/".join(parts), "x")


def test_a_mark_comes_after_the_records_reached_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().suffix)
        fsync(descriptor)

    def seen_replace(self: Path, target: Path) -> Path:
        steps.append(f"-> {target.name}")
        return replace(self, target)

    with Run.open(folder, Recipe()) as run:
        run.records("replies", Reply)
        with run.stage("answer"):
            run.records("replies", Reply).append(Reply("a"))
            monkeypatch.setattr(os, "fsync", seen_fsync)
            monkeypatch.setattr(Path, "replace", seen_replace)
        monkeypatch.undo()
    assert steps[:3] == [".jsonl", ".partial", "-> answer.json"]


def test_another_recipe_is_refused_and_the_run_left_as_it_was(folder: Path) -> None:
    Run.open(folder, Recipe()).close()
    before = content(folder)
    with pytest.raises(RunError, match="rate  1e-06  →  1e-05"):
        Run.open(folder, Recipe(rate=1e-5))
    assert content(folder) | {".lock": b""} == before | {".lock": b""}
    Run.open(folder, Recipe()).close()


def test_a_run_in_use_is_refused_and_left_as_it_was(folder: Path) -> None:
    with Run.open(folder, Recipe()):
        before = content(folder)
        with pytest.raises(RunError, match=f"{folder} is in use by process {os.getpid()} on"):
            Run.open(folder, Recipe())
        assert content(folder) == before
    Run.open(folder, Recipe()).close()


def test_a_folder_of_something_else_is_refused_and_left_as_it_was(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("thesis.tex", "b", "a", "c"):
        (folder / name).write_text("dear")
    with pytest.raises(RunError, match=r"has files but no manifest.json, so it is not a run \(a, b, c …\)"):
        Run.open(folder, Recipe())
    assert sorted(content(folder)) == ["a", "b", "c", "thesis.tex"]


def test_a_damaged_manifest_is_refused_and_the_lock_given_back(folder: Path) -> None:
    Run.open(folder, Recipe()).close()
    whole = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(whole[:50])
    for _ in range(2):
        with pytest.raises(RunError, match="is damaged: it is not JSON"):
            Run.open(folder, Recipe())
    assert (folder / "manifest.json").read_bytes() == whole[:50]
    (folder / "manifest.json").write_bytes(whole)
    Run.open(folder, Recipe()).close()


def test_no_room_at_the_end_is_reported_and_the_lock_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.open(folder, Recipe())
    records = run.records("replies", Reply)
    records.append(Reply("a"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail(errno.ENOSPC))
        with pytest.raises(RunError, match="the previous file is untouched"):
            run.close()
    with Run.open(folder, Recipe()) as run:
        assert list(run.records("replies", Reply)) == [Reply("a")]
        assert run.manifest.sessions[0].ended_at is None


def test_the_exception_that_ends_a_session_is_noted_and_not_hidden(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted() -> None:
        with Run.open(folder, Recipe()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Run.read(folder).manifest.sessions[0].ended_by == "KeyboardInterrupt"

    def interrupted_without_room() -> None:
        with Run.open(folder, Recipe()):
            monkeypatch.setattr(Path, "write_bytes", fail(errno.ENOSPC))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_without_room()
    monkeypatch.undo()
    assert caplog.messages[0].startswith(f"closing {folder}: {folder}/manifest.json could not be written")
    assert Run.read(folder).manifest.sessions[1].ended_at is None


def test_a_closed_run_is_not_written(folder: Path) -> None:
    run = Run.open(folder, Recipe())
    records = run.records("replies", Reply)
    run.close()
    run.close()
    before = content(folder)
    writes: list[Callable[[], object]] = [
        lambda: run.write_text("a", "x"),
        lambda: run.write_bytes("a", b"x"),
        lambda: run.records("replies", Reply),
        lambda: run.clear_stage("split"),
    ]
    for write in writes:
        with pytest.raises(RunError, match="is not open for writing"):
            write()
    with pytest.raises(ValueError, match="closed file"):
        records.append(Reply("a"))
    assert content(folder) == before


def test_a_folder_removed_under_its_run_is_noticed_and_not_made_again(folder: Path) -> None:
    run = Run.open(folder, Recipe())
    shutil.rmtree(folder)
    with pytest.raises(RunError, match=r"has lost its manifest\.json"):
        run.write_text("a", "x")
    with pytest.raises(RunError, match=r"has lost its manifest\.json"):
        run.close()
    assert not folder.exists()


@FORKING
def test_a_forked_child_neither_writes_nor_closes_its_parents_run(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        before = content(folder)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run.close()
                run.write_text("a", "x")
            except RunError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert content(folder) == before
        run.write_text("a", "x")
    assert Run.read(folder).manifest.ended_at is not None


def test_inputs_that_changed_are_refused_by_name(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        run.check_inputs("train", {"weights": "1"})
        run.check_inputs("evaluate", {"benchmark": "2", "weights": "1"})
    with Run.open(folder, Recipe()) as run:
        run.check_inputs("evaluate", {"benchmark": "2", "adapter": "3"})
        with pytest.raises(RunError, match=r"in: benchmark, weights;"):
            run.check_inputs("report", {"benchmark": "7", "weights": "7", "adapter": "3", "new": "4"})
        run.clear_stage("evaluate")
        run.check_inputs("evaluate", {"benchmark": "7"})
        with pytest.raises(RunError, match="weights"):
            run.check_inputs("evaluate", {"weights": "7"})
    assert Run.read(folder).manifest.inputs == {"train": {"weights": "1"}, "evaluate": {"benchmark": "7"}}


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    with Run.open(folder, Recipe()) as run:
        yield run


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_a_stage_is_done_when_its_block_ends_and_not_when_it_breaks_off(run: Run, error: BaseException) -> None:
    def breaking() -> None:
        with run.stage("split") as stage:
            stage.summarize({"left": "over"})
            raise error

    with pytest.raises(type(error)):
        breaking()
    assert run.mark("split") is None
    before = datetime.now(UTC)
    with run.stage("split") as stage:
        stage.summarize({"problems": 7})
        stage.summarize({"problems": 8, "share": 0.5})
    mark = run.mark("split")
    assert mark is not None
    assert (mark.name, mark.summary) == ("split", {"problems": 8, "share": 0.5})
    assert before <= mark.started_at <= mark.ended_at <= datetime.now(UTC)
    assert 0 <= mark.seconds < 5
    with pytest.raises(RunError, match="is finished"), run.stage("split"):
        pytest.fail("a finished stage ran again")
    run.clear_stage("split")
    assert run.finished_stages() == ()


def test_a_summary_that_cannot_be_stored_is_refused_where_it_is_given(run: Run) -> None:
    with run.stage("score") as stage:
        with pytest.raises(RunError, match="summary cannot be stored"):
            stage.summarize({"accuracy": float("nan")})
        with pytest.raises(TypeError):
            stage.summarize({"count": np.int64(3)})  # type: ignore[dict-item]
        stage.summarize({"accuracy": np.float64(0.25)})


@pytest.mark.parametrize("content", [b"", b'{"name":', b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_mark_is_a_clear_error(run: Run, content: bytes) -> None:
    path = run.path("stages", "split.json")
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"split\.json is damaged.*Remove the file to run the stage again"):
        run.mark("split")


def test_results_that_changed_after_their_stage_are_refused(run: Run) -> None:
    paths = [run.write_text(f"{name}/result.txt", name) for name in ("a", "b")]
    with run.stage("train") as stage:
        stage.add_results(paths)
    run.check_results()
    paths[1].write_text("c")
    run.check_results("other")
    run.check_results(under="a/")
    for options in ({}, {"stage": "train"}, {"under": "b/"}):
        with pytest.raises(RunError, match=r"b/result\.txt is damaged"):
            run.check_results(**options)
    paths[1].unlink()
    run.check_results()
