"""Problems from wherever they are: a known name, a file, a Hub data set, or a Python callable."""

import importlib
import itertools
import re
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from mada.errors import DataError, MadaError
from mada.problems.abacus import abacus_problems
from mada.problems.files import is_problem_file, read_rows
from mada.problems.hub import HubName, read_hub_rows
from mada.problems.known import (
    DATA_FOLDER_VARIABLE,
    KNOWN_SETS,
    data_folder,
    known_name,
    local_files,
    nearest_names,
)
from mada.problems.problem import Problem
from mada.problems.rows import Draft, Layout, Row, collect_problems, drafts_from_rows, shown
from mada.problems.source_options import FORM, HUB_KEYS, parse_sources

_CALLABLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_HUB_PREFIX = "hub:"


def load_problems(
    source: str | Path,
    *,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
    columns: Mapping[str, str] | None = None,
    answer_form: str | None = None,
    folder: str | Path | None = None,
    limit: int | None = None,
    skipped: list[str] | None = None,
) -> list[Problem]:
    """Read all problems of a source, or the first `limit`.

    `source` is a known name (`math-500`), a file, `hub:owner/name`, or `module:function`, a callable without
    arguments that returns problems or rows; or several of these with ` + ` between them, one after the other. Each
    may have its own columns and answer form behind it, `my.csv{answer = "solution", form = "last-boxed"}`.
    `config`, `split` and `revision` choose within a Hub data set.
    `columns` maps problem, answer, id and source to the source's own column names. `folder` (else the
    environment variable `MADA_DATA`) holds the known sets' files; without one they come from the Hub.
    A row without an answer is an error; with a list as `skipped` it is left out, and its place noted there.
    """
    if limit is not None and limit < 1:
        raise DataError(f"the limit is {limit}; wanted at least one problem")
    common = HubName("", config=config, split=split, revision=revision)
    drafts = itertools.chain.from_iterable(
        _drafts(
            one.name,
            hub_choice=_chosen(common, HubName("", **{key: one.options.get(key) for key in HUB_KEYS})),
            columns={**(columns or {}), **one.columns},
            answer_form=one.options.get(FORM, answer_form),
            folder=Path(folder) if folder is not None else None,
            limit=limit,
            skipped=skipped,
        )
        for one in parse_sources(str(source))
    )
    problems = collect_problems(itertools.islice(drafts, limit))
    if not problems:
        raise DataError(f"{source}: holds no problems; wanted at least one row")
    return problems


def _drafts(
    source: str,
    *,
    hub_choice: HubName,
    columns: dict[str, str],
    answer_form: str | None,
    folder: Path | None,
    limit: int | None,
    skipped: list[str] | None,
) -> Iterator[Draft]:
    layout = Layout(source, columns=columns, answer_form=answer_form or "text", skipped=skipped)
    name = known_name(source)
    if name is not None and KNOWN_SETS[name].kind == "built-in":
        _refuse_hub_choice(name, hub_choice)
        if columns or answer_form:
            raise DataError(f"{name}: is made here and has no columns; leave out columns and answer form")
        return _built_in_drafts(name, limit)
    if name is not None:
        return _known_drafts(
            replace(layout, source=name), hub_choice=hub_choice, answer_form=answer_form, folder=data_folder(folder)
        )
    if source.startswith(_HUB_PREFIX):
        hub = _chosen(HubName(source.removeprefix(_HUB_PREFIX)), hub_choice)
        return drafts_from_rows(read_hub_rows(hub), replace(layout, source=hub.name))
    _refuse_hub_choice(source, hub_choice)
    if is_problem_file(source) or Path(source).exists():
        path = Path(source)
        return drafts_from_rows(read_rows(path), replace(layout, source=path.name))
    if _CALLABLE.fullmatch(source):
        return _callable_drafts(source, layout)
    raise DataError(_unknown(source))


def _unknown(source: str) -> str:
    near = nearest_names(source)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f"{source}: not a known name, a file, module:function or hub:owner/name; {guess}"
        "`mada problems list` shows the known names"
    )


def _built_in_drafts(name: str, limit: int | None) -> Iterator[Draft]:
    for problem in abacus_problems(name, limit=limit):
        yield Draft(problem.id, question=problem.question, answer=problem.answer, id=problem.id, source=problem.source)


def _known_drafts(
    layout: Layout, *, hub_choice: HubName, answer_form: str | None, folder: Path | None
) -> Iterator[Draft]:
    name = layout.source
    known = KNOWN_SETS[name]
    if folder is not None:
        _refuse_hub_choice(f"{name} (read from {folder})", hub_choice)
        parts = [drafts_from_rows(read_rows(path), layout) for path in local_files(name, folder)]
        drafts = itertools.chain.from_iterable(parts)
        return iter(sorted(drafts, key=_number_in_id)) if len(parts) > 1 else drafts
    if known.hub is None:
        raise DataError(
            f"{name}: only known as a local file; set {DATA_FOLDER_VARIABLE} to a folder with {', '.join(known.files)}"
        )
    columns = {**known.columns, **layout.columns}
    layout = replace(layout, columns=columns, answer_form=answer_form or known.answer_form)
    return drafts_from_rows(read_hub_rows(_chosen(known.hub, hub_choice)), layout)


def _number_in_id(draft: Draft) -> tuple[int, str]:
    number = re.search(r"\d+$", draft.id or "")
    return (int(number[0]) if number else sys.maxsize, draft.id or "")


def _chosen(hub: HubName, choice: HubName) -> HubName:
    return HubName(
        hub.name,
        config=choice.config or hub.config,
        split=choice.split or hub.split,
        revision=choice.revision or hub.revision,
    )


def _refuse_hub_choice(source: str, choice: HubName) -> None:
    if choice.config or choice.split or choice.revision:
        raise DataError(f"{source}: config, split and revision choose within a Hub data set; leave them out here")


def _callable_drafts(source: str, layout: Layout) -> Iterator[Draft]:
    for number, item in enumerate(_called(source), start=1):
        location = f"{source}: item {number}"
        if isinstance(item, Problem):
            yield Draft(location, item.question, item.answer, item.id, item.source)
        elif isinstance(item, Mapping):
            yield from drafts_from_rows([Row(location, cast("Mapping[str, object]", item))], layout)
        else:
            raise DataError(f"{location}: wanted a Problem or a mapping, got {shown(item)} (see docs/data.md)")


def _called(source: str) -> Iterator[object]:
    """What the user's function yields; what it raises becomes a `DataError` that names the failing line."""
    module_name, _, function_name = source.partition(":")
    try:
        with _working_folder_importable():
            function: object = getattr(importlib.import_module(module_name), function_name)
            if not callable(function):
                raise DataError(f"{source}: is {shown(function)}, not something that can be called")
            made = function()
            if not isinstance(made, Iterable):
                raise DataError(f"{source}: returned {shown(made)}; wanted problems or rows one after the other")
            yield from cast("Iterable[object]", made)
    except MadaError:
        raise
    except Exception as error:  # user code may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"{source}: raised {type(error).__name__}: {error} (at {frame.filename}:{frame.lineno}); "
            "run it by itself to see more"
        ) from error


@contextmanager
def _working_folder_importable() -> Generator[None]:
    """Let `module:function` name a file in the working folder; an installed module of that name comes first."""
    before = list(sys.path)
    sys.path.append("")
    try:
        yield
    finally:
        sys.path[:] = before
