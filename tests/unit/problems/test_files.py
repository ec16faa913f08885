import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mada.errors import DataError
from mada.problems.files import read_rows

Write = Callable[..., Path]
ROWS = [{"problem": "q, “1”", "answer": "1"}, {"problem": "line\ntwo", "answer": "2"}]


def parquet_bytes(rows: list[dict[str, str]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


CONTENTS: dict[str, bytes] = {
    "p.jsonl": "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(),
    "p.json": json.dumps(ROWS).encode(),
    "wrapped.json": json.dumps({"version": 1, "data": ROWS}).encode(),
    "p.csv": 'problem,answer\r\n"q, “1”",1\r\n\r\n"line\ntwo",2\r\n'.encode(),
    "p.tsv": 'problem\tanswer\nq, “1”\t1\n"line\ntwo"\t2'.encode(),
    "p.parquet": parquet_bytes(ROWS),
}
LOCATIONS = {
    "p.jsonl": [":1", ":3"],
    "p.json": [": row 1", ": row 2"],
    "wrapped.json": [": row 1", ": row 2"],
    "p.csv": [":2", ":5"],
    "p.tsv": [":2", ":4"],
    "p.parquet": [": row 1", ": row 2"],
}


@pytest.mark.parametrize("name", CONTENTS)
def test_every_format_gives_the_same_rows_with_their_places(name: str, write: Write) -> None:
    path = write(name, CONTENTS[name])

    rows = list(read_rows(path))

    assert [dict(row.values) for row in rows] == ROWS
    assert [row.location for row in rows] == [f"{path}{place}" for place in LOCATIONS[name]]


@pytest.mark.parametrize("name", CONTENTS)
def test_every_format_can_be_gzipped(name: str, write: Write) -> None:
    path = write(f"{name}.gz", gzip.compress(CONTENTS[name]))

    assert [dict(row.values) for row in read_rows(path)] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        (
            "p.jsonl",
            '{"a": 1}\n{"a": }\n',
            r":2: not valid JSON \(Expecting value at column 7\); JSONL has one JSON",
        ),
        ("p.jsonl", "[\n{}\n]", ":1: not valid JSON .* a JSON list goes in .json"),
        ("p.jsonl", "[1]\n", r":1: wanted an object with named fields, got \[1\]"),
        (
            "p.jsonl",
            b'{"a": 1}\n{"a": "\xff"}\n',
            r":2: not UTF-8 \(byte 0xff at position 8\); save the file as UTF-8",
        ),
        ("p.jsonl", "[" * 200_000, ":1: JSON that cannot be read"),
        (
            "p.json",
            '{"a": 1}\n{"a": 2}\n',
            r":2: not valid JSON \(Extra data at column 1\); .* goes in .jsonl",
        ),
        ("p.json", '{"a": [], "b": []}', ": wanted a list of objects, or an object that holds one list"),
        ("p.json", '[{"a": 1}, 2]', ": row 2: wanted an object with named fields, got 2"),
        ("p.csv", "", ": empty; the first line names the columns"),
        ("p.csv", "a,b,a\n", ":1: a column name occurs twice .* is the header line missing"),
        (
            "p.csv",
            "a,b\n1,2\n1,2,3\n",
            r":3: not as many fields as the header names \('a', 'b'\); put quotes around",
        ),
        ("p.csv", 'a,b\n"x" y,2\n', ":2: not valid CSV .* check the quotes"),
        ("p.csv", 'a,b\n1,"2\n', ":2: not valid CSV"),
        ("p.parquet", b"PAR1 not really", ": damaged or not what its name says"),
        ("p.jsonl.gz", b"not gzip", ": damaged or not what its name says .* fetch or write the file again"),
        # Without the time of day: these bytes are the test's name, which two processes must agree on.
        ("p.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 999, mtime=0)[:-20], ": damaged or not what its name says"),
    ],
)
def test_a_malformed_file_stops_with_its_place(name: str, content: str | bytes, complaint: str, write: Write) -> None:
    path = write(name, content)

    with pytest.raises(DataError, match=complaint) as raised:
        list(read_rows(path))
    assert str(raised.value).startswith(str(path))


def test_files_that_cannot_be_opened(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
        read_rows(tmp_path / "gone.jsonl")
    with pytest.raises(DataError, match=r"cannot read \.txt; use \.jsonl, \.json, \.csv, \.tsv, \.parquet, or one"):
        read_rows(write("p.txt", ""))
    with pytest.raises(DataError, match="cannot read a file without an ending"):
        read_rows(write("p", ""))
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    with pytest.raises(DataError, match="is a folder; name one file in it, or hub:"):
        read_rows(folder)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("p.jsonl", "{}")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"p\.jsonl: cannot be opened \(Permission denied\)"):
        list(read_rows(path))
