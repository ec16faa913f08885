"""What critics were credited with in training, and what GRPO would have credited them with for the same rewards."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from mada.report.figures.data import AdvantageCounts, AdvantagesFigure
from mada.report.figures.points import run_title
from mada.report.reading import Source, training_records
from mada.run import StoredRecords

CREDITS = "credits.jsonl"
BINS = 31
"""An odd number of equal bins around 0, so that 0 lies in the middle of one and signs are never mixed but there."""
GROUP_RELATIVE = "GRPO's of the same rewards"


@dataclass(frozen=True, slots=True)
class Credits:
    """What a figure needs of the record of a credited group: the advantages used, and GRPO's of the same rewards."""

    advantages: tuple[float, ...]
    group_relative: tuple[float, ...]


def advantages_figure(sources: Sequence[Source]) -> AdvantagesFigure | None:
    """Return the distribution of critics' advantages; None where no training kept them."""
    series = [one for source in sources for one in _series(source, run=run_title(source, sources))]
    if not series:
        return None
    edges = histogram_edges([value for _, _, values in series for value in values])
    return AdvantagesFigure(edges, tuple(_counted(edges, run, title, values) for run, title, values in series))


def histogram_edges(values: Sequence[float]) -> tuple[float, ...]:
    """Return the edges of equal bins that hold all values, symmetric around 0 with 0 in the middle of a bin."""
    # Where all are 0 any width will do; the figure then says that there was nothing to learn.
    limit = max(map(abs, values)) or 1.0
    return tuple(limit * (2 * place - BINS) / BINS for place in range(BINS + 1))


def histogram(values: Sequence[float], edges: Sequence[float]) -> tuple[int, ...]:
    """Count the values between edges: the lower one belongs to a bin, the upper one only to the last."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[min(bisect_right(edges, value), len(counts)) - 1] += 1
    return tuple(counts)


def _series(source: Source, *, run: str) -> Iterator[tuple[str, str, list[float]]]:
    path = training_records(source.run, "critics", CREDITS)
    records = list(StoredRecords(path, Credits)) if path else []
    used = [value for record in records for value in record.advantages]
    if not used:
        return
    title = _advantage(source)
    yield run, title, used
    if title != "grpo":
        yield run, GROUP_RELATIVE, [value for record in records for value in record.group_relative]


def _advantage(source: Source) -> str:
    """Return the name of the advantage in the run's recipe, as far as it has one."""
    critics = source.run.manifest.recipe.get("critics")
    name = critics.get("advantage") if isinstance(critics, dict) else None
    return name if isinstance(name, str) and name else "as trained"


def _counted(edges: tuple[float, ...], run: str, title: str, values: Sequence[float]) -> AdvantageCounts:
    return AdvantageCounts(
        run=run,
        title=title,
        counts=histogram(values, edges),
        mean=fmean(values),
        deviation=pstdev(values),
        zero_share=sum(value == 0 for value in values) / len(values),
    )
