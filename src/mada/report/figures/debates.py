"""What rounds after the first change: the flow of votes, and critics by how many generators were right."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text

from mada.evaluation.transitions import DebateTransitions
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
    Drawn,
    panels,
    percent_axis,
    tooltip,
    wrapped,
)
from mada.report.numbers import numbered_titles, share_text
from mada.report.reading import Source, evaluated, shown_debates

GAP = 0.07
"""Between the right block and the wrong one, as a share of all questions."""
BLOCK_WIDTH = 0.36
"""A block's width, where rounds are 1 apart."""
LOWEST_LABELLED = 0.05
"""Lower blocks have no room for their number."""
MOST_TICKS = 6
"""So many numbers of generators fit below a panel."""
OUTLINE: dict[str, Any] = {"edgecolor": BLACK, "linewidth": 0.4}


@dataclass(frozen=True, slots=True)
class ShownDebate:
    """A system that debates, with the transitions of its debates."""

    run: str
    title: str
    transitions: DebateTransitions


def flow_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw in a panel per debate how votes pass from round to round; None where nobody debated.

    A round is a block of right votes above one of wrong ones, with bands between.
    """
    debates = _debates(sources)
    if not debates:
        return None
    most = max(len(one.transitions.votes) for one in debates)
    figure, all_axes = panels(len(debates), most_per_row=4 if most <= 2 else 2, height=2.1, in_column=2)
    for axes, one in zip(all_axes, debates, strict=True):
        _draw_flow(axes, one)
    handles = [
        Patch(facecolor=colour, label=f"vote {name} (% of questions)", **OUTLINE)
        for colour, name in ((RIGHT, "right"), (WRONG, "wrong"))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, columnspacing=1.2, handletextpad=0.5)
    flows = [{"run": one.run, "title": one.title, **asdict(step)} for one in debates for step in one.transitions.votes]
    return Drawn(figure, {"flows": flows})


def critics_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw in a panel per debate how right critics are by the number of right generators; None where nobody debated.

    Above the dotted line critics add to what the generators knew, below they lose.
    """
    debates = _debates(sources)
    if not debates:
        return None
    label = "Right in the last round (%)"
    figure, all_axes = panels(len(debates), most_per_row=4, height=2.3, in_column=2, label=label)
    for axes, one in zip(all_axes, debates, strict=True):
        _draw_critics(axes, one)
    figure.supxlabel("Right generators in round 1 (below: % of debates)", size=8)
    handles = [
        Line2D([], [], color=BLUE, marker="o", label="critics' answers"),
        Line2D([], [], color=VERMILLION, marker="s", markerfacecolor=WHITE, linestyle="--", label="their vote"),
        Line2D([], [], color=BLACK, linestyle=":", linewidth=0.9, label="generators' answers"),
        Patch(facecolor=LIGHT_GRAY, edgecolor=GRAY, linewidth=0.4, label="% of debates"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2 if len(debates) <= 2 else 4)
    systems = [
        {"run": one.run, "title": one.title, "generators": len(one.transitions.by_right) - 1, "right": right}
        | {"debates": kind.count, "share": kind.share, "accuracy": kind.accuracy, "vote": kind.vote}
        for one in debates
        for right, kind in enumerate(one.transitions.by_right)
    ]
    return Drawn(figure, {"systems": systems})


def _debates(sources: Sequence[Source]) -> list[ShownDebate]:
    grids = evaluated(sources)
    titles = numbered_titles(grid.plan for _, grid in grids)
    return [
        ShownDebate(run, titles[system.name], transitions)
        for run, grid in grids
        for system, transitions in shown_debates(grid)
    ]


def _draw_flow(axes: Axes, debate: ShownDebate) -> None:
    steps = debate.transitions.votes
    # Right votes are on top, so that bands of unchanged votes are straight and those of changed ones cross.
    right = [step.right_to_right + step.right_to_wrong for step in steps[:1]]
    right += [step.right_to_right + step.wrong_to_right for step in steps]
    for round_, share in enumerate(right):
        _draw_block(axes, round_, bottom=1 - share + GAP, share=share, colour=RIGHT)
        _draw_block(axes, round_, bottom=0.0, share=1 - share, colour=WRONG)
    for round_, step in enumerate(steps):
        top, before, after = 1 + GAP, 1 - right[round_], 1 - right[round_ + 1]
        bands = (
            (step.right_to_right, top, top, RIGHT, False),
            (step.wrong_to_wrong, step.wrong_to_wrong, step.wrong_to_wrong, WRONG, False),
            (step.right_to_wrong, before + GAP + step.right_to_wrong, after, WRONG, True),
            (step.wrong_to_right, before, after + GAP + step.wrong_to_right, RIGHT, True),
        )
        for share, first, last, colour, is_changed in bands:
            _draw_band(axes, round_, (first, last), share, colour=colour, is_changed=is_changed)
    _set_title(axes, debate)
    axes.set_xlim(-BLOCK_WIDTH / 2 - 0.04, len(steps) + BLOCK_WIDTH / 2 + 0.04)
    axes.set_ylim(-0.01, 1 + GAP + 0.01)
    axes.set_xticks(range(len(right)), [f"round {number}" for number in range(1, len(right) + 1)])
    axes.tick_params(length=0)
    axes.yaxis.set_visible(False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _draw_block(axes: Axes, round_: int, *, bottom: float, share: float, colour: str) -> None:
    if share > 0:
        corner = (round_ - BLOCK_WIDTH / 2, bottom)
        axes.add_patch(Rectangle(corner, BLOCK_WIDTH, share, facecolor=colour, zorder=3, **OUTLINE))
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
        alpha=0.7 if is_changed else 0.22,  # what changed stands out
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


def _set_title(axes: Axes, debate: ShownDebate) -> None:
    axes.set_title(wrapped(f"{debate.run}: {debate.title}" if debate.run else debate.title, 28), linespacing=1.0)


def _draw_critics(axes: Axes, debate: ShownDebate) -> None:
    kinds = list(enumerate(debate.transitions.by_right))
    generators = len(kinds) - 1
    counted = [(right, one) for right, one in kinds if one.count]
    xs = [right for right, _ in counted]
    bars: dict[str, Any] = {"color": LIGHT_GRAY, "edgecolor": GRAY, "linewidth": 0.4}
    axes.bar(xs, [one.share for _, one in counted], width=0.6, zorder=1, **bars)
    axes.plot([0, generators], [0, 1], color=BLACK, linestyle=":", linewidth=0.9, zorder=2)
    votes, accuracies = [one.vote or 0.0 for _, one in counted], [one.accuracy or 0.0 for _, one in counted]
    axes.plot(xs, votes, "s--", color=VERMILLION, markerfacecolor=WHITE, zorder=3)
    axes.plot(xs, accuracies, "o-", color=BLUE, zorder=4)
    _set_title(axes, debate)
    axes.set_ylim(0, 1.04)
    axes.set_xlim(-0.5, generators + 0.5)
    ticked = kinds[:: 1 + generators // MOST_TICKS]
    axes.set_xticks([right for right, _ in ticked], [f"{right}\n({100 * one.share:.0f})" for right, one in ticked])
    axes.grid(visible=False, axis="x")
    percent_axis(axes)
