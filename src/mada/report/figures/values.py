"""What a figure shows as tables, for those who cannot see it or want the numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from mada.report.document import Cell, Column, Table
from mada.report.figures.data import FigureData, PairsFigure
from mada.report.numbers import NOTHING

LEFT_OUT = frozenset({"rollouts", "is_reference", "is_on_front"})
"""A point per agent and step is too much to read; marks of a drawing are no values."""
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class _Pair:
    row: str
    column: str
    difference: float
    p: float | None


def value_tables(data: FigureData) -> tuple[Table, ...]:
    """Return a table for each kind of thing in a figure, one row for each thing with what it belongs to before it."""
    parts: dict[str, tuple[Any, ...]] = (
        {"pairs": tuple(_pairs(data))}
        if isinstance(data, PairsFigure)
        else {
            field.name: values
            for field in fields(data)
            if isinstance(values := getattr(data, field.name), tuple) and is_dataclass(next(iter(values), None))
        }
    )
    return tuple(_table(f"{data.name}-{name}", name, values) for name, values in parts.items() if values)


def _table(name: str, title: str, values: tuple[Any, ...]) -> Table:
    rows = [row for value in values for row in _rows(value)]
    # The name of a run stays empty where there is only one.
    names = [key for key in rows[0] if any(row[key] not in ("", None) for row in rows)]
    columns = tuple(
        Column(key.replace("_", " "), "text" if isinstance(rows[0][key], str) else "number") for key in names
    )
    shown = tuple(tuple(Cell(_text(row[key])) for key in names) for row in rows[:MOST_ROWS])
    notes = (f"The first {MOST_ROWS} of {len(rows):,}.",) if len(rows) > MOST_ROWS else ()
    return Table(f"values-{name}", title, columns, (shown,), notes)


def _rows(value: Any) -> Iterator[dict[str, object]]:
    """Yield a value's fields, once for each of the values that it holds."""
    own: dict[str, object] = {}
    inner: tuple[Any, ...] = ()
    for field in fields(value):
        content = getattr(value, field.name)
        if field.name in LEFT_OUT:
            continue
        if isinstance(content, tuple) and is_dataclass(next(iter(content), None)):
            inner = content
        elif isinstance(content, tuple):
            own[field.name] = ", ".join(map(_text, content))
        else:
            own[field.name] = content
    for one in inner or (None,):
        yield own if one is None else {**own, **next(_rows(one))}


def _pairs(data: PairsFigure) -> Iterator[_Pair]:
    for row, cells in enumerate(data.cells):
        for column, cell in enumerate(cells[:row]):
            if cell is not None:
                yield _Pair(data.systems[row], data.systems[column], cell.difference, cell.p)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOTHING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
