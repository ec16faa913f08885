import errno
import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mada.runs.jsonl
from mada.errors import RunError
from mada.runs import Records, StoredRecords
from mada.runs.jsonl import json_text


@dataclass(frozen=True)
class Reply:
    text: str
    tokens: tuple[int, ...] = ()
    score: float | None = None


A, B, C = Reply("a"), Reply("bé\n\u2028😀", (1, 2), 0.5), Reply("c")
LINE_A = b'{"text":"a","tokens":[],"score":null}\n'
replies = st.builds(
    Reply,
    text=st.text(st.characters(), max_size=20),
    tokens=st.lists(st.integers(), max_size=3).map(tuple),
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records" / "replies.jsonl"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(plain)
def test_any_plain_value_reads_back_from_one_line_of_utf8(value: object) -> None:
    text = json_text(value, subject="it")
    assert json.loads(text.encode()) == value
    assert text.splitlines() == [text]


def written(path: Path, *items: Reply) -> bytes:
    with Records(path, Reply) as records:
        records.extend(items)
    return path.read_bytes()


def test_records_come_back_as_they_were_appended(path: Path) -> None:
    with Records(path, Reply) as records:
        assert (len(records), list(records)) == (0, [])
        records.append(A)
        assert (len(records), list(records)) == (1, [A])
        records.extend([B, C])
        assert (len(records), list(records)) == (3, [A, B, C])
    with Records(path, Reply) as records:
        assert len(records) == 3
        records.append(A)
        assert list(records) == [A, B, C, A]
    stored = StoredRecords(path, Reply)
    assert (len(stored), list(stored)) == (4, [A, B, C, A])


def test_records_after_the_last_wanted_one_are_dropped(path: Path) -> None:
    items = [Reply(str(number), score=float(number)) for number in range(5)]
    with Records(path, Reply) as records:
        records.extend(items)
        records.keep_while(lambda item: True)
        assert len(records) == 5
        records.keep_while(lambda item: item.text != "3")
        assert (len(records), list(records)) == (3, items[:3])
        records.append(C)
        assert list(records) == [*items[:3], C]
        records.keep_while(lambda item: False)
        assert path.read_bytes() == b""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(items=st.lists(replies, max_size=5))
def test_any_record_reads_back_equal(path: Path, items: list[Reply]) -> None:
    path.unlink(missing_ok=True)
    content = written(path, *items)
    assert content.count(b"\n") == len(items)
    assert list(StoredRecords(path, Reply)) == [Reply(joined(item.text), item.tokens, item.score) for item in items]


def joined(text: str) -> str:
    """Two halves of a surrogate pair side by side are one character to JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_a_file_cut_at_any_byte_keeps_exactly_its_complete_lines(path: Path) -> None:
    items = [A, B, Reply("\ud800 half"), C]
    content = written(path, *items)
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        end = content[:cut].rfind(b"\n") + 1
        assert list(StoredRecords(path, Reply)) == items[:whole]
        assert len(StoredRecords(path, Reply)) == whole
        assert path.read_bytes() == content[:cut], "reading changes nothing"
        with Records(path, Reply) as records:
            assert (len(records), list(records)) == (whole, items[:whole])
            assert path.read_bytes() == content[:end]
            records.append(C)
        assert list(StoredRecords(path, Reply)) == [*items[:whole], C]


@pytest.mark.parametrize("torn", [b"\x00\x00\x00\n", b'{"text":\n', b"\n", b"\xff\n"])
def test_a_terminated_last_line_that_is_not_json_is_torn_too(path: Path, torn: bytes) -> None:
    path.parent.mkdir()
    for before, items in ((b"", []), (LINE_A, [A])):
        path.write_bytes(before + torn)
        assert list(StoredRecords(path, Reply)) == items
        Records(path, Reply).close()
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"bad\n" + LINE_A, 1),
        (LINE_A + b"bad\n" + LINE_A + LINE_A, 2),
        (LINE_A + b"bad\nbad\n", 2),
        (LINE_A + LINE_A + b"bad\n{", 3),
        (LINE_A + b"\n" + LINE_A, 2),
        (b"id,answer\n1,2\n3,4\n", 2),
    ],
)
def test_damage_before_the_last_line_is_an_error_and_never_dropped(path: Path, content: bytes, number: int) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(RunError) as caught:
        list(StoredRecords(path, Reply))
    assert f"{path}:{number}: not JSON" in str(caught.value)
    with pytest.raises(RunError, match=f":{number}: "), Records(path, Reply) as records:
        list(records)
    assert path.read_bytes() == content


def test_a_line_of_another_type_is_an_error_that_names_line_and_field(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(LINE_A + b'{"text":5}\n')
    with pytest.raises(RunError, match=r":2: not a Reply: text: Input should be a valid string"):
        list(StoredRecords(path, Reply))
    path.write_bytes(b'{"text":"\\ud800","score":"x"}\n')
    with pytest.raises(RunError, match=r":1: not a Reply: score: Input should be a valid number"):
        list(StoredRecords(path, Reply))
    path.write_bytes(b"[1]\n" + LINE_A)
    with pytest.raises(RunError, match=r":1: not a Reply: "):
        list(StoredRecords(path, Reply))
    Records(path, Reply).close()
    assert path.read_bytes() == b"[1]\n" + LINE_A


def test_an_iteration_sees_the_records_that_were_there_when_it_began(path: Path) -> None:
    with Records(path, Reply) as records:
        records.extend([A, B])
        seen: list[Reply] = []
        for item in records:
            records.append(item)
            seen.append(item)
        assert seen == [A, B]
        assert list(records) == [A, B, A, B]


@pytest.mark.parametrize("item", [Reply(3), Reply("a", score=np.int64(3))])  # type: ignore[arg-type]
def test_a_field_of_another_type_is_refused(path: Path, item: Reply) -> None:
    with Records(path, Reply) as records, pytest.raises(TypeError, match="is not a Reply"):
        records.append(item)
    assert path.read_bytes() == b""


def test_nan_is_refused_and_nothing_of_its_batch_is_written(path: Path) -> None:
    with Records(path, Reply) as records:
        with pytest.raises(RunError, match="cannot be stored"):
            records.extend([A, Reply("b", score=float("nan"))])
        assert list(records) == []


def test_a_file_that_may_not_grow_keeps_what_it_has(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Records(path, Reply) as records:
        records.append(A)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(RunError, match="File too large; all earlier records are kept"):
                records.append(Reply("x" * 2000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == LINE_A


def test_records_are_synced_when_asked_at_the_end_and_every_so_often(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    with Records(path, Reply) as records:
        monkeypatch.setattr(os, "fsync", synced.append)
        records.append(A)
        assert len(synced) == 0
        monkeypatch.setattr(mada.runs.jsonl, "SYNC_SECONDS", 0.0)
        records.append(A)
        assert len(synced) == 1
        records.sync()
        assert len(synced) == 2
    assert len(synced) == 3
    records.close()
    assert len(synced) == 3


def test_a_failing_sync_is_reported_and_the_file_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(path, Reply)
    records.append(A)

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(RunError, match="did not reach the disk: Input/output error; its last records may be lost"):
            records.close()
    assert (len(records), list(records)) == (1, [A]), "reading goes on"


def test_a_record_is_read_at_its_offset(path: Path) -> None:
    content = written(path, A, B, C)
    stored = StoredRecords(path, Reply)
    offsets = [0, len(LINE_A), len(content) - len(LINE_A)]
    assert [stored.at(start) for start in offsets] == [A, B, C]
    path.write_bytes(LINE_A + b'{"text":5}\n')
    with pytest.raises(RunError, match="not a Reply"):
        stored.at(len(LINE_A))
    with pytest.raises(RunError, match="not JSON"):
        stored.at(3)
