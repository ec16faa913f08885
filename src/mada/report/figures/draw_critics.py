"""Drawing what critics make of first rounds: accuracy by the number of right generators, and how often that occurs."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mada.report.figures.data import CriticsFigure, RightCounts
from mada.report.figures.drawing import BLACK, BLUE, GRAY, LIGHT_GRAY, VERMILLION, WHITE, panels, percent_axis
from mada.report.figures.lettering import wrapped

MOST_TICKS = 6
"""So many numbers of generators fit below a panel."""


def draw_critics(data: CriticsFigure) -> Figure:
    """Draw each debate in a panel: above the dotted line critics add to what the generators knew, below they lose."""
    figure, all_axes = panels(
        len(data.systems), most_per_row=4, height=2.3, in_column=2, label="Right in the last round (%)"
    )
    for axes, system in zip(all_axes, data.systems, strict=True):
        _draw_panel(axes, system)
    figure.supxlabel("Right generators in round 1 (below: % of debates)", size=8)
    handles = [
        Line2D([], [], color=BLUE, marker="o", label="critics' answers"),
        Line2D([], [], color=VERMILLION, marker="s", markerfacecolor=WHITE, linestyle="--", label="their vote"),
        Line2D([], [], color=BLACK, linestyle=":", linewidth=0.9, label="generators' answers"),
        Patch(facecolor=LIGHT_GRAY, edgecolor=GRAY, linewidth=0.4, label="% of debates"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2 if len(data.systems) <= 2 else 4)
    return figure


def _draw_panel(axes: Axes, system: RightCounts) -> None:
    counts = [one for one in system.counts if one.debates]
    axes.bar(
        [one.right for one in counts],
        [one.share for one in counts],
        width=0.6,
        color=LIGHT_GRAY,
        edgecolor=GRAY,
        linewidth=0.4,
        zorder=1,
    )
    axes.plot([0, system.generators], [0, 1], color=BLACK, linestyle=":", linewidth=0.9, zorder=2)
    known = [one for one in counts if one.accuracy is not None and one.vote is not None]
    places = [one.right for one in known]
    axes.plot(places, [one.vote or 0.0 for one in known], "s--", color=VERMILLION, markerfacecolor=WHITE, zorder=3)
    axes.plot(places, [one.accuracy or 0.0 for one in known], "o-", color=BLUE, zorder=4)
    axes.set_title(wrapped(f"{system.run}: {system.title}" if system.run else system.title, 28), linespacing=1.0)
    axes.set_ylim(0, 1.04)
    axes.set_xlim(-0.5, system.generators + 0.5)
    # Every so many, where all numbers would not fit side by side.
    ticked = system.counts[:: 1 + system.generators // MOST_TICKS]
    axes.set_xticks([one.right for one in ticked], [f"{one.right}\n({100 * one.share:.0f})" for one in ticked])
    axes.grid(visible=False, axis="x")
    percent_axis(axes)
