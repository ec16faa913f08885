"""Writing names beside points of a drawn figure, where `placement` finds room for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from mada.report.figures.drawing import GRAY, settle
from mada.report.figures.placement import GAP, Box, Name, Placed, place_names

MARKER_RADIUS = 3.5
POINTS_PER_INCH = 72
STEP = 3.0
"""Lines are tested for names upon them so often, in points of print."""

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PointName:
    """A name as letters that stand for themselves, and its point in the coordinates of the data."""

    text: str
    x: float
    y: float
    error: float
    is_bold: bool
    colour: str


def write_names(
    figure: Figure, axes: Axes, names: Sequence[PointName], *, size: float, lines: Sequence[Sequence[Place]]
) -> None:
    """Write every name near its point, off the other names, points and lines; call it last, it fixes the layout."""
    texts = [
        axes.annotate(
            name.text,
            (name.x, name.y),
            xytext=(0, 0),
            textcoords="offset points",
            verticalalignment="bottom",
            fontsize=size,
            fontweight="bold" if name.is_bold else "normal",
            color=name.colour,
            linespacing=0.95,
            zorder=4,
        )
        for name in names
    ]
    for text in texts:
        text.set_in_layout(False)
    # Layout and limits are settled before names are placed, and must not change afterwards.
    settle(figure)
    axes.autoscale(False)
    sizes = [_box(text.get_window_extent(), figure.dpi) for text in texts]
    targets = [
        Name(*_printed(axes, name.x, name.y), width=box.right - box.left, height=box.top - box.bottom)
        for name, box in zip(names, sizes, strict=True)
    ]
    placed = place_names(
        targets,
        obstacles=[box for name in names for box in _taken(axes, name)],
        lines=[place for line in lines for place in _along([_printed(axes, *corner) for corner in line])],
        inside=_box(axes.get_window_extent(), figure.dpi),
    )
    for text, target, place in zip(texts, targets, placed, strict=True):
        text.set_position((place.box.left + GAP - target.x, place.box.bottom + GAP - target.y))
        _draw_leader(axes, place)


def _draw_leader(axes: Axes, place: Placed) -> None:
    if not place.leader:
        return
    ends = [(x * axes.figure.dpi / POINTS_PER_INCH, y * axes.figure.dpi / POINTS_PER_INCH) for x, y in place.leader]
    start, end = axes.transData.inverted().transform([ends[0], ends[-1]])
    axes.plot([start[0], end[0]], [start[1], end[1]], color=GRAY, linewidth=0.4, zorder=2)


def _printed(axes: Axes, x: float, y: float) -> Place:
    """Return where in print a place of the data is."""
    across, up = axes.transData.transform((x, y))
    return float(across) * POINTS_PER_INCH / axes.figure.dpi, float(up) * POINTS_PER_INCH / axes.figure.dpi


def _taken(axes: Axes, name: PointName) -> Iterator[Box]:
    """Yield what a point and its error bar take."""
    x, y = _printed(axes, name.x, name.y)
    yield Box.around(x, y, MARKER_RADIUS)
    if name.error:
        (_, low), (_, high) = (_printed(axes, name.x, name.y + sign * name.error) for sign in (-1, 1))
        yield Box(x - 1.5, low, x + 1.5, high)


def _along(corners: Sequence[Place]) -> Iterator[Place]:
    """Yield places along a line, close to each other."""
    for (x0, y0), (x1, y1) in pairwise(corners):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / STEP))
        for step in range(steps + 1):
            yield x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps


def _box(extent: Bbox, dpi: float) -> Box:
    scale = POINTS_PER_INCH / dpi
    return Box(extent.x0 * scale, extent.y0 * scale, extent.x1 * scale, extent.y1 * scale)
