import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

import mada.run.manifest
from mada.errors import RunError
from mada.run import Run, StoredRun
from mada.seeds import rng, seed_for

FORKING = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Recipe(BaseModel):
    model_config = ConfigDict(frozen=True)

    seed: int = 17
    rate: float = 1e-6


@dataclass(frozen=True)
class Reply:
    text: str


@dataclass(frozen=True)
class Score:
    value: float


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"


@pytest.fixture(autouse=True)
def quick_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests open many runs; asking git each time is what test_run_surroundings is for."""
    monkeypatch.setattr(mada.run.manifest, "current_commit", lambda: None)


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
        assert run.stage("split").is_done
        assert not run.stage("train").is_done
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


def test_seeds_are_those_of_the_recipe_by_path(folder: Path) -> None:
    with Run.open(folder, Recipe(seed=23)) as run:
        assert run.seed("split") == seed_for(23, "split")
        assert run.rng("debate", 1, "x").random() == rng(23, "debate", 1, "x").random()
    assert Run.read(folder).seed("split") == seed_for(23, "split")


def test_files_are_replaced_as_wholes(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        assert run.write_text("notes/a.txt", "é\ud800") == folder / "notes" / "a.txt"
        assert run.write_bytes("b.bin", b"\x00") == folder / "b.bin"
        assert run.write_json("c.json", {"z": ["é\u2028"], "a": None}) == folder / "c.json"
        with run.replacing("adapters/best.safetensors") as partial:
            partial.write_bytes(b"weights")
    assert (folder / "notes" / "a.txt").read_bytes() == b"\xc3\xa9\\ud800"
    assert (folder / "b.bin").read_bytes() == b"\x00"
    assert (folder / "c.json").read_bytes() == '{\n  "z": [\n    "é\\u2028"\n  ],\n  "a": null\n}\n'.encode()
    assert (folder / "adapters" / "best.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["manifest.json", ".lock"])
def test_the_runs_own_files_are_not_for_others(folder: Path, name: str) -> None:
    with Run.open(folder, Recipe()) as run:
        with pytest.raises(RunError, match=f"{name!r} belongs to the run itself; choose another file name"):
            run.write_text(name, "x")
        run.write_text(f"deep/{name}", "x")


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("",),
        ("..",),
        ("a", "..", "b"),
        ("a/../../b",),
        ("/etc",),
        ("a", "/b"),
        ("a//b",),
        ("a/",),
        (".",),
        ("a\0",),
    ],
)
def test_a_path_does_not_lead_out_of_the_folder(folder: Path, parts: tuple[str, ...]) -> None:
    with Run.open(folder, Recipe()) as run:
        with pytest.raises(RunError, match="is no path inside"):
            run.path(*parts)
        with pytest.raises(RunError, match="is no path inside"):
            run.write_text("/".join(parts), "x")
        with pytest.raises(RunError, match="is no path inside"):
            run.records("/".join(parts), Reply)


def test_a_path_inside_the_folder(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        assert run.path("a", "b/c.txt") == folder / "a" / "b" / "c.txt"
        assert run.path("..a") == folder / "..a"


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Run.open("runs/here", Recipe()) as run:
        monkeypatch.chdir("/")
        run.write_text("a", "x")
    assert (tmp_path / "runs" / "here" / "a").read_text() == "x"
    assert Run.read(tmp_path / "runs" / "here").manifest.ended_at is not None


def test_records_of_one_name_are_one_object_of_one_type(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        records = run.records("deep/replies.v1", Reply)
        assert run.records("deep/replies.v1", Reply) is records
        with pytest.raises(TypeError, match=r"records 'deep/replies\.v1' hold Reply in this run, not Score"):
            run.records("deep/replies.v1", Score)
        records.append(Reply("a"))
        records.close()
        with run.stage("close"):
            pass
        run.records("deep/replies.v1", Reply).append(Reply("b"))
    assert (folder / "records" / "deep" / "replies.v1.jsonl").exists()
    stored = Run.read(folder)
    assert stored.record_names() == ("deep/replies.v1",)
    assert list(stored.records("deep/replies.v1", Reply)) == [Reply("a"), Reply("b")]


def test_a_run_can_be_read_while_it_is_written(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        records = run.records("replies", Reply)
        records.append(Reply("a"))
        stored = Run.read(folder)
        assert type(stored) is StoredRun
        assert stored.manifest.ended_at is None
        assert list(stored.records("replies", Reply)) == [Reply("a")]
        records.append(Reply("b"))
        assert len(stored.records("replies", Reply)) == 2


def test_reading_names_the_records_there_are(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        with pytest.raises(RunError, match=r"has no records 'x'; it has none yet\. Run the stage"):
            Run.read(folder).records("x", Reply)
        run.records("scores", Score)
        run.records("replies", Reply)
    with pytest.raises(RunError, match=r"has no records 'x'; it has replies, scores\. Run the stage"):
        Run.read(folder).records("x", Reply)


def test_reading_changes_nothing(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        run.records("replies", Reply).append(Reply("a"))
    with (folder / "records" / "replies.jsonl").open("ab") as file:
        file.write(b"{torn")
    before = content(folder)
    assert len(Run.read(folder).records("replies", Reply)) == 1
    assert content(folder) == before


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


def test_clearing_a_stage_makes_it_run_again(folder: Path) -> None:
    with Run.open(folder, Recipe()) as run:
        run.clear_stage("split")
        with run.stage("split") as stage:
            run.write_text("split.txt", "x")
        run.clear_stage("split")
        assert not stage.is_done
        assert run.finished_stages() == ()
        assert run.path("split.txt").exists()
        with run.stage("split"):
            pass
        assert run.stage("split").is_done


def test_clearing_a_stage_that_cannot_be_removed_is_a_clear_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run.open(folder, Recipe()) as run:
        with run.stage("split"):
            pass
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", fail(errno.EACCES))
            with pytest.raises(RunError, match=r"split.json cannot be used: Permission denied"):
                run.clear_stage("split")


def test_another_recipe_is_refused_and_the_run_left_as_it_was(folder: Path) -> None:
    Run.open(folder, Recipe()).close()
    before = content(folder)
    with pytest.raises(RunError) as caught:
        Run.open(folder, Recipe(rate=1e-5))
    assert str(caught.value) == (
        f"{folder} was started with another recipe:\n"
        "  rate: stored 1e-06, given 1e-05\n"
        "Give it the stored recipe to continue it, or start the new one in another folder"
    )
    assert content(folder) == before
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
    with pytest.raises(RunError) as caught:
        Run.open(folder, Recipe())
    assert str(caught.value) == (
        f"{folder} has files but no manifest.json, so it is not a run (a, b, c …); choose a new or an empty folder"
    )
    assert sorted(content(folder)) == ["a", "b", "c", "thesis.tex"]


def test_a_run_that_appears_while_it_is_looked_for_is_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iterdir = Path.iterdir

    def created_meanwhile(self: Path) -> list[Path]:
        monkeypatch.undo()
        Run.open(folder, Recipe()).close()
        return list(iterdir(self))

    monkeypatch.setattr(Path, "iterdir", created_meanwhile)
    with Run.open(folder, Recipe()) as run:
        assert len(run.manifest.sessions) == 2


def test_an_empty_folder_and_one_that_was_interrupted_at_its_start_are_new_runs(folder: Path) -> None:
    folder.mkdir(parents=True)
    Run.open(folder, Recipe()).close()
    (folder / "manifest.json").unlink()
    (folder / ".0123456789abcdef.partial").write_text("{")
    with Run.open(folder, Recipe()) as run:
        assert len(run.manifest.sessions) == 1
    assert sorted(content(folder)) == [".lock", "manifest.json"]


def test_what_killed_processes_left_is_cleared(folder: Path) -> None:
    Run.open(folder, Recipe()).close()
    (folder / "adapters").mkdir()
    (folder / "adapters" / ".0123456789abcdef.partial").write_bytes(b"x" * 1000)
    Run.open(folder, Recipe()).close()
    assert list((folder / "adapters").iterdir()) == []


def test_a_file_in_the_folders_place_is_refused(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("x")
    with pytest.raises(RunError, match=r"is a file; a run needs a folder\. Choose another name"):
        Run.open(folder, Recipe())
    with pytest.raises(RunError, match=r"is a file; a run is a folder with a manifest\.json"):
        Run.read(folder)
    with pytest.raises(RunError, match="cannot be used: Not a directory"):
        Run.open(folder / "inner", Recipe())


def test_reading_what_is_no_run_is_refused(folder: Path) -> None:
    with pytest.raises(RunError, match="does not exist; give the folder of a run"):
        Run.read(folder)
    assert not folder.exists()
    folder.mkdir(parents=True)
    with pytest.raises(RunError, match=r"has no manifest.json, so it is not a run; give the folder of a run"):
        Run.read(folder)


@pytest.mark.parametrize("step", ["mkdir", "iterdir"])
def test_a_folder_without_access_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(Path, step, fail(errno.EACCES))
    with pytest.raises(RunError) as caught:
        Run.open(folder, Recipe())
    assert str(caught.value) == (
        f"{folder} cannot be used: Permission denied; a run needs files it may read and write. "
        "Mend the permissions, or choose another folder"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunError, match="cannot be opened for writing: Permission denied"):
            Run.open(tmp_path, Recipe())
    finally:
        tmp_path.chmod(0o700)


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


def test_no_room_at_the_start_leaves_a_folder_that_can_start_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail(errno.ENOSPC))
        with pytest.raises(RunError, match=r"manifest\.json could not be written: No space left on device"):
            Run.open(folder, Recipe())
    assert sorted(content(folder)) == [".lock"]
    Run.open(folder, Recipe()).close()


def test_no_room_at_the_end_is_reported_and_the_lock_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.open(folder, Recipe())
    records = run.records("replies", Reply)
    records.append(Reply("a"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail(errno.ENOSPC))
        with pytest.raises(RunError, match="the previous file is untouched"):
            run.close()
    assert records.is_closed
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


def test_a_failure_to_close_is_raised_when_nothing_else_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_room() -> None:
        with Run.open(folder, Recipe()):
            monkeypatch.setattr(Path, "write_bytes", fail(errno.ENOSPC))

    with pytest.raises(RunError, match="No space left on device"):
        without_room()


def test_a_closed_run_is_not_written(folder: Path) -> None:
    run = Run.open(folder, Recipe())
    stage = run.stage("split")
    stage.__enter__()
    records = run.records("replies", Reply)
    run.close()
    run.close()
    before = content(folder)
    writes: list[Callable[[], object]] = [
        lambda: run.write_text("a", "x"),
        lambda: run.write_json("a", 1),
        lambda: run.write_bytes("a", b"x"),
        lambda: run.replacing("a").__enter__(),
        lambda: run.records("replies", Reply),
        lambda: run.clear_stage("split"),
        lambda: stage.__exit__(None, None, None),
    ]
    for write in writes:
        with pytest.raises(RunError, match="is not open for writing here: it was closed, or this is a forked child"):
            write()
    with pytest.raises(RunError, match="is closed"):
        records.append(Reply("a"))
    assert content(folder) == before


def test_a_folder_removed_under_its_run_is_noticed_and_not_made_again(folder: Path) -> None:
    run = Run.open(folder, Recipe())
    shutil.rmtree(folder)
    with pytest.raises(RunError, match=r"has lost its manifest\.json: the folder was moved or removed"):
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


def test_the_manifest_is_readable_json(folder: Path) -> None:
    Run.open(folder, Recipe()).close()
    text = (folder / "manifest.json").read_text()
    assert text.startswith('{\n  "format": 1,\n  "name": "first",\n  "seed": 17,\n')
    assert json.loads(text)["recipe"] == {"seed": 17, "rate": 1e-6}


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
