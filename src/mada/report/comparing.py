"""Several runs side by side: the same systems in rows, a group of columns for every run.

The first run is what the others are held against. Two runs can be compared where they were asked the same problems;
where they were not, their numbers stand beside each other and no difference is shown.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import cast

from mada.difference import ABSENT
from mada.evaluation.statistics import welch
from mada.evaluation.summary import Summary, SystemSummary, summary_of
from mada.report.document import Block, Cell, Column, Section, Table, paragraph, row
from mada.report.figures.data import (
    AdvantagesFigure,
    CriticsFigure,
    FlowFigure,
    PairsFigure,
    ParametersFigure,
    TokensFigure,
    TrainingFigure,
)
from mada.report.numbering import numbered_titles
from mada.report.numbers import NOTHING, points_text, share_text
from mada.report.reading import ROLES, Source
from mada.report.sections.entries import SPREAD, accuracy, difference, figure_place
from mada.report.training import TrainingOutcome, read_outcomes
from mada.run.environment import Hardware
from mada.text import counted, duration

LONGEST_VALUE = 60
CONTEXT = 12
"""Characters shown before the place where long values begin to differ."""


def comparison_sections(sources: Sequence[Source]) -> list[Section]:
    """Return the sections of a report on several runs."""
    compared = [_Compared(source) for source in sources]
    sections = [_results(compared), _debating(compared), _training(compared), _runs(compared)]
    return [section for section in sections if section.blocks]


@dataclass(frozen=True)
class _Compared:
    """A run with what its scores say, worked out once."""

    source: Source

    @property
    def title(self) -> str:
        return self.source.title

    @cached_property
    def summary(self) -> Summary | None:
        return None if self.source.grid is None else summary_of(self.source.grid)

    @cached_property
    def systems(self) -> Mapping[str, SystemSummary]:
        return {} if self.summary is None else {one.system.name: one for one in self.summary.systems}

    def was_asked_the_same_as(self, other: "_Compared") -> bool:
        """Whether differences between the two say anything about the systems."""
        own, others = self.source.grid, other.source.grid
        return own is not None and others is not None and dict(own.problems) == dict(others.problems)


def _results(compared: Sequence[_Compared]) -> Section:
    names = _names(compared)
    if not names:
        return Section("results", "Results", (paragraph("None of these runs has been evaluated yet."),))
    blocks: list[Block] = [_accuracies(compared, names), figure_place(TokensFigure), figure_place(ParametersFigure)]
    if any(len(run.summary.benchmarks) > 1 for run in compared if run.summary):
        blocks.append(_by_benchmark(compared, names))
    blocks.append(figure_place(PairsFigure))
    return Section("results", "Results", tuple(blocks))


def _accuracies(compared: Sequence[_Compared], names: Mapping[str, str]) -> Table:
    first = compared[0]
    columns = [Column("system", "text")]
    for run in compared:
        headings = ["verdict", *(["difference"] if run is not first else []), "mean", "tokens"]
        columns += [Column(heading, group=run.title) for heading in headings]
    rows = tuple(
        row(title, [cell for run in compared for cell in _measured(run, name, first=first)])
        for name, title in names.items()
    )
    spread = f"; {SPREAD}" if any(len(run.summary.seeds) > 1 for run in compared if run.summary) else ""
    notes = [
        f"Percent, mean over seeds{spread}. verdict: the system's one answer; mean: the answers of its last round, one "
        "by one; tokens: generated per question.",
        *([_what_differences_are(first)] if any(run.was_asked_the_same_as(first) for run in compared[1:]) else []),
        *_measured_on(compared),
    ]
    return Table("runs-accuracy", "Accuracy and cost in every run", tuple(columns), (rows,), tuple(notes))


def _what_differences_are(first: _Compared) -> str:
    return (
        f"difference: verdict against verdict, in points above the same system of {first.title}, where both runs were "
        "asked the same problems; one, two or three stars for p below .05, .01 and .001 in Welch's two-sided t-test of "
        "the seeds' averages, not adjusted. The test knows only the seeds of the runs' evaluations, not those of their "
        "training."
    )


def _measured(run: _Compared, name: str, *, first: _Compared) -> Iterator[Cell]:
    one, other = run.systems.get(name), first.systems.get(name)
    yield Cell(NOTHING if one is None else accuracy(one.verdict.average))
    if run is not first:
        if one is None or other is None or not run.was_asked_the_same_as(first):
            yield Cell(NOTHING)
        else:
            yield difference(welch(one.verdict.seed_averages, other.verdict.seed_averages))
    yield Cell(NOTHING if one is None else accuracy(one.mean.average))
    yield Cell(NOTHING if one is None else f"{one.tokens:,.0f}")


def _measured_on(compared: Sequence[_Compared]) -> Iterator[str]:
    """Say what each run was measured on, once where it is the same for all."""
    said = {run.title: _asked(run) for run in compared}
    if len(set(said.values())) == 1:
        yield f"All runs: {next(iter(said.values()))}."
    else:
        yield from (f"{title}: {what}." for title, what in said.items())
    first, *others = compared
    if first.summary is None:
        yield f"Without results of {first.title} there are no differences."
    elif any(not run.was_asked_the_same_as(first) for run in others if run.summary):
        yield "Runs that were asked other problems than the first have no differences."


def _asked(run: _Compared) -> str:
    left_out = run.source.left_out
    if run.summary is None:
        return "no seed is finished yet" if left_out else "not evaluated yet"
    problems = ", ".join(f"{name} ({count:,})" for name, count in run.summary.benchmarks.items())
    unfinished = f"; not finished and left out: {left_out}" if left_out else ""
    return f"{counted(len(run.summary.seeds), 'seed')}{unfinished}; {problems}"


def _by_benchmark(compared: Sequence[_Compared], names: Mapping[str, str]) -> Table:
    columns = [Column("system", "text")]
    evaluated = [run for run in compared if run.summary is not None]
    for run in evaluated:
        assert run.summary is not None
        columns += [Column(benchmark, group=run.title) for benchmark in run.summary.benchmarks]

    def cells(name: str) -> Iterator[str]:
        for run in evaluated:
            assert run.summary is not None
            one = run.systems.get(name)
            for benchmark in run.summary.benchmarks:
                yield NOTHING if one is None else accuracy(one.verdict.benchmarks[benchmark])

    rows = tuple(row(title, list(cells(name))) for name, title in names.items())
    return Table("runs-benchmarks", "Right verdicts on every benchmark", tuple(columns), (rows,))


def _debating(compared: Sequence[_Compared]) -> Section:
    debates = {
        name: title
        for name, title in _names(compared).items()
        if any(run.systems[name].improves is not None for run in compared if name in run.systems)
    }
    if not debates:
        return Section("debating", "What debating changed", ())
    columns = [Column("debate", "text")]
    for run in compared:
        columns += [Column(heading, group=run.title) for heading in ("improves", "damages", "tied votes")]

    def cells(name: str) -> Iterator[str]:
        for run in compared:
            one = run.systems.get(name)
            yield from ([NOTHING] * 3 if one is None else map(share_text, (one.improves, one.damages, one.ties)))

    rows = tuple(row(title, list(cells(name))) for name, title in debates.items())
    note = (
        "Percent of all questions. improves, damages: the vote of the first round is wrong and the verdict right, and "
        "the other way round."
    )
    table = Table("runs-debating", "What critics improve and damage", tuple(columns), (rows,), (note,))
    blocks = table, figure_place(FlowFigure), figure_place(CriticsFigure)
    return Section("debating", "What debating changed", blocks)


def _training(compared: Sequence[_Compared]) -> Section:
    outcomes = {
        run.title: {one.agent: one for role in ROLES for one in read_outcomes(run.source.run, role)} for run in compared
    }
    agents = list(dict.fromkeys(agent for found in outcomes.values() for agent in found))
    if not agents:
        return Section("training", "Training", ())
    headings = ("first", "best", "gain")
    columns = [Column("agent", "text"), *(Column(head, group=title) for title in outcomes for head in headings)]
    rows = tuple(
        row(agent, [cell for found in outcomes.values() for cell in _outcome(found.get(agent))]) for agent in agents
    )
    note = "Accuracy on the validation set in percent. The best adapter is chosen by this very set, which flatters it."
    table = Table("runs-training", "Training", tuple(columns), (rows,), (note,))
    blocks = table, figure_place(TrainingFigure), figure_place(AdvantagesFigure)
    return Section("training", "Training", blocks)


def _outcome(one: TrainingOutcome | None) -> list[str]:
    if one is None:
        return [NOTHING] * 3
    first, best = one.first.accuracy, one.best.accuracy
    return [share_text(first), share_text(best), points_text(best - first)]


def _runs(compared: Sequence[_Compared]) -> Section:
    """Return what the runs are, and every field in which their recipes differ."""
    columns = [Column("", "text"), *(Column(run.title, "text") for run in compared)]
    facts = {
        "recipe": [str(run.source.run.manifest.recipe.get("name", NOTHING)) for run in compared],
        "seed": [str(run.source.run.manifest.seed) for run in compared],
        "begun": [f"{run.source.run.manifest.started_at:%Y-%m-%d %H:%M} UTC" for run in compared],
        "time of its stages": [
            duration(sum(mark.seconds for mark in run.source.run.finished_stages())) for run in compared
        ],
        "machine": [_machine(run.source.run.manifest.sessions[-1].hardware) for run in compared],
    }
    rows = tuple(row(name, values) for name, values in facts.items())
    blocks: list[Block] = [Table("runs", "The runs", tuple(columns), (rows,))]
    found = _fields([run.source.run.manifest.recipe for run in compared])
    fields = tuple(row(key, list(_shown(values))) for key, values in found)
    if fields:
        blocks.append(Table("runs-recipes", "Where the recipes differ", tuple(columns), (fields,)))
    else:
        blocks.append(paragraph("The recipes are the same."))
    return Section("making", "The runs", tuple(blocks))


def _machine(hardware: Hardware) -> str:
    return ", ".join([hardware.cpu, *(gpu.name for gpu in hardware.gpus)])


def _fields(values: Sequence[object], key: str = "") -> Iterator[tuple[str, Sequence[object]]]:
    """Yield every field that is not the same in all recipes, with its value in each, nested ones by keys with dots.

    A field that one recipe lacks, or a list that is longer in one, is shown as a whole, of all recipes; what then
    differs within those that have the field comes after it.
    """
    first, *others = values
    present = [value for value in values if value is not ABSENT]
    if 1 < len(present) < len(values):
        yield key, values
        for inner_key, inner in _fields(present, key):
            if inner_key != key:
                rest = iter(inner)
                yield inner_key, [value if value is ABSENT else next(rest) for value in values]
    elif all(isinstance(value, dict) for value in values):
        mappings = cast("Sequence[dict[str, object]]", values)
        for name in dict.fromkeys(name for mapping in mappings for name in mapping):
            inner = [mapping.get(name, ABSENT) for mapping in mappings]
            yield from _fields(inner, f"{key}.{name}" if key else name)
    elif all(isinstance(value, list) for value in values) and len({len(cast("list[object]", v)) for v in values}) == 1:
        for place, inner in enumerate(zip(*cast("Sequence[list[object]]", values), strict=True)):
            yield from _fields(inner, f"{key}[{place}]")
    # As in JSON, 1 equals 1.0 and not true.
    elif any(first != other or isinstance(first, bool) != isinstance(other, bool) for other in others):
        yield key, values


def _shown(values: Sequence[object]) -> Iterator[str]:
    """Yield values as JSON, long ones cut off; where all begin alike, their beginnings are left out too."""
    texts = [ABSENT.value if value is ABSENT else json.dumps(value, ensure_ascii=False) for value in values]
    alike = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))
    start = max(0, alike - CONTEXT) if max(map(len, texts)) > LONGEST_VALUE else 0
    for text in texts:
        shown = f"…{text[start:]}" if start else text
        yield shown if len(shown) <= LONGEST_VALUE else f"{shown[: LONGEST_VALUE - 1]}…"


def _names(compared: Sequence[_Compared]) -> dict[str, str]:
    """Return the numbered titles of all runs' systems by name."""
    return numbered_titles(run.source.grid.plan for run in compared if run.source.grid)
