"""Drawing the flow of votes: for every round a block of right votes above one of wrong ones, and bands between."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from mada.report.figures.data import Flow, FlowFigure
from mada.report.figures.drawing import BLACK, GRAY, RIGHT, SMALL, TINY, WHITE, WRONG, panels, tip
from mada.report.figures.lettering import wrapped
from mada.report.numbers import share_text

GAP = 0.07
"""Between the right block and the wrong one, as a share of all questions."""
BLOCK = 0.36
"""A block's width, where rounds are 1 apart."""
LOWEST_NAMED = 0.05
"""Lower blocks have no room for their number."""
UNCHANGED, CHANGED = 0.22, 0.7
"""How opaque bands are: what changed stands out."""


def draw_flow(data: FlowFigure) -> Figure:
    """Draw each debate in a panel of its own."""
    most = max(len(flow.steps) for flow in data.flows)
    figure, all_axes = panels(len(data.flows), most_per_row=4 if most <= 2 else 2, height=2.1, in_column=2)
    for axes, flow in zip(all_axes, data.flows, strict=True):
        _draw_panel(axes, flow)
    handles = [
        Patch(facecolor=RIGHT, edgecolor=BLACK, linewidth=0.4, label="vote right (% of questions)"),
        Patch(facecolor=WRONG, edgecolor=BLACK, linewidth=0.4, label="vote wrong (% of questions)"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, columnspacing=1.2, handletextpad=0.5)
    return figure


def _draw_panel(axes: Axes, flow: Flow) -> None:
    # Right votes at the top and wrong ones at the bottom, so that what stays so goes straight and what changes crosses.
    right = [step.right_to_right + step.right_to_wrong for step in flow.steps[:1]]
    right += [step.right_to_right + step.wrong_to_right for step in flow.steps]
    for place, share in enumerate(right):
        _draw_block(axes, place, bottom=1 - share + GAP, share=share, is_right=True)
        _draw_block(axes, place, bottom=0.0, share=1 - share, is_right=False)
    for place, step in enumerate(flow.steps):
        top, before, after = 1 + GAP, 1 - right[place], 1 - right[place + 1]
        _draw_band(axes, place, (top, top), step.right_to_right, colour=RIGHT, changed=False)
        _draw_band(
            axes, place, (step.wrong_to_wrong, step.wrong_to_wrong), step.wrong_to_wrong, colour=WRONG, changed=False
        )
        _draw_band(
            axes, place, (before + GAP + step.right_to_wrong, after), step.right_to_wrong, colour=WRONG, changed=True
        )
        _draw_band(
            axes, place, (before, after + GAP + step.wrong_to_right), step.wrong_to_right, colour=RIGHT, changed=True
        )
    title = wrapped(f"{flow.run}: {flow.title}" if flow.run else flow.title, 28)
    axes.set_title(title, linespacing=1.0)
    axes.set_xlim(-BLOCK / 2 - 0.04, len(flow.steps) + BLOCK / 2 + 0.04)
    axes.set_ylim(-0.01, 1 + GAP + 0.01)
    axes.set_xticks(range(len(right)), [f"round {number}" for number in range(1, len(right) + 1)])
    axes.tick_params(length=0)
    axes.yaxis.set_visible(False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _draw_block(axes: Axes, place: int, *, bottom: float, share: float, is_right: bool) -> None:
    if share <= 0:
        return
    axes.add_patch(
        Rectangle(
            (place - BLOCK / 2, bottom),
            BLOCK,
            share,
            facecolor=RIGHT if is_right else WRONG,
            edgecolor=BLACK,
            linewidth=0.4,
            zorder=3,
        )
    )
    if share >= LOWEST_NAMED:
        _write(axes, place, bottom + share / 2, share, size=SMALL, colour=WHITE)


def _draw_band(axes: Axes, place: int, tops: tuple[float, float], share: float, *, colour: str, changed: bool) -> None:
    """Draw a band from a round's blocks to the next, below the two given heights."""
    if share <= 0:
        return
    left, right = place + BLOCK / 2, place + 1 - BLOCK / 2
    middle = (left + right) / 2
    (first, last) = tops
    corners = [
        (left, first),
        *((middle, first), (middle, last), (right, last)),
        (right, last - share),
        *((middle, last - share), (middle, first - share), (left, first - share)),
        (left, first),
    ]
    curve = [Path.CURVE4] * 3
    path = Path(corners, [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY])
    band = PathPatch(
        path,
        facecolor=colour,
        alpha=CHANGED if changed else UNCHANGED,
        edgecolor=GRAY if changed else "none",
        linewidth=0.3,
        zorder=2 if changed else 1,
    )
    after = "right" if colour == RIGHT else "wrong"
    tip(band, f"{share_text(share)} % of the questions: {'now' if changed else 'still'} {after}")
    axes.add_patch(band)
    if changed:
        # Before the two changes cross: a third of the way the curve has gone a sixth of its climb.
        x, y = left + (right - left) * 0.3, first + (last - first) * 0.16 - share / 2
        text = _write(axes, x, y, share, size=TINY, colour=BLACK)
        text.set_bbox({"facecolor": WHITE, "alpha": 0.75, "linewidth": 0, "pad": 0.4})


def _write(axes: Axes, x: float, y: float, share: float, *, size: float, colour: str) -> Text:
    return axes.text(x, y, share_text(share), size=size, color=colour, ha="center", va="center", zorder=4)
