"""All figures of some runs as files (PDF, PNG, SVG) and for the page, with tables of their values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mada.atomic import replace_bytes
from mada.report.document import Cell, Column, Table
from mada.report.figures import TITLES
from mada.report.figures.advantages import AdvantagesFigure, advantages_figure, draw_advantages
from mada.report.figures.debates import CriticsFigure, FlowFigure, critics_figure, draw_critics, draw_flow, flow_figure
from mada.report.figures.drawing import fix_layout, page_svg, picture_bytes, print_style
from mada.report.figures.pairs import PairsFigure, draw_pairs, pairs_figure
from mada.report.figures.points import (
    ParametersFigure,
    TokensFigure,
    draw_parameters,
    draw_tokens,
    parameters_figure,
    tokens_figure,
)
from mada.report.figures.training import TrainingFigure, draw_training, training_figure
from mada.report.forms.html import Drawing
from mada.report.numbers import NOTHING
from mada.report.reading import Source

FigureData = (
    ParametersFigure | TokensFigure | TrainingFigure | FlowFigure | CriticsFigure | AdvantagesFigure | PairsFigure
)
# Each drawing function takes the figure of its name, which the type of a dict cannot say.
FIGURES: dict[str, tuple[Callable[[Sequence[Source]], FigureData | None], Callable[[Any], Figure]]] = {
    "parameters": (parameters_figure, draw_parameters),
    "tokens": (tokens_figure, draw_tokens),
    "training": (training_figure, draw_training),
    "flow": (flow_figure, draw_flow),
    "critics": (critics_figure, draw_critics),
    "advantages": (advantages_figure, draw_advantages),
    "pairs": (pairs_figure, draw_pairs),
}
HIDDEN = frozenset({"rollouts", "is_reference", "is_on_front"})
"""Not in tables of values: a point per agent and step is too much to read."""
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class _Pair:
    row: str
    column: str
    difference: float
    p: float | None


def figures_of(sources: Sequence[Source]) -> list[FigureData]:
    """Return the figures that these runs have data for."""
    return [data for build, _ in FIGURES.values() if (data := build(sources)) is not None]


def draw(data: FigureData) -> Figure:
    """Return a drawn figure with its final layout."""
    with print_style():
        figure = FIGURES[data.name][1](data)
        fix_layout(figure)
        return figure


def write_figures(figures: Iterable[FigureData], folder: Path) -> tuple[list[Path], dict[str, Drawing]]:
    """Write `NAME.pdf`, `.png` and `.svg` of every figure; return their paths, and the figures for a page by name.

    The same data gives the same bytes.
    """
    paths: list[Path] = []
    drawings: dict[str, Drawing] = {}
    for data in figures:
        with print_style():
            figure = draw(data)
            for form in ("pdf", "png", "svg"):
                paths.append(folder / f"{data.name}.{form}")
                replace_bytes(paths[-1], picture_bytes(figure, form))
            svg = page_svg(figure, name=data.name, title=TITLES[data.name])
            drawings[data.name] = Drawing(svg, value_tables(data))
    return paths, drawings


def value_tables(data: FigureData) -> tuple[Table, ...]:
    """Return the values of a figure as tables, for those who cannot see it or want the numbers."""
    if isinstance(data, PairsFigure):
        pairs = [
            _Pair(data.systems[row], data.systems[column], cell.difference, cell.p)
            for row, cells in enumerate(data.cells)
            for column, cell in enumerate(cells[:row])
            if cell is not None
        ]
        return (_value_table("pairs-pairs", "pairs", pairs),) if pairs else ()
    parts = {field.name: getattr(data, field.name) for field in fields(data)}
    return tuple(
        _value_table(f"{data.name}-{name}", name, values) for name, values in parts.items() if _has_parts(values)
    )


def _value_table(name: str, title: str, values: Iterable[Any]) -> Table:
    rows = [row for value in values for row in _value_rows(value)]
    # The name of a run is empty where there is only one.
    names = [key for key in rows[0] if any(row[key] not in ("", None) for row in rows)]
    columns = tuple(
        Column(key.replace("_", " "), "text" if isinstance(rows[0][key], str) else "number") for key in names
    )
    shown = tuple(tuple(Cell(_text(row[key])) for key in names) for row in rows[:MOST_ROWS])
    notes = (f"The first {MOST_ROWS} of {len(rows):,}.",) if len(rows) > MOST_ROWS else ()
    return Table(f"values-{name}", title, columns, (shown,), notes)


def _value_rows(value: Any) -> Iterator[dict[str, object]]:
    """Yield a value's fields, once for each of the values that it holds."""
    own: dict[str, object] = {}
    inner: tuple[Any, ...] = ()
    for field in fields(value):
        content = getattr(value, field.name)
        if field.name in HIDDEN:
            continue
        if _has_parts(content):
            inner = content
        else:
            own[field.name] = ", ".join(map(_text, content)) if isinstance(content, tuple) else content
    for part in inner or (None,):
        yield own if part is None else {**own, **next(_value_rows(part))}


def _has_parts(content: Any) -> bool:
    return isinstance(content, tuple) and is_dataclass(next(iter(content), None))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOTHING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
