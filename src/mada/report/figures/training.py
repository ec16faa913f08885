"""Training curves: a panel for generators and one for critics, a row per run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mada.report.figures.drawing import BLACK, GRAY, WHITE, line_style, panels, percent_axis, shortened, tooltip
from mada.report.numbers import share_text
from mada.report.reading import Source, run_title
from mada.report.training import TrainingCurve, read_curves

MOST_NAMED = 7
"""Agents beyond that look like earlier ones, so the legend ends there."""


@dataclass(frozen=True)
class TrainingFigure:
    """Training curves of all agents, with bands."""

    name: ClassVar = "training"
    curves: tuple[TrainingCurve, ...]


def training_figure(sources: Sequence[Source]) -> TrainingFigure | None:
    """Return the training curves of all agents; None where nobody has been trained."""
    curves = [curve for source in sources for curve in read_curves(source.run, title=run_title(source, sources))]
    return TrainingFigure(tuple(curves)) if curves else None


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
        for index, curve in enumerate(curves):
            _draw_curve(axes, curve, index=index)
        axes.legend(
            handles=[_agent(curve.agent, index) for index, curve in enumerate(curves[:MOST_NAMED])],
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
    kept: dict[str, Any] = {"markersize": 6.0, "markeredgecolor": BLACK, "linestyle": ""}
    handles = [
        Line2D([], [], color=GRAY, label="rollouts: mean of a window, ± one deviation"),
        Line2D([], [], color=GRAY, marker="o", markerfacecolor=WHITE, linewidth=0.5, label="validation"),
        Line2D([], [], color=GRAY, marker="o", label="adapter kept", **kept),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3 if len(groups) > 1 else 2, columnspacing=1.5)
    return figure


def _agent(name: str, index: int) -> Line2D:
    style = line_style(index)
    return Line2D(
        [],
        [],
        color=style.colour,
        linestyle=style.dash,
        marker=style.marker,
        markerfacecolor=WHITE,
        label=shortened(name, 24),
    )


def _draw_curve(axes: Axes, curve: TrainingCurve, *, index: int) -> None:
    style = line_style(index)
    colour = style.colour
    steps = [point.step for point in curve.rollouts]
    low, high = [point.low for point in curve.rollouts], [point.high for point in curve.rollouts]
    axes.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.plot(steps, [point.value for point in curve.rollouts], color=colour, linestyle=style.dash, linewidth=1.1)
    validated = [point.step for point in curve.validation], [point.accuracy for point in curve.validation]
    axes.plot(*validated, color=colour, linewidth=0.5, alpha=0.7, zorder=2.5)
    for point in curve.validation:
        (mark,) = axes.plot(
            [point.step],
            [point.accuracy],
            marker=style.marker,
            color=colour,
            markerfacecolor=colour if point.is_best else WHITE,
            markersize=6.0 if point.is_best else 4.0,
            markeredgecolor=BLACK if point.is_best else colour,
            markeredgewidth=0.8,
            zorder=4 if point.is_best else 3,
        )
        tooltip(mark, f"{curve.agent}, step {point.step:,}: {share_text(point.accuracy)} on the validation set")
