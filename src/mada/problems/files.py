"""Problem files (JSONL, JSON, CSV, TSV, Parquet, each also gzipped) as rows with their locations.

Text is UTF-8, with or without a byte order mark. Whatever is wrong with a file raises a `DataError` that names the file
and, where it has lines, the line.
"""

import csv
import gzip
import importlib
import io
import itertools
import json
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from mada.errors import DataError
from mada.problems.problem import Row, listed, shown


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a problem file, read by the format its name ends in."""
    if os.path.isdir(path):
        raise DataError(f"{path}: is a folder; name one file in it, or hub:{path} for a folder in data set form")
    read = FORMATS.get(_format(path))
    if read is None:
        endings = ", ".join(FORMATS)
        raise DataError(
            f"{path}: cannot read {path.suffix or 'a file without an ending'}; use {endings}, or one of these with .gz"
        )
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file; check the name and the folder you are in")
    return read(path)


def read_json_lines(stream: IO[bytes], *, name: str) -> Iterator[Row]:
    """The rows of a JSONL stream; `name` says in errors where they come from."""
    for number, line in _numbered_lines(stream, name):
        if line.strip():
            location = f"{name}:{number}"
            remedy = "JSONL has one JSON object per line; a JSON list goes in .json"
            yield _row(location, _parse_json(line.strip(), location, remedy=remedy))


def is_problem_file(name: str) -> bool:
    """Whether a name ends like a problem file, present or not."""
    return _format(Path(name)) in FORMATS


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _open(path: Path) -> IO[bytes]:
    try:
        return cast("IO[bytes]", gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error


def _lines(path: Path) -> Generator[str]:
    with _open(path) as stream:
        for _, line in _numbered_lines(stream, str(path)):
            yield line


def _numbered_lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Lines with their ends, decoded one by one so that a bad byte has a line number."""
    try:
        for number, line in enumerate(stream, start=1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
                raise DataError(f"{name}:{number}: not UTF-8 ({byte}); save the file as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> DataError:
    return DataError(f"{name}: damaged or not what its name says ({error}); fetch or write the file again")


def _parse_json(text: str, location: str, *, remedy: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = location if error.lineno == 1 else f"{location}:{error.lineno}"
        raise DataError(f"{where}: not valid JSON ({error.msg} at column {error.colno}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: JSON that cannot be read ({error}); {remedy}") from error


def _row(location: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{location}: wanted an object with named fields, got {shown(value)} (see docs/recipe.md)")
    return Row(location, cast("dict[str, object]", value))


def _read_json_lines(path: Path) -> Iterator[Row]:
    with _open(path) as stream:
        yield from read_json_lines(stream, name=str(path))


def _read_json(path: Path) -> Iterator[Row]:
    remedy = "write a list of objects; one object per line goes in .jsonl"
    value = _parse_json("".join(_lines(path)), str(path), remedy=remedy)
    if isinstance(value, dict):  # exports often wrap the rows: {"version": …, "data": […]}
        lists: list[object] = [item for item in cast("dict[str, object]", value).values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list):
        raise DataError(f"{path}: wanted a list of objects, or an object that holds one list (see docs/recipe.md)")
    for number, item in enumerate(cast("list[object]", value), start=1):
        yield _row(f"{path}: row {number}", item)


def _read_separated(path: Path, *, delimiter: str) -> Iterator[Row]:
    with closing(_lines(path)) as lines:
        reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            if len(set(header)) < len(header):
                raise DataError(f"{path}:1: a column name occurs twice ({listed(header)}); is the header line missing?")
            for values in reader:
                location = f"{path}:{reader.line_num}"
                if len(values) != len(header) or None in values.values():
                    raise DataError(
                        f"{location}: not as many fields as the header names ({listed(header)}); "
                        "put quotes around fields that hold the separator"
                    )
                yield Row(location, values)
        except csv.Error as error:
            raise DataError(f"{path}:{reader.reader.line_num}: not valid CSV ({error}); check the quotes") from error
        if not header:
            raise DataError(f"{path}: empty; the first line names the columns, such as problem,answer")


def _read_parquet(path: Path) -> Iterator[Row]:
    # `pyarrow` is not typed; `Any` stays inside this function.
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        # Parquet is read from its end, so a gzipped file has to be unpacked first.
        with _open(path) as stream, parquet.ParquetFile(io.BytesIO(stream.read())) as file:
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in file.iter_batches())
            for number, values in enumerate(rows, start=1):
                yield Row(f"{path}: row {number}", values)
    except (OSError, EOFError, zlib.error, arrow.ArrowException) as error:
        raise _unreadable(str(path), error) from error


FORMATS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".csv": partial(_read_separated, delimiter=","),
    ".tsv": partial(_read_separated, delimiter="\t"),
    ".parquet": _read_parquet,
}
