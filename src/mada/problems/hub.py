"""Data sets of the Hugging Face Hub, as rows.

`datasets` is imported only when a data set is asked for, because it is slow to load.
"""

import importlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from mada.errors import DataError
from mada.problems.rows import Row, listed


@dataclass(frozen=True, slots=True)
class HubName:
    """Which data set: `owner/name`, or a folder `datasets` can load; and which part of it."""

    name: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        details = ", ".join(detail for detail in (self.config, self.split, self.revision) if detail)
        return f"{self.name} ({details})" if details else self.name


def read_hub_rows(hub: HubName) -> Iterator[Row]:
    """The rows of one split; no network, no such name or no such split ends in a `DataError`."""
    for number, values in enumerate(_split(hub), start=1):
        yield Row(f"{hub}: row {number}", values)


def _split(hub: HubName) -> Iterator[Mapping[str, object]]:
    # `datasets` is only partly typed; `Any` stays inside this function.
    library: Any = importlib.import_module("datasets")
    try:
        with _without_progress_bars(library):
            found: Any = library.load_dataset(hub.name, hub.config, split=hub.split, revision=hub.revision)
    except Exception as error:  # the loader raises a different type for every layer below it
        raise DataError(
            f"hub:{hub}: cannot be loaded ({_first_line(error)}); check name, config, split and revision; "
            "without a network, set MADA_DATA to a folder with the known files, or pass a file"
        ) from error
    if isinstance(found, dict):
        by_name = cast("dict[str, Any]", found)
        if len(by_name) != 1:
            raise DataError(
                f'hub:{hub}: has several splits ({listed(by_name)}); choose one, hub:{hub.name}{{split = "NAME"}}'
            )
        (found,) = by_name.values()
    return iter(found)


@contextmanager
def _without_progress_bars(library: Any) -> Generator[None]:
    """Keep `datasets` from drawing a bar per split into notebooks and logs."""
    shown = not library.are_progress_bars_disabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bars()


def stop_asking() -> None:
    """Use only what was downloaded before, in this process: a Hub out of reach costs half a minute for each name."""
    for module, name in (("huggingface_hub.constants", "HF_HUB_OFFLINE"), ("datasets.config", "HF_HUB_OFFLINE")):
        setattr(importlib.import_module(module), name, True)


def _first_line(error: Exception) -> str:
    text = (str(error).strip() or "no reason given").splitlines()[0][:200]
    return f"{type(error).__name__}: {text}"
