"""Training curves, and advantages of critics' completions beside GRPO's of the same rewards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mada.report.figures.drawing import (
    BLACK,
    BLUE,
    GRAY,
    SKY_BLUE,
    VERMILLION,
    WHITE,
    Drawn,
    line_style,
    panels,
    percent_axis,
    tooltip,
)
from mada.report.numbers import share_text
from mada.report.reading import Source, run_title
from mada.report.training import TrainingCurve, read_curves
from mada.runs import StoredRecords
from mada.runs.records import CREDITS
from mada.text import excerpt

MOST_NAMED = 7
"""Agents beyond that look like earlier ones, so the legend ends there."""
BINS = 31
"""An odd number of equal bins, so that 0 lies in the middle of one and signs are never mixed elsewhere."""
GROUP_RELATIVE = "GRPO's of the same rewards"


def training_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw the accuracy of rollouts with its band, and validations with the adapter kept; None before any training.

    There is a panel for generators and one for critics, and a row per run.
    """
    all_curves = [curve for source in sources for curve in read_curves(source.run, title=run_title(source, sources))]
    if not all_curves:
        return None
    groups: dict[tuple[str, str], list[TrainingCurve]] = {}
    for curve in all_curves:
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
            title=excerpt(f"{run}: {role}" if run else role, 50),
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
    columns = 3 if len(groups) > 1 else 2
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, columnspacing=1.5)
    # A row per agent and step of rollouts would be too much to read.
    values = [
        {"run": curve.run, "role": curve.role, "agent": curve.agent, "step": one.step}
        | {"accuracy": one.accuracy, "is best": one.is_best}
        for curve in all_curves
        for one in curve.validation
    ]
    return Drawn(figure, {"curves": values})


def _agent(name: str, index: int) -> Line2D:
    style = line_style(index)
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.dash, "marker": style.marker}
    return Line2D([], [], **look, markerfacecolor=WHITE, label=excerpt(name, 24))


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


@dataclass(frozen=True, slots=True)
class Credits:
    """The part of a group's record that the figure needs: the advantages used, and GRPO's of the same rewards."""

    advantages: tuple[float, ...]
    group_relative: tuple[float, ...]


def advantages_figure(sources: Sequence[Source]) -> Drawn | None:
    """Draw the distribution of critics' advantages, a panel per run; None where no training kept them.

    Those used are bars, GRPO's of the same rewards an outline over them.
    """
    runs: dict[str, list[tuple[str, list[float]]]] = {}
    for source in sources:
        if series := list(_series(source)):
            runs[run_title(source, sources)] = series
    if not runs:
        return None
    # Symmetric around 0; where all values are 0 any width will do.
    limit = max(abs(value) for series in runs.values() for _, values in series for value in values) or 1.0
    edges = np.linspace(-limit, limit, BINS + 1)
    figure, all_axes = panels(len(runs), most_per_row=2, height=2.3, label="Completions (%)")
    bars: dict[str, Any] = {"fill": True, "facecolor": SKY_BLUE, "edgecolor": BLUE, "linewidth": 0.5, "zorder": 2}
    outline: dict[str, Any] = {"color": VERMILLION, "linewidth": 1.2, "zorder": 3}
    rows: list[dict[str, Any]] = []
    for axes, (run, series) in zip(all_axes, runs.items(), strict=True):
        for (title, values), look in zip(series, (bars, outline), strict=False):
            counts, mean = np.histogram(values, edges)[0], fmean(values)
            deviation, zero_share = pstdev(values), values.count(0) / len(values)
            rows.append({"run": run, "title": title, "counts": ", ".join(map(str, counts)), "mean": mean})
            rows[-1] |= {"deviation": deviation, "zero share": zero_share}
            signed = f"{round(mean, 2) + 0.0:+.2f}".replace("-", "−")
            facts = f"mean {signed}, s.d. {deviation:.2f}, {100 * zero_share:.0f} % are 0"
            axes.stairs(counts / len(values), edges, label=f"{excerpt(title, 30)}: {facts}", **look)
        axes.axvline(0, color=BLACK, linewidth=0.6, zorder=1.5)
        axes.set_xlabel("Advantage")
        percent_axis(axes)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.12, 1),
            labelspacing=0.3,
            handletextpad=0.5,
            title=excerpt(run, 40) or None,
            alignment="left",
        )
    return Drawn(figure, {"series": rows})


def _series(source: Source) -> Iterator[tuple[str, list[float]]]:
    path = source.run.path("critics", CREDITS)
    records = list(StoredRecords(path, Credits)) if path.is_file() else []
    used = [value for record in records for value in record.advantages]
    if not used:
        return
    critics = source.run.manifest.recipe.get("critics")
    name = critics.get("advantage") if isinstance(critics, dict) else None
    yield name if isinstance(name, str) and name else "as trained", used
    if name != "grpo":
        yield GROUP_RELATIVE, [value for record in records for value in record.group_relative]
