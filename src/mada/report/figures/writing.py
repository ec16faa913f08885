"""Figures as files for papers: every one as PDF, in lines and letters, and as PNG.

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
from mada.report.figures.drawing import picture_bytes, print_style, settle

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


def write_figures(figures: Iterable[FigureData], folder: Path) -> list[Path]:
    """Write `NAME.pdf` and `NAME.png` of every figure and return their paths; the same data gives the same bytes."""
    paths: list[Path] = []
    for data in figures:
        with print_style():
            drawn = DRAWINGS[data.name](data)
            settle(drawn)
            for form in ("pdf", "png"):
                path = folder / f"{data.name}.{form}"
                replace_bytes(path, picture_bytes(drawn, form))
                paths.append(path)
    return paths
