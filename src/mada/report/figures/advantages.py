"""Advantages of critics' completions in training, beside GRPO's of the same rewards."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mada.report.figures.drawing import BLACK, BLUE, SKY_BLUE, VERMILLION, panels, percent_axis, shortened
from mada.report.reading import Source, run_title
from mada.runs import StoredRecords

BINS = 31
"""An odd number of equal bins, so that 0 lies in the middle of one and signs are never mixed elsewhere."""
GROUP_RELATIVE = "GRPO's of the same rewards"


@dataclass(frozen=True, slots=True)
class Credits:
    """The part of a group's record that the figure needs: the advantages used, and GRPO's of the same rewards."""

    advantages: tuple[float, ...]
    group_relative: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AdvantageCounts:
    """A histogram: `counts[i]` completions have an advantage from `edges[i]` up to `edges[i + 1]`."""

    run: str
    title: str
    counts: tuple[int, ...]
    mean: float
    deviation: float
    zero_share: float
    """Completions with an advantage of exactly 0, from which nothing is learnt."""


@dataclass(frozen=True)
class AdvantagesFigure:
    """Histograms of advantages with common edges."""

    name: ClassVar = "advantages"
    edges: tuple[float, ...]
    series: tuple[AdvantageCounts, ...]


def advantages_figure(sources: Sequence[Source]) -> AdvantagesFigure | None:
    """Return the distribution of critics' advantages; None where no training kept them."""
    series = [one for source in sources for one in _series(source, run=run_title(source, sources))]
    if not series:
        return None
    edges = histogram_edges([value for _, _, values in series for value in values])
    counted = (
        AdvantageCounts(
            run,
            title,
            histogram(values, edges),
            mean=fmean(values),
            deviation=pstdev(values),
            zero_share=sum(value == 0 for value in values) / len(values),
        )
        for run, title, values in series
    )
    return AdvantagesFigure(edges, tuple(counted))


def histogram_edges(values: Sequence[float]) -> tuple[float, ...]:
    """Return the edges of equal bins that hold all values, symmetric around 0 with 0 in the middle of a bin."""
    # Where all values are 0 any width will do.
    limit = max(map(abs, values)) or 1.0
    return tuple(limit * (2 * index - BINS) / BINS for index in range(BINS + 1))


def histogram(values: Sequence[float], edges: Sequence[float]) -> tuple[int, ...]:
    """Count the values between edges: the lower one belongs to a bin, the upper one only to the last."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[min(bisect_right(edges, value), len(counts)) - 1] += 1
    return tuple(counts)


def _series(source: Source, *, run: str) -> Iterator[tuple[str, str, list[float]]]:
    path = source.run.path("critics", "credits.jsonl")
    records = list(StoredRecords(path, Credits)) if path.is_file() else []
    used = [value for record in records for value in record.advantages]
    if not used:
        return
    critics = source.run.manifest.recipe.get("critics")
    name = critics.get("advantage") if isinstance(critics, dict) else None
    yield run, name if isinstance(name, str) and name else "as trained", used
    if name != "grpo":
        yield run, GROUP_RELATIVE, [value for record in records for value in record.group_relative]


def draw_advantages(data: AdvantagesFigure) -> Figure:
    """Draw each run in a panel: the advantages used as bars, GRPO's as an outline over them."""
    runs: dict[str, list[AdvantageCounts]] = {}
    for series in data.series:
        runs.setdefault(series.run, []).append(series)
    figure, all_axes = panels(len(runs), most_per_row=2, height=2.3, label="Completions (%)")
    for axes, (run, series) in zip(all_axes, runs.items(), strict=True):
        for index, one in enumerate(series):
            _draw_series(axes, data.edges, one, is_first=index == 0)
        axes.axvline(0, color=BLACK, linewidth=0.6, zorder=1.5)
        axes.set_xlabel("Advantage")
        percent_axis(axes)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.12, 1),
            labelspacing=0.3,
            handletextpad=0.5,
            title=shortened(run, 40) if run else None,
            alignment="left",
        )
    return figure


def _draw_series(axes: Axes, edges: tuple[float, ...], series: AdvantageCounts, *, is_first: bool) -> None:
    total = sum(series.counts)
    shares = [count / total for count in series.counts] if total else [0.0] * len(series.counts)
    mean = f"{round(series.mean, 2) + 0.0:+.2f}".replace("-", "−")
    facts = f"mean {mean}, s.d. {series.deviation:.2f}, {100 * series.zero_share:.0f} % are 0"
    label = f"{shortened(series.title, 30)}: {facts}"
    if is_first:
        axes.stairs(shares, edges, fill=True, facecolor=SKY_BLUE, edgecolor=BLUE, linewidth=0.5, label=label, zorder=2)
    else:
        axes.stairs(shares, edges, color=VERMILLION, linewidth=1.2, label=label, zorder=3)
