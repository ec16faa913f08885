"""What rounds after the first change: the flow of votes, and critics by how many generators were right."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from mada.evaluation.transitions import DebateTransitions, Transitions
from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    LIGHT_GRAY,
    RIGHT,
    SMALL,
    TINY,
    VERMILLION,
    WHITE,
    WRONG,
    panels,
    percent_axis,
    tooltip,
    wrapped,
)
from mada.report.numbers import numbered_titles, share_text
from mada.report.reading import Source, run_title, shown_debates

GAP = 0.07
"""Between the right block and the wrong one, as a share of all questions."""
BLOCK_WIDTH = 0.36
"""A block's width, where rounds are 1 apart."""
LOWEST_LABELLED = 0.05
"""Lower blocks have no room for their number."""
UNCHANGED, CHANGED = 0.22, 0.7
"""Opacity of bands: what changed stands out."""
MOST_TICKS = 6
"""So many numbers of generators fit below a panel."""


@dataclass(frozen=True, slots=True)
class Flow:
    """How the votes of one system's debates pass from round to round."""

    run: str
    title: str
    steps: tuple[Transitions, ...]


@dataclass(frozen=True)
class FlowFigure:
    """The flow of votes of all debates."""

    name: ClassVar = "flow"
    flows: tuple[Flow, ...]


@dataclass(frozen=True, slots=True)
class RightCount:
    """Debates whose first round had so many right generators; accuracies are of the last round, None without any."""

    right: int
    debates: int
    share: float
    accuracy: float | None
    vote: float | None


@dataclass(frozen=True, slots=True)
class RightCounts:
    """One system's debates by how many generators were right."""

    run: str
    title: str
    generators: int
    counts: tuple[RightCount, ...]


@dataclass(frozen=True)
class CriticsFigure:
    """Accuracy of critics by how many generators were right: whether they add anything or only repeat."""

    name: ClassVar = "critics"
    systems: tuple[RightCounts, ...]


def flow_figure(sources: Sequence[Source]) -> FlowFigure | None:
    """Return the flow of votes of every shown debate; None where nobody debated."""
    flows = tuple(Flow(run, title, transitions.votes) for run, title, transitions in _debates(sources))
    return FlowFigure(flows) if flows else None


def critics_figure(sources: Sequence[Source]) -> CriticsFigure | None:
    """Return every shown debate by its number of right generators; None where nobody debated."""
    systems: list[RightCounts] = []
    for run, title, transitions in _debates(sources):
        counts = tuple(
            RightCount(right, one.count, one.share, one.accuracy, one.vote)
            for right, one in enumerate(transitions.by_right)
        )
        systems.append(RightCounts(run, title, len(counts) - 1, counts))
    return CriticsFigure(tuple(systems)) if systems else None


def _debates(sources: Sequence[Source]) -> Iterator[tuple[str, str, DebateTransitions]]:
    """Yield run, title and transitions of all shown debates."""
    titles = numbered_titles(source.grid.plan for source in sources if source.grid)
    for source, grid in ((source, source.grid) for source in sources if source.grid):
        for system, transitions in shown_debates(grid):
            yield run_title(source, sources), titles[system.name], transitions


def draw_flow(data: FlowFigure) -> Figure:
    """Draw each debate in a panel: per round a block of right votes above one of wrong ones, and bands between."""
    most = max(len(flow.steps) for flow in data.flows)
    figure, all_axes = panels(len(data.flows), most_per_row=4 if most <= 2 else 2, height=2.1, in_column=2)
    for axes, flow in zip(all_axes, data.flows, strict=True):
        _draw_flow(axes, flow)
    handles = [
        Patch(facecolor=colour, edgecolor=BLACK, linewidth=0.4, label=f"vote {name} (% of questions)")
        for colour, name in ((RIGHT, "right"), (WRONG, "wrong"))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, columnspacing=1.2, handletextpad=0.5)
    return figure


