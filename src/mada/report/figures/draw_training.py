"""Drawing training: a panel for generators and one for critics, a row per run."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mada.report.figures.data import TrainingCurve, TrainingFigure
from mada.report.figures.drawing import BLACK, GRAY, WHITE, look, panels, percent_axis, tip
from mada.report.figures.lettering import shortened
from mada.report.numbers import share_text

MOST_NAMED = 7
"""Agents beyond that look like earlier ones, so the legend ends there."""


def draw_training(data: TrainingFigure) -> Figure:
    """Draw the accuracy of rollouts with its band, and validations with the adapter that was kept."""
    groups: dict[tuple[str, str], list[TrainingCurve]] = {}
    for curve in data.curves:
        groups.setdefault((curve.run, curve.role), []).append(curve)
    figure, all_axes = panels(len(groups), most_per_row=2, height=2.5, label="Accuracy (%)")
    for axes, ((run, role), curves) in zip(all_axes, groups.items(), strict=True):
        axes.set_xlabel("Step")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        percent_axis(axes)
        for place, curve in enumerate(curves):
            _draw_curve(axes, curve, place=place)
        axes.legend(
            handles=_agents(curves),
            title=shortened(f"{run}: {role}" if run else role, 50),
            loc="lower center",
            bbox_to_anchor=(0.5, 1),
            ncols=3,
            handletextpad=0.5,
            columnspacing=1.2,
        )
    low, high = all_axes[0].get_ylim()
    # A band may reach beyond what an accuracy can be.
    all_axes[0].set_ylim(max(low, -0.02), min(high, 1.02))
    figure.legend(handles=_kinds(), loc="outside upper center", ncols=3 if len(groups) > 1 else 2, columnspacing=1.5)
    return figure


def _draw_curve(axes: Axes, curve: TrainingCurve, *, place: int) -> None:
    own = look(place)
    steps = [point.step for point in curve.rollouts]
    axes.fill_between(
        steps,
        [point.low for point in curve.rollouts],
        [point.high for point in curve.rollouts],
        color=own.colour,
        alpha=0.12,
        linewidth=0,
    )
    axes.plot(steps, [point.value for point in curve.rollouts], color=own.colour, linestyle=own.dash, linewidth=1.1)
    axes.plot(
        [point.step for point in curve.validation],
        [point.accuracy for point in curve.validation],
        color=own.colour,
        linewidth=0.5,
        alpha=0.7,
        zorder=2.5,
    )
    for point in curve.validation:
        (mark,) = axes.plot(
            [point.step],
            [point.accuracy],
            marker=own.marker,
            color=own.colour,
            markerfacecolor=own.colour if point.is_best else WHITE,
            markersize=6.0 if point.is_best else 4.0,
            markeredgecolor=BLACK if point.is_best else own.colour,
            markeredgewidth=0.8,
            zorder=4 if point.is_best else 3,
        )
        tip(mark, f"{curve.agent}, step {point.step:,}: {share_text(point.accuracy)} on the validation set")


def _agents(curves: Sequence[TrainingCurve]) -> list[Line2D]:
    return [
        Line2D(
            [],
            [],
            color=look(place).colour,
            linestyle=look(place).dash,
            marker=look(place).marker,
            markerfacecolor=WHITE,
            label=shortened(curve.agent, 24),
        )
        for place, curve in enumerate(curves[:MOST_NAMED])
    ]


def _kinds() -> list[Line2D]:
    return [
        Line2D([], [], color=GRAY, label="rollouts: mean of a window, ± one deviation"),
        Line2D([], [], color=GRAY, marker="o", markerfacecolor=WHITE, linewidth=0.5, label="validation"),
        Line2D(
            [], [], color=GRAY, marker="o", markersize=6.0, markeredgecolor=BLACK, linestyle="", label="adapter kept"
        ),
    ]
