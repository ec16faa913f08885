"""Problems from wherever they are: a known name, a file, a Hub data set, or a Python callable.

Behind its name a source may have options in braces, `my.csv{problem = "task", form = "last-boxed"}`: columns, the form
of the answer, and config, split and revision of a Hub data set. They are a TOML inline table, so they go wherever a
source is named: in a recipe, on the command line, and for each source of a sum.
"""

import importlib
import itertools
import json
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from mada.errors import DataError, MadaError
from mada.problems.abacus import abacus_problems
from mada.problems.files import is_problem_file, read_rows
from mada.problems.known import DATA_FOLDER_VARIABLE, KNOWN_SETS, data_folder, known_name, local_files, nearest_names
from mada.problems.problem import (
    ANSWER_FORMS,
    WELL_KNOWN_COLUMNS,
    Problem,
    Row,
    listed,
    read_problems,
    shown,
    with_unique_ids,
)

HUB_OPTIONS = ("config", "split", "revision")
OPTIONS = (*WELL_KNOWN_COLUMNS, "form", *HUB_OPTIONS)
_WITH_OPTIONS = re.compile(r"([^{]*[^{\s])\s*(\{.*\})", re.DOTALL)
_PLUS = re.compile(r"\s\+\s(?![^{]*\})")
_Located = tuple[str, Problem]
_CALLABLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Source:
    """A source's name and its options."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for key, value in self.options.items():
            if key not in OPTIONS:
                raise DataError(f"{self.name}: unknown option {key!r}; choose from {', '.join(OPTIONS)}")
            if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DataError(f'{self.name}: {key} is {value!r}; wanted text, such as {key} = "NAME"')
        form = self.options.get("form", "text")
        if form not in ANSWER_FORMS:
            raise DataError(f"{self.name}: unknown answer form {form!r}; choose from {', '.join(ANSWER_FORMS)}")

    def __str__(self) -> str:
        inside = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in self.options.items())
        return f"{self.name}{{{inside}}}" if inside else self.name


def parse_sources(text: str) -> list[Source]:
    """The sources of a sum, `math-train + my.csv{answer = "solution"}`; a file may be named like one."""
    if os.path.exists(text):
        return [Source(text)]
    return [_parse_source(one.strip()) for one in _PLUS.split(text)]


def _parse_source(text: str) -> Source:
    found = _WITH_OPTIONS.fullmatch(text)
    return Source(text) if found is None or os.path.exists(text) else Source(found[1], parse_table(found[2]))


def source_of_table(table: Mapping[str, Any]) -> Source:
    """Read a source that is written as a table, `{path = "my.csv", answer = "solution"}`."""
    options = dict(table)
    name = options.pop("path", None)
    if not isinstance(name, str) or not name.strip():
        raise DataError('a source as a table needs its path, such as {path = "my.csv", answer = "solution"}')
    return Source(name, options)


def parse_table(text: str) -> dict[str, Any]:
    """Read an inline table of TOML."""
    try:
        return tomllib.loads(f"table = {text}")["table"]
    except (ValueError, RecursionError) as error:
        raise DataError(
            f'{text}: is not a TOML table, such as {{problem = "task", answer = "solution"}}: {error}'
        ) from None


def load_problems(
    source: str | Path,
    *,
    options: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    limit: int | None = None,
    skipped: list[str] | None = None,
) -> list[Problem]:
    """Read all problems of a source, or the first `limit`.

    `source` is a known name (`math-500`), a file, `hub:owner/name`, or `module:function`, a callable without arguments
    that returns problems or rows; or several of these with ` + ` between them. `options` are those in braces, for every
    source that has none of its own. `folder` (else the environment variable `MADA_DATA`) holds the known sets' files;
    without one they come from the Hub. A row without an answer is an error; with a list as `skipped` it is left out,
    and its location added to the list.
    """
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit}; wanted at least one problem")
    chosen = data_folder(Path(folder) if folder is not None else None)
    located = itertools.chain.from_iterable(
        _read(Source(one.name, {**(options or {}), **one.options}), chosen, limit=limit, skipped=skipped)
        for one in parse_sources(str(source))
    )
    problems = with_unique_ids(itertools.islice(located, limit))
    if not problems:
        raise DataError(f"{source}: holds no problems; wanted at least one row")
    return problems


def _read(source: Source, folder: Path | None, *, limit: int | None, skipped: list[str] | None) -> Iterator[_Located]:
    name = known_name(source.name) or source.name
    known = KNOWN_SETS.get(name)
    if known and known.kind == "built-in":
        _refuse_options(source, OPTIONS, why="it is generated here")
        return ((one.id, one) for one in abacus_problems(name, limit=limit))
    if known and folder is None:
        if known.hub is None:
            files = ", ".join(known.files)
            raise DataError(f"{name}: only known as a local file; set {DATA_FOLDER_VARIABLE} to a folder with {files}")
        (hub,) = parse_sources(known.hub)
        source = Source(f"hub:{hub.name}", {**hub.options, **source.options})
    hub_name = source.name.removeprefix("hub:")
    label = name if known else hub_name if hub_name != source.name else Path(source.name).name
    read = partial(read_problems, source=label, options=source.options, skipped=skipped)
    if hub_name != source.name:
        rows = read_hub_rows(hub_name, **{key: source.options.get(key) for key in HUB_OPTIONS})
        return read(rows)
    _refuse_options(source, HUB_OPTIONS, why="they choose within a Hub data set")
    if known and folder is not None:
        files = [read(read_rows(path)) for path in local_files(name, folder)]
        located = itertools.chain.from_iterable(files)
        return iter(sorted(located, key=_number_in_id)) if len(files) > 1 else located
    if is_problem_file(source.name) or os.path.exists(source.name):
        return read(read_rows(Path(source.name)))
    if _CALLABLE.fullmatch(source.name):
        return _read_callable(source.name, partial(read, source=source.name))
    near = nearest_names(source.name)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise DataError(
        f"{source.name}: not a known name, a file, module:function or hub:owner/name; {guess}"
        "`mada problems list` shows the known names"
    )


def _refuse_options(source: Source, names: Iterable[str], *, why: str) -> None:
    stray = [name for name in names if name in source.options]
    if stray:
        raise DataError(f"{source.name}: got {stray[0]}; leave out {', '.join(names)} here: {why}")


def _number_in_id(located: _Located) -> tuple[int, str]:
    name = located[1].id
    number = re.search(r"\d+$", name)
    return (int(number[0]) if number and not name.startswith("text-") else sys.maxsize, name)


def read_hub_rows(
    name: str, *, config: str | None = None, split: str | None = None, revision: str | None = None
) -> Iterator[Row]:
    """The rows of one split of a Hub data set, or of a folder that `datasets` can load."""
    details = ", ".join(detail for detail in (config, split, revision) if detail)
    label = f"{name} ({details})" if details else name
    # `datasets` is slow to import and only partly typed; `Any` stays inside this function.
    library: Any = importlib.import_module("datasets")
    try:
        library.disable_progress_bars()  # it draws one per split into notebooks and logs
        found: Any = library.load_dataset(name, config, split=split, revision=revision)
    except Exception as error:  # the loader raises a different type for every layer below it
        reason = (str(error).strip() or "no reason given").splitlines()[0][:200]
        raise DataError(
            f"hub:{label}: cannot be loaded ({type(error).__name__}: {reason}); check name, config, split and "
            f"revision; without a network, set {DATA_FOLDER_VARIABLE} to a folder with the known files, or pass a file"
        ) from error
    if isinstance(found, dict):
        splits = cast("dict[str, Any]", found)
        if len(splits) != 1:
            raise DataError(
                f'hub:{label}: has several splits ({listed(splits)}); choose one, hub:{name}{{split = "NAME"}}'
            )
        (found,) = splits.values()
    for number, values in enumerate(found, start=1):
        yield Row(f"{label}: row {number}", values)


def go_offline() -> None:
    """Use only cached downloads from here on: an unreachable Hub costs half a minute for each name."""
    for module in ("huggingface_hub.constants", "datasets.config"):
        vars(importlib.import_module(module))["HF_HUB_OFFLINE"] = True


def _read_callable(source: str, read: Callable[[list[Row]], Iterator[_Located]]) -> Iterator[_Located]:
    for number, item in enumerate(_call(source), start=1):
        location = f"{source}: item {number}"
        if isinstance(item, Problem):
            yield location, item
        elif isinstance(item, Mapping):
            yield from read([Row(location, cast("Mapping[str, object]", item))])
        else:
            raise DataError(f"{location}: wanted a Problem or a mapping, got {shown(item)} (see docs/recipe.md)")


def _call(source: str) -> Iterator[object]:
    """What the user's function yields; what it raises becomes a `DataError` that names the failing line."""
    module_name, _, function_name = source.partition(":")
    path = list(sys.path)
    sys.path.append("")  # a file in the working folder may hold the function; installed modules come first
    try:
        function: object = getattr(importlib.import_module(module_name), function_name)
        if not callable(function):
            raise DataError(f"{source}: is {shown(function)}, not something that can be called")
        items = function()
        if not isinstance(items, Iterable):
            raise DataError(f"{source}: returned {shown(items)}; wanted problems or rows one after the other")
        yield from cast("Iterable[object]", items)
    except MadaError:
        raise
    except Exception as error:  # user code may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"{source}: raised {type(error).__name__}: {error} (at {frame.filename}:{frame.lineno}); "
            "run it by itself to see more"
        ) from error
    finally:
        sys.path[:] = path