def _draw_flow(axes: Axes, flow: Flow) -> None:
    # Right votes are on top, so that bands of unchanged votes are straight and those of changed ones cross.
    right = [step.right_to_right + step.right_to_wrong for step in flow.steps[:1]]
    right += [step.right_to_right + step.wrong_to_right for step in flow.steps]
    for round_, share in enumerate(right):
        _draw_block(axes, round_, bottom=1 - share + GAP, share=share, colour=RIGHT)
        _draw_block(axes, round_, bottom=0.0, share=1 - share, colour=WRONG)
    for round_, step in enumerate(flow.steps):
        top, before, after = 1 + GAP, 1 - right[round_], 1 - right[round_ + 1]
        bands = (
            (step.right_to_right, top, top, RIGHT, False),
            (step.wrong_to_wrong, step.wrong_to_wrong, step.wrong_to_wrong, WRONG, False),
            (step.right_to_wrong, before + GAP + step.right_to_wrong, after, WRONG, True),
            (step.wrong_to_right, before, after + GAP + step.wrong_to_right, RIGHT, True),
        )
        for share, first, last, colour, is_changed in bands:
            _draw_band(axes, round_, (first, last), share, colour=colour, is_changed=is_changed)
    _set_title(axes, flow.run, flow.title)
    axes.set_xlim(-BLOCK_WIDTH / 2 - 0.04, len(flow.steps) + BLOCK_WIDTH / 2 + 0.04)
    axes.set_ylim(-0.01, 1 + GAP + 0.01)
    axes.set_xticks(range(len(right)), [f"round {number}" for number in range(1, len(right) + 1)])
    axes.tick_params(length=0)
    axes.yaxis.set_visible(False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _draw_block(axes: Axes, round_: int, *, bottom: float, share: float, colour: str) -> None:
    if share > 0:
        corner = (round_ - BLOCK_WIDTH / 2, bottom)
        axes.add_patch(
            Rectangle(corner, BLOCK_WIDTH, share, facecolor=colour, edgecolor=BLACK, linewidth=0.4, zorder=3)
        )
    if share >= LOWEST_LABELLED:
        _write_share(axes, round_, bottom + share / 2, share, size=SMALL, colour=WHITE)


def _draw_band(
    axes: Axes, round_: int, tops: tuple[float, float], share: float, *, colour: str, is_changed: bool
) -> None:
    """Draw a band from a round's blocks to the next, below the two given heights."""
    if share <= 0:
        return
    left, right = round_ + BLOCK_WIDTH / 2, round_ + 1 - BLOCK_WIDTH / 2
    middle = (left + right) / 2
    first, last = tops
    corners = [
        (left, first),
        *((middle, first), (middle, last), (right, last)),
        (right, last - share),
        *((middle, last - share), (middle, first - share), (left, first - share)),
        (left, first),
    ]
    curve = [Path.CURVE4] * 3
    band = PathPatch(
        Path(corners, [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY]),
        facecolor=colour,
        alpha=CHANGED if is_changed else UNCHANGED,
        edgecolor=GRAY if is_changed else "none",
        linewidth=0.3,
        zorder=2 if is_changed else 1,
    )
    after = "right" if colour == RIGHT else "wrong"
    tooltip(band, f"{share_text(share)} % of the questions: {'now' if is_changed else 'still'} {after}")
    axes.add_patch(band)
    if is_changed:
        # Before the two changes cross: a third of the way the curve has gone a sixth of its climb.
        x, y = left + (right - left) * 0.3, first + (last - first) * 0.16 - share / 2
        text = _write_share(axes, x, y, share, size=TINY, colour=BLACK)
        text.set_bbox({"facecolor": WHITE, "alpha": 0.75, "linewidth": 0, "pad": 0.4})


def _write_share(axes: Axes, x: float, y: float, share: float, *, size: float, colour: str) -> Text:
    return axes.text(x, y, share_text(share), size=size, color=colour, ha="center", va="center", zorder=4)


def _set_title(axes: Axes, run: str, title: str) -> None:
    axes.set_title(wrapped(f"{run}: {title}" if run else title, 28), linespacing=1.0)


def draw_critics(data: CriticsFigure) -> Figure:
    """Draw each debate in a panel: above the dotted line critics add to what the generators knew, below they lose."""
    figure, all_axes = panels(
        len(data.systems), most_per_row=4, height=2.3, in_column=2, label="Right in the last round (%)"
    )
    for axes, system in zip(all_axes, data.systems, strict=True):
        _draw_critics(axes, system)
    figure.supxlabel("Right generators in round 1 (below: % of debates)", size=8)
    handles = [
        Line2D([], [], color=BLUE, marker="o", label="critics' answers"),
        Line2D([], [], color=VERMILLION, marker="s", markerfacecolor=WHITE, linestyle="--", label="their vote"),
        Line2D([], [], color=BLACK, linestyle=":", linewidth=0.9, label="generators' answers"),
        Patch(facecolor=LIGHT_GRAY, edgecolor=GRAY, linewidth=0.4, label="% of debates"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2 if len(data.systems) <= 2 else 4)
    return figure


def _draw_critics(axes: Axes, system: RightCounts) -> None:
    counts = [one for one in system.counts if one.debates]
    bars: dict[str, Any] = {"color": LIGHT_GRAY, "edgecolor": GRAY, "linewidth": 0.4}
    axes.bar([one.right for one in counts], [one.share for one in counts], width=0.6, zorder=1, **bars)
    axes.plot([0, system.generators], [0, 1], color=BLACK, linestyle=":", linewidth=0.9, zorder=2)
    known = [one for one in counts if one.accuracy is not None and one.vote is not None]
    xs = [one.right for one in known]
    axes.plot(xs, [one.vote or 0.0 for one in known], "s--", color=VERMILLION, markerfacecolor=WHITE, zorder=3)
    axes.plot(xs, [one.accuracy or 0.0 for one in known], "o-", color=BLUE, zorder=4)
    _set_title(axes, system.run, system.title)
    axes.set_ylim(0, 1.04)
    axes.set_xlim(-0.5, system.generators + 0.5)
    ticked = system.counts[:: 1 + system.generators // MOST_TICKS]
    axes.set_xticks([one.right for one in ticked], [f"{one.right}\n({100 * one.share:.0f})" for one in ticked])
    axes.grid(visible=False, axis="x")
    percent_axis(axes)
