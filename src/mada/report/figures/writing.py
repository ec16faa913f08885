"""Every figure drawn once: for papers as PDF, PNG and SVG, and for the page as an element with its values as tables.

This module and those that draw load matplotlib, so they are imported when figures are written and not before.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mada.atomic import replace_bytes
from mada.report.figures.data import FigureData
from mada.report.figures.draw_advantages import draw_advantages
from mada.report.figures.draw_critics import draw_critics
from mada.report.figures.draw_flow import draw_flow
from mada.report.figures.draw_pairs import draw_pairs
from mada.report.figures.draw_points import draw_parameters, draw_tokens
from mada.report.figures.draw_training import draw_training
from mada.report.figures.drawing import page_svg, picture_bytes, print_style, settle
from mada.report.figures.values import value_tables
from mada.report.forms.html import Drawing

# Each takes the figure of its name, which no type of a dict can say.
DRAWINGS: dict[str, Callable[[Any], Figure]] = {
    "parameters": draw_parameters,
    "tokens": draw_tokens,
    "training": draw_training,
    "flow": draw_flow,
    "critics": draw_critics,
    "advantages": draw_advantages,
    "pairs": draw_pairs,
}


def write_figures(figures: Iterable[FigureData], folder: Path) -> tuple[list[Path], dict[str, Drawing]]:
    """Write `NAME.pdf`, `.png` and `.svg` of every figure, and return their paths and the figures for a page.

    The same data gives the same bytes.
    """
    paths: list[Path] = []
    drawings: dict[str, Drawing] = {}
    for data in figures:
        with print_style():
            figure = DRAWINGS[data.name](data)
            settle(figure)
            for form in ("pdf", "png", "svg"):
                paths.append(folder / f"{data.name}.{form}")
                replace_bytes(paths[-1], picture_bytes(figure, form))
            drawings[data.name] = Drawing(page_svg(figure, name=data.name, title=data.title), value_tables(data))
    return paths, drawings
