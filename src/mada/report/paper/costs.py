"""The paper's Table 3: what training and answering cost, and what critics correct; and, beside it, what they damage.

The paper leaves the damage rate out; a critic that changes many answers corrects many, so one number without the other
says little.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.statistics import gain_per_parameter
from mada.evaluation.summary import SystemSummary
from mada.report.document import Cell, Column, Row, Shade, Table
from mada.report.numbers import NOTHING, quoted, share_text
from mada.report.paper.lineup import Lineup
from mada.report.paper.shading import by_sign, by_size, largest
from mada.text import counted


@dataclass(frozen=True, slots=True)
class CostRow:
    """What a system costs: trained parameters, accuracy gained by 1e12 of them, tokens per question.

    `improves` and `damages` are shares of all questions. What is unknown or does not apply is None.
    """

    title: str
    parameters: int | None
    gain_per_parameter: float | None
    tokens: float
    improves: float | None
    damages: float | None


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """The costs of all systems; `base` is the row whose critics the others' are held against."""

    groups: tuple[tuple[CostRow, ...], ...]
    base: CostRow
    seeds: int


def system_costs_of(grid: Grid, lineup: Lineup) -> SystemCosts:
    """Count the costs of every shown system; gains are over the untrained system of the same shape."""
    accuracies = {one.system.name: one.mean.average.mean for one in lineup.summary.systems}
    rows = {one.system.name: _cost_row(grid, one, accuracies=accuracies) for one in lineup.summary.systems}
    groups = tuple(tuple(rows[one.system.name] for one in group) for group in lineup.groups)
    return SystemCosts(groups, rows[lineup.base.system.name], seeds=len(grid.seeds))


def base_of(grid: Grid, system: PlannedSystem) -> PlannedSystem | None:
    """Return the shown system without training that has the same shape; None without one, or of several models.

    Only above that is accuracy a gain of training, and not of more rounds. Of several base models none is *the* base.
    """
    if system.members:
        return None
    shape = _shape(system)
    found = [one for one in shown_systems(grid) if one.parameters == 0 and not one.members and _shape(one) == shape]
    return found[0] if len({one.agents for one in found}) == 1 else None


def _shape(system: PlannedSystem) -> tuple[object, ...]:
    # The mean of single samples depends neither on how many there are nor on what is made of them.
    if system.rounds == 1:
        return (1,)
    # A budget has its own number of seats.
    seats = None if system.matched_to else len(system.generators)
    return system.rounds, seats, len(system.critics), system.rule, system.matched_to


def costs_table(costs: SystemCosts) -> Table:
    """Return the table; columns that no system has anything for are left out, but rates stand side by side."""
    rows = [row for group in costs.groups for row in group]
    columns = [*_training_columns(rows), _tokens_column(rows), *_rate_columns(rows, costs.base)]
    groups: tuple[tuple[Row, ...], ...] = tuple(
        tuple((Cell(row.title), *(cell(row) for _, cell in columns)) for row in group) for group in costs.groups
    )
    return Table(
        "costs-performance",
        "Costs and what critics correct and damage",
        (Column("system", "text"), *(column for column, _ in columns)),
        groups,
        notes=_notes(costs, headings=[column.heading for column, _ in columns]),
    )


_Shown = tuple[Column, Callable[[CostRow], Cell]]
"""A column and what stands in it."""


def _training_columns(rows: Iterable[CostRow]) -> list[_Shown]:
    parameters = [row.parameters for row in rows if row.parameters]
    gains = [row.gain_per_parameter for row in rows if row.gain_per_parameter is not None]
    most, scale = max(parameters, default=0), largest(gains)

    def trained(row: CostRow) -> Cell:
        if row.parameters is None:
            return Cell(NOTHING)
        return Cell(
            parameters_text(row.parameters), shade=by_size(row.parameters, high=most) if row.parameters else None
        )

    def gained(row: CostRow) -> Cell:
        gain = row.gain_per_parameter
        if gain is None:
            return Cell(NOTHING)
        return Cell(f"{round(gain) + 0:+,}".replace("-", "−"), shade=by_sign(gain, scale=scale))

    found: list[_Shown] = []
    if parameters:
        found.append((Column("trained parameters"), trained))
    if gains:
        found.append((Column("gain/parameter"), gained))
    return found


def _tokens_column(rows: Iterable[CostRow]) -> _Shown:
    tokens = [row.tokens for row in rows]
    low, high = min(tokens), max(tokens)

    def spent(row: CostRow) -> Cell:
        # A lone system is neither cheap nor dear.
        return Cell(f"{row.tokens:,.0f}", shade=by_size(row.tokens, low=low, high=high) if low < high else None)

    return Column("tokens/question"), spent


def _rate_columns(rows: Iterable[CostRow], base: CostRow) -> list[_Shown]:
    shown = list(rows)
    if all(row.improves is None for row in shown):
        return []

    def column(heading: str, rate: Callable[[CostRow], float | None], *, better: int) -> _Shown:
        own = rate(base)
        scale = 0.0 if own is None else largest(value - own for row in shown if (value := rate(row)) is not None)

        def shade(value: float) -> Shade | None:
            return None if own is None else by_sign(better * (value - own), scale=scale)

        def cell(row: CostRow) -> Cell:
            value = rate(row)
            return Cell(share_text(value), shade=None if value is None else shade(value))

        return Column(heading, group="critics"), cell

    return [
        column("improves", lambda row: row.improves, better=1),
        column("damages", lambda row: row.damages, better=-1),
    ]


def parameters_text(parameters: int) -> str:
    """Return a number of parameters with three digits that count: `1.10e8`; none are `0`."""
    if parameters == 0:
        return "0"
    digits, exponent = f"{parameters:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def _cost_row(grid: Grid, one: SystemSummary, *, accuracies: dict[str, float]) -> CostRow:
    parameters, base = one.system.parameters, base_of(grid, one.system)
    gain = None
    if parameters and base is not None:
        gain = gain_per_parameter(accuracies[one.system.name] - accuracies[base.name], parameters)
    return CostRow(one.system.title, parameters, gain, one.tokens, improves=one.improves, damages=one.damages)


def _notes(costs: SystemCosts, *, headings: list[str]) -> tuple[str, ...]:
    explained = [f"Tokens/question: generated tokens, mean over {counted(costs.seeds, 'seed')}."]
    if "gain/parameter" in headings:
        explained.append(
            "Gain/parameter: accuracy (the mean over the last round's answers) above the untrained system of the same "
            "shape (seats, rounds, budget), as a fraction, per trained parameter, times 10¹²."
        )
    if "damages" in headings:
        explained.append(
            "Improves, damages: percent of all questions on which the vote of the first round is wrong and the verdict "
            "right, and the other way round."
        )
    colours = ["Gray is magnitude alone, without better or worse."]
    if "gain/parameter" in headings:
        colours.append("Gains are green and losses red, the deeper the larger.")
    if "damages" in headings and costs.base.improves is not None:
        colours.append(
            f"What critics improve and damage is green where it is better than with {quoted(costs.base.title)} and red "
            "where it is worse, the deeper the larger the difference."
        )
    if len(colours) > 1:
        colours.append("None of this is a test: colours in this table say nothing about significance.")
    return " ".join(explained), " ".join(colours)
