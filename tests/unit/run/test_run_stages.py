import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from mada.errors import RunError
from mada.run import Stage, StageMark
from mada.run.stages import mark_path, read_mark, read_marks


class Marks:
    """Writes marks as a run does, without the rest of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stages").mkdir()

    def stage(self, name: str) -> Stage:
        return Stage(mark_path(self.folder, name), write_mark=self.write)

    def write(self, mark: StageMark) -> None:
        mark_path(self.folder, mark.name).write_text(mark.model_dump_json())


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path)


def test_a_stage_is_done_when_its_block_ends(marks: Marks) -> None:
    stage = marks.stage("split")
    assert (stage.name, stage.is_done, stage.mark) == ("split", False, None)
    before = datetime.now(UTC)
    with stage as entered:
        assert entered is stage
        assert not stage.is_done
        time.sleep(0.02)
        stage.summarize({"problems": 7})
        stage.summarize({"problems": 8, "share": 0.5})
    mark = marks.stage("split").mark
    assert mark is not None
    assert (mark.name, mark.summary) == ("split", {"problems": 8, "share": 0.5})
    assert before <= mark.started_at < mark.ended_at <= datetime.now(UTC)
    assert 0.02 <= mark.seconds < 5


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_a_stage_that_breaks_off_is_not_done_and_may_start_again(marks: Marks, error: BaseException) -> None:
    stage = marks.stage("train")

    def breaking() -> None:
        with stage:
            stage.summarize({"left": "over"})
            raise error

    with pytest.raises(type(error)):
        breaking()
    assert not stage.is_done
    with stage:
        stage.summarize({"steps": 3})
    assert stage.mark is not None
    assert stage.mark.summary == {"steps": 3}


def test_a_finished_stage_is_not_entered_again(marks: Marks) -> None:
    with marks.stage("split"):
        pass
    with pytest.raises(RunError) as caught, marks.stage("split"):
        pytest.fail("a finished stage ran again")
    path = marks.folder / "stages" / "split.json"
    assert str(caught.value) == (
        f"stage 'split' is finished already ({path}); skip it, or clear its mark to run it again"
    )


def test_a_summary_that_cannot_be_stored_is_refused_where_it_is_given(marks: Marks) -> None:
    with marks.stage("score") as stage:
        with pytest.raises(RunError, match="the summary of stage 'score' cannot be stored: accuracy is nan"):
            stage.summarize({"accuracy": float("nan")})
        with pytest.raises(TypeError):
            stage.summarize({"count": np.int64(3)})  # type: ignore[dict-item]
        stage.summarize({"accuracy": np.float64(0.25)})
    assert stage.mark is not None
    assert stage.mark.summary == {"accuracy": 0.25}


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "-x", "x\n", "é"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="cannot name a stage; a name has letters, digits"):
        mark_path(tmp_path, name)


def test_marks_come_in_the_order_in_which_stages_ended(marks: Marks) -> None:
    assert read_marks(marks.folder) == ()
    for name in ("split", "train-generators", "critic.data", "a"):
        with marks.stage(name):
            pass
    assert [mark.name for mark in read_marks(marks.folder)] == [
        "split",
        "train-generators",
        "critic.data",
        "a",
    ]


@pytest.mark.parametrize("content", [b"", b'{"name":', b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_mark_is_a_clear_error(marks: Marks, content: bytes) -> None:
    path = mark_path(marks.folder, "split")
    path.write_bytes(content)
    with pytest.raises(RunError) as caught:
        marks.stage("split").is_done  # noqa: B018
    assert str(caught.value) == f"{path} is damaged; a stage's mark is JSON. Remove the file to run the stage again"


def test_a_mark_that_cannot_be_read_is_a_clear_error(marks: Marks) -> None:
    mark_path(marks.folder, "split").mkdir()
    with pytest.raises(RunError, match="cannot be read: Is a directory"):
        read_mark(mark_path(marks.folder, "split"))
