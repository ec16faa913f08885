"""All figures of some runs as files (PDF, PNG, SVG) and for the page, with tables of their values."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mada.atomic import replace_bytes
from mada.report.document import Cell, Column, Table
from mada.report.figures import TITLES
from mada.report.figures.debates import critics_figure, flow_figure
from mada.report.figures.drawing import Drawn, page_svg, picture_bytes, print_style
from mada.report.figures.systems import pairs_figure, parameters_figure, tokens_figure
from mada.report.figures.training import advantages_figure, training_figure
from mada.report.forms.html import Drawing
from mada.report.numbers import NOTHING
from mada.report.reading import Source

FIGURES: dict[str, Callable[[Sequence[Source]], Drawn | None]] = {
    "parameters": parameters_figure,
    "tokens": tokens_figure,
    "training": training_figure,
    "flow": flow_figure,
    "critics": critics_figure,
    "advantages": advantages_figure,
    "pairs": pairs_figure,
}
"""Functions that draw the figures of some runs; None where they have no data for it."""
MOST_ROWS = 200


def write_figures(sources: Sequence[Source], folder: Path) -> tuple[list[Path], dict[str, Drawing]]:
    """Write `NAME.pdf`, `.png` and `.svg` of every figure; return their paths, and the figures for a page by name.

    The same runs give the same bytes.
    """
    paths: list[Path] = []
    drawings: dict[str, Drawing] = {}
    for name, make in FIGURES.items():
        with print_style():
            drawn = make(sources)
            if drawn is None:
                continue
            # Laid out once, so that all files agree.
            drawn.figure.draw_without_rendering()
            drawn.figure.set_layout_engine("none")
            for form in ("pdf", "png", "svg"):
                paths.append(folder / f"{name}.{form}")
                replace_bytes(paths[-1], picture_bytes(drawn.figure, form))
            svg = page_svg(drawn.figure, name=name, title=TITLES[name])
        tables = [_value_table(f"{name}-{title}", title, rows) for title, rows in drawn.values.items() if rows]
        drawings[name] = Drawing(svg, tables)
    return paths, drawings


def _value_table(name: str, title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return the values of a figure, for those who cannot see it or want the numbers."""
    # The name of a run is empty where there is only one.
    names = [key for key in rows[0] if any(one[key] not in ("", None) for one in rows)]
    columns = (Column(key.replace("_", " "), "text" if isinstance(rows[0][key], str) else "number") for key in names)
    texts = tuple(tuple(Cell(_text(one[key])) for key in names) for one in rows[:MOST_ROWS])
    notes = (f"The first {MOST_ROWS} of {len(rows):,}.",) if len(rows) > MOST_ROWS else ()
    return Table(f"values-{name}", title, tuple(columns), (texts,), notes)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOTHING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
