"""Several runs side by side: the same systems in rows, a group of columns for every run.

The others are compared with the first run. Where two runs were asked different problems, their numbers stand beside
each other without a difference.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Self

from mada.difference import ABSENT
from mada.evaluation.statistics import welch
from mada.evaluation.summary import Summary, SystemSummary, summarize
from mada.report.document import Block, Cell, Section, Table, columns, paragraph, table
from mada.report.figures import figure
from mada.report.numbers import NOTHING, SPREAD, accuracy, difference, numbered_titles, points_text, share_text
from mada.report.reading import Source
from mada.report.training import TrainingCurve, read_curves
from mada.text import counted, duration, shortened

LONGEST_VALUE = 60
CONTEXT = 12
"""Characters shown before the first difference of long values."""


@dataclass(frozen=True, slots=True)
class _Run:
    source: Source
    title: str
    summary: Summary | None
    systems: Mapping[str, SystemSummary]

    @classmethod
    def of(cls, source: Source) -> Self:
        summary = None if source.grid is None else summarize(source.grid)
        systems = {one.system.name: one for one in summary.systems} if summary else {}
        return cls(source, source.title, summary, systems)

    def is_comparable(self, other: "_Run") -> bool:
        """Whether both were asked the same problems, so that differences say something about the systems."""
        own, others = self.source.grid, other.source.grid
        return own is not None and others is not None and dict(own.problems) == dict(others.problems)

    def asked(self) -> str:
        """Say what was asked."""
        left_out = self.source.left_out
        if self.summary is None:
            return "no seed is finished yet" if left_out else "not evaluated yet"
        problems = ", ".join(f"{name} ({count:,})" for name, count in self.summary.benchmarks.items())
        unfinished = f"; not finished and left out: {left_out}" if left_out else ""
        return f"{counted(len(self.summary.seeds), 'seed')}{unfinished}; {problems}"


def comparison_sections(sources: Sequence[Source]) -> list[Section]:
    """Return the sections of a report on several runs."""
    runs = [_Run.of(source) for source in sources]
    titles = numbered_titles(source.grid.plan for source in sources if source.grid)
    sections = (_results(runs, titles), _debating(runs, titles), _training(sources), _provenance(sources))
    return [section for section in sections if section is not None]


def _results(runs: Sequence[_Run], titles: Mapping[str, str]) -> Section:
    if not titles:
        return Section("results", "Results", (paragraph("None of these runs has been evaluated yet."),))
    blocks: list[Block] = [_accuracies(runs, titles), figure("tokens"), figure("parameters")]
    summaries = [(run, run.summary) for run in runs if run.summary]
    if any(len(summary.benchmarks) > 1 for _, summary in summaries):
        asked = [(run, name) for run, summary in summaries for name in summary.benchmarks]
        rows = [
            (
                title,
                [
                    accuracy(run.systems[name].verdict.benchmarks[one]) if name in run.systems else NOTHING
                    for run, one in asked
                ],
            )
            for name, title in titles.items()
        ]
        headings = [column for run, name in asked for column in columns(name, group=run.title)]
        blocks.append(table("runs-benchmarks", "Right verdicts on every benchmark", headings, rows))
    return Section("results", "Results", (*blocks, figure("pairs")))


def _accuracies(runs: Sequence[_Run], titles: Mapping[str, str]) -> Table:
    first, *others = runs
    headings = [*columns("verdict", "mean", "tokens", group=first.title)]
    for run in others:
        headings += columns("verdict", "difference", "mean", "tokens", group=run.title)
    spread = f"; {SPREAD}" if any(len(run.summary.seeds) > 1 for run in runs if run.summary) else ""
    notes = [
        f"Percent, mean over seeds{spread}. verdict: the system's one answer; mean: the answers of its last round, one "
        "by one; tokens: generated per question."
    ]
    if any(run.is_comparable(first) for run in others):
        notes.append(
            f"difference: verdict against verdict, in points above the same system of {first.title}, where both runs "
            "were asked the same problems; one, two or three stars for p below .05, .01 and .001 in Welch's two-sided "
            "t-test of the seeds' averages, not adjusted. The test knows only the seeds of the runs' evaluations, not "
            "those of their training."
        )
    asked = {run.title: run.asked() for run in runs}
    if len(set(asked.values())) == 1:
        notes.append(f"All runs: {asked[first.title]}.")
    else:
        notes += [f"{title}: {what}." for title, what in asked.items()]
    if first.summary is None:
        notes.append(f"Without results of {first.title} there are no differences.")
    elif any(not run.is_comparable(first) for run in others if run.summary):
        notes.append("Runs that were asked other problems than the first have no differences.")
    rows = [(title, [cell for run in runs for cell in _measured(run, name, first)]) for name, title in titles.items()]
    return table("runs-accuracy", "Accuracy and cost in every run", headings, rows, *notes)


def _measured(run: _Run, name: str, first: _Run) -> list[str | Cell]:
    one, other = run.systems.get(name), first.systems.get(name)
    if one is None:
        return [NOTHING] * (3 if run is first else 4)
    cells: list[str | Cell] = [accuracy(one.verdict.average), accuracy(one.mean.average), f"{one.tokens:,.0f}"]
    if run is not first:
        is_comparable = other is not None and run.is_comparable(first)
        averages = [each.verdict.seed_averages for each in (one, other) if each and is_comparable]
        cells.insert(1, difference(welch(*averages)) if averages else NOTHING)
    return cells


def _debating(runs: Sequence[_Run], titles: Mapping[str, str]) -> Section | None:
    rows: list[tuple[str, list[str]]] = []
    for name, title in titles.items():
        found = [run.systems.get(name) for run in runs]
        if any(one is not None and one.improves is not None for one in found):
            shares = [(None,) * 3 if one is None else (one.improves, one.damages, one.ties) for one in found]
            rows.append((title, [share_text(share) for of_run in shares for share in of_run]))
    if not rows:
        return None
    headings = [column for run in runs for column in columns("improves", "damages", "tied votes", group=run.title)]
    note = (
        "Percent of all questions. improves, damages: the vote of the first round is wrong and the verdict right, and "
        "the other way round."
    )
    found = table("runs-debating", "What critics improve and damage", headings, rows, note, first="debate")
    return Section("debating", "What debating changed", (found, figure("flow"), figure("critics")))


def _training(sources: Sequence[Source]) -> Section | None:
    curves = [{one.agent: one for one in read_curves(source.run) if one.validation} for source in sources]
    agents = dict.fromkeys(agent for found in curves for agent in found)
    if not agents:
        return None
    headings = [column for source in sources for column in columns("first", "best", "gain", group=source.title)]
    rows = [(agent, [cell for found in curves for cell in _outcome(found.get(agent))]) for agent in agents]
    note = "Accuracy on the validation set in percent. The best adapter is chosen by this very set, which flatters it."
    found = table("runs-training", "Training", headings, rows, note, first="agent")
    return Section("training", "Training", (found, figure("training"), figure("advantages")))


def _outcome(one: TrainingCurve | None) -> list[str]:
    if one is None:
        return [NOTHING] * 3
    first, best = one.validation[0].accuracy, one.best.accuracy
    return [share_text(first), share_text(best), points_text(best - first)]


def _provenance(sources: Sequence[Source]) -> Section:
    """Return what the runs are, and every field in which their recipes differ."""
    headings = columns(*(source.title for source in sources), kind="text")
    runs, manifests = [source.run for source in sources], [source.run.manifest for source in sources]
    hardware = [manifest.sessions[-1].hardware for manifest in manifests]
    facts = {
        "recipe": [str(manifest.recipe.get("name", NOTHING)) for manifest in manifests],
        "seed": [str(manifest.seed) for manifest in manifests],
        "begun": [f"{manifest.started_at:%Y-%m-%d %H:%M} UTC" for manifest in manifests],
        "time of its stages": [duration(sum(mark.seconds for mark in run.finished_stages())) for run in runs],
        "machine": [", ".join([one.cpu, *(gpu.name for gpu in one.gpus)]) for one in hardware],
    }
    recipes = [dict(_fields(manifest.recipe)) for manifest in manifests]
    fields = {key: [recipe.get(key, ABSENT) for recipe in recipes] for recipe in recipes for key in recipe}
    differing = [(key, _shown(values)) for key, values in fields.items() if _differ(values)]
    differences: Block = paragraph("The recipes are the same.")
    if differing:
        differences = table("runs-recipes", "Where the recipes differ", headings, differing, first="")
    return Section(
        "provenance", "The runs", (table("runs", "The runs", headings, facts.items(), first=""), differences)
    )


def _fields(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a recipe, nested ones by keys with dots."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _fields(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _differ(values: Sequence[object]) -> bool:
    # As in JSON, 1 equals 1.0 and not true.
    first, *others = values
    return any(first != other or isinstance(first, bool) != isinstance(other, bool) for other in others)


def _shown(values: Sequence[object]) -> list[str]:
    """Return values as JSON, long ones cut off; of long ones a common beginning is left out too."""
    texts = [ABSENT.value if value is ABSENT else json.dumps(value, ensure_ascii=False) for value in values]
    same = sum(1 for _ in takewhile(lambda characters: len(set(characters)) == 1, zip(*texts, strict=False)))
    start = max(0, same - CONTEXT) if max(map(len, texts)) > LONGEST_VALUE else 0
    return [shortened(f"…{text[start:]}" if start else text, LONGEST_VALUE) for text in texts]
