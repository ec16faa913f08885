"""Problem files: JSONL, JSON, CSV, TSV and Parquet, each also gzipped, as rows that know where they stand.

Files are read as UTF-8 whatever the machine's locale, and a byte order mark is skipped. Whatever is
wrong with a file ends in one `DataError` that names the file and, where there are lines, the line.
"""

import csv
import gzip
import importlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from mada.errors import DataError
from mada.problems.rows import Row, listed, shown


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a problem file, read by the format its name ends in."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name one file in it, or hub:{path} for a folder in data set form")
    read = FORMATS.get(_format(path))
    if read is None:
        raise DataError(f"{path}: cannot read {path.suffix or 'a file without an ending'}; use {_endings()}")
    if not path.exists():
        raise DataError(f"{path}: no such file; check the name and the folder you are in")
    return read(path)


def read_json_lines(stream: IO[bytes], *, name: str) -> Iterator[Row]:
    """The rows of a JSONL stream; `name` says in errors where they come from."""
    for number, line in _numbered_lines(stream, name):
        if line.strip():
            location = f"{name}:{number}"
            value = _parse_json(
                line.strip(), location, remedy="JSONL has one JSON object per line; a JSON list goes in .json"
            )
            yield _row(location, value)


def is_problem_file(name: str) -> bool:
    """Whether a name ends like a problem file, present or not."""
    return _format(Path(name)) in FORMATS


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _endings() -> str:
    return ", ".join(FORMATS) + ", or one of these with .gz"


def _open(path: Path) -> IO[bytes]:
    try:
        return cast("IO[bytes]", gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with _open(path) as stream:
        yield from _numbered_lines(stream, str(path))


def _numbered_lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Numbered lines with their ends, decoded one by one so that a bad byte has a line number."""
    number = 0
    while True:
        try:
            line = stream.readline()
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(name, error) from error
        if not line:
            return
        number += 1
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
            raise DataError(f"{name}:{number}: not UTF-8 ({byte}); save the file as UTF-8") from error
        yield number, text


def _unreadable(name: str, error: Exception) -> DataError:
    return DataError(f"{name}: damaged or not what its name says ({error}); fetch or write the file again")


def _read_json_lines(path: Path) -> Iterator[Row]:
    with _open(path) as stream:
        yield from read_json_lines(stream, name=str(path))


def _read_json(path: Path) -> Iterator[Row]:
    text = "".join(line for _, line in _lines(path))
    remedy = "write a list of objects; one object per line goes in .jsonl"
    value = _parse_json(text, str(path), remedy=remedy)
    if isinstance(value, dict):
        # Exports often wrap the rows: {"version": …, "data": […]}.
        lists: list[object] = [item for item in cast("dict[str, object]", value).values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        raise DataError(f"{path}: wanted a list of objects, or an object that holds one list (see docs/data.md)")
    for number, item in enumerate(cast("list[object]", value), start=1):
        yield _row(f"{path}: row {number}", item)


def _parse_json(text: str, location: str, *, remedy: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = location if error.lineno == 1 else f"{location}:{error.lineno}"
        raise DataError(f"{place}: not valid JSON ({error.msg} at column {error.colno}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: JSON that cannot be read ({error}); {remedy}") from error


def _row(location: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{location}: wanted an object with named fields, got {shown(value)} (see docs/data.md)")
    return Row(location, cast("dict[str, object]", value))


def _read_separated(path: Path, delimiter: str) -> Iterator[Row]:
    reader = csv.reader((line for _, line in _lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        first_line = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}:{first_line}: not valid CSV ({error}); check the quotes") from error
        if record is None:
            break
        if header is None:
            header = _header(path, record)
        elif record:
            yield _csv_row(f"{path}:{first_line}", header, record=record)
    if header is None:
        raise DataError(f"{path}: empty; the first line names the columns, such as problem,answer")


def _header(path: Path, record: list[str]) -> list[str]:
    header = [name.strip() for name in record]
    if len(set(header)) < len(header):
        raise DataError(f"{path}:1: a column name occurs twice ({listed(header)}); is the header line missing?")
    return header


def _csv_row(location: str, header: list[str], *, record: list[str]) -> Row:
    if len(record) != len(header):
        raise DataError(
            f"{location}: {len(record)} fields, but the header names {len(header)} ({listed(header)}); "
            "put quotes around fields that hold the separator"
        )
    return Row(location, dict(zip(header, record, strict=True)))


def _read_csv(path: Path) -> Iterator[Row]:
    return _read_separated(path, ",")


def _read_tsv(path: Path) -> Iterator[Row]:
    return _read_separated(path, "\t")


def _read_parquet(path: Path) -> Iterator[Row]:
    # `pyarrow` is not typed; `Any` stays inside this function.
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    number = 0
    try:
        # Parquet is read from its end, so a gzipped file has to be unpacked first.
        with _open(path) as stream, parquet.ParquetFile(io.BytesIO(stream.read())) as file:
            for batch in file.iter_batches():
                for values in cast("list[dict[str, object]]", batch.to_pylist()):
                    number += 1
                    yield Row(f"{path}: row {number}", values)
    except (OSError, EOFError, zlib.error, arrow.ArrowException) as error:
        raise _unreadable(str(path), error) from error


FORMATS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
}
