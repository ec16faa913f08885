"""Drawing how advantages are distributed: what was used as bars, what GRPO would have given as an outline over them."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mada.report.figures.data import AdvantageCounts, AdvantagesFigure
from mada.report.figures.drawing import BLACK, BLUE, SKY_BLUE, VERMILLION, panels, percent_axis
from mada.report.figures.lettering import shortened


def draw_advantages(data: AdvantagesFigure) -> Figure:
    """Draw each run in a panel of its own, all with the same bins."""
    runs: dict[str, list[AdvantageCounts]] = {}
    for series in data.series:
        runs.setdefault(series.run, []).append(series)
    figure, all_axes = panels(len(runs), most_per_row=2, height=2.3, label="Completions (%)")
    for axes, (run, series) in zip(all_axes, runs.items(), strict=True):
        for place, one in enumerate(series):
            _draw_series(axes, data.edges, one, is_first=place == 0)
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
    label = (
        f"{shortened(series.title, 30)}: mean {_signed(series.mean)}, s.d. {series.deviation:.2f}, "
        f"{100 * series.zero_share:.0f} % are 0"
    )
    if is_first:
        axes.stairs(shares, edges, fill=True, facecolor=SKY_BLUE, edgecolor=BLUE, linewidth=0.5, label=label, zorder=2)
    else:
        axes.stairs(shares, edges, color=VERMILLION, linewidth=1.2, label=label, zorder=3)


def _signed(number: float) -> str:
    return f"{round(number, 2) + 0.0:+.2f}".replace("-", "−")
