"""What the evaluation and each of its systems cost: counted, measured, and attributed, each called by its name (E3)."""

from collections.abc import Callable, Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.costs import Bill, Costs, Demand, costs_of
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.report.bill import taken
from mada.report.document import Block, Column, Section, Table, row
from mada.report.figures.data import ParametersFigure
from mada.report.numbers import NOTHING, count_text, small_text
from mada.report.reading import Source
from mada.report.sections.entries import figure_place


def costs_section(source: Source) -> Section | None:
    """Return the bill, where there are records of effort, and every system's costs per question."""
    grid = source.grid
    if grid is None:
        return None
    systems = shown_systems(grid)
    blocks: list[Block] = []
    bill = source.bill
    if bill is not None:
        blocks.append(_bill(bill, price_per_hour=source.price_per_hour))
    blocks.append(_costs(systems, [_costs_of(source, grid, system) for system in systems]))
    blocks.append(figure_place(ParametersFigure))
    return Section("costs", "Costs", tuple(blocks))


def base_of(grid: Grid, system: PlannedSystem) -> PlannedSystem | None:
    """Return the shown system without training that has the same shape; None without one, or with several.

    Only above that is accuracy a gain of training, and not of more rounds or of a vote. Of several base models none is
    *the* base.
    """
    if system.members:
        return None
    shape = _shape(system)
    found = [one for one in shown_systems(grid) if one.parameters == 0 and not one.members and _shape(one) == shape]
    return found[0] if len(found) == 1 else None


def _shape(system: PlannedSystem) -> tuple[object, ...]:
    # The mean of single answers does not depend on how many there are, and a budget has its own number of seats.
    is_any_number = system.matched_to is not None or (system.rounds == 1 and system.measure == "mean")
    seats = None if is_any_number else len(system.generators), len(system.critics)
    return (*seats, system.rounds, system.rule, system.measure, system.matched_to)


def _costs_of(source: Source, grid: Grid, system: PlannedSystem) -> Costs:
    base = base_of(grid, system)
    accuracy = None if base is None else grid.average(base, grid.measured(base))
    return costs_of(grid, system, efforts=source.efforts, price_per_hour=source.price_per_hour, base=accuracy)


def _bill(bill: Bill, *, price_per_hour: float | None) -> Table:
    """Return what systems asked for between them beside what was really computed."""
    demands = {
        "completions": bill.completions,
        "generated tokens": bill.generated_tokens,
        "prompt tokens": bill.prompt_tokens,
    }
    price = (
        ""
        if price_per_hour is None
        else f" The price is {small_text(price_per_hour)} for an hour of an accelerator, or of the machine without one."
    )
    return Table(
        "bill",
        "The whole evaluation",
        (Column("what", "text"), Column("asked for"), Column("computed"), Column("saved by sharing")),
        (tuple(row(name, [f"{one.asked:,}", f"{one.computed:,}", _saved(one)]) for name, one in demands.items()),),
        (f"It took {', '.join(taken(bill))}.{price}",),
    )


def _costs(systems: Sequence[PlannedSystem], costs: Sequence[Costs]) -> Table:
    """Return what each system costs per question; what no system has is left out."""
    rounds = max(len(one.rounds) for one in costs)
    generated = "generated tokens"
    columns: list[tuple[Column, Callable[[Costs], str]]] = [(Column("calls"), lambda one: count_text(one.calls))]
    if rounds > 1:
        columns += [(Column(f"round {place + 1}", group=generated), _tokens_of_round(place)) for place in range(rounds)]
    columns += [
        (Column("all", group=generated), lambda one: f"{one.generated_tokens:,.0f}"),
        (Column("per right answer", group=generated), lambda one: _or_nothing(one.tokens_per_right_answer, "{:,.0f}")),
        (Column("prompt tokens"), lambda one: f"{one.prompt_tokens:,.0f}"),
        (Column("trained parameters"), lambda one: _or_nothing(one.parameters, "{:,}")),
        (
            Column("gain per parameter"),
            lambda one: _or_nothing(one.gain_per_parameter, "{:+,.0f}").replace("-", "−"),
        ),
        (Column("seconds"), lambda one: small_text(one.seconds)),
        (Column("accelerator seconds"), lambda one: small_text(one.accelerator_seconds)),
        (Column("money"), lambda one: small_text(one.money)),
    ]
    shown = [(column, [text(one) for one in costs]) for column, text in columns]
    known = [(column, texts) for column, texts in shown if set(texts) != {NOTHING}]
    rows = tuple(row(system.title, [texts[place] for _, texts in known]) for place, system in enumerate(systems))
    return Table(
        "costs",
        "Costs per question",
        (Column("system", "text"), *(column for column, _ in known)),
        (rows,),
        (_explained(costs),),
    )


def _explained(costs: Sequence[Costs]) -> str:
    parts = ["Calls and tokens are counted; per right answer: generated tokens by accuracy."]
    if any(one.gain_per_parameter is not None for one in costs):
        parts.append(
            "Gain per parameter: accuracy above the untrained system of the same shape (seats, rounds, budget, "
            "measure), as a fraction, per trained parameter, times 10¹²."
        )
    if any(one.seconds is not None for one in costs):
        parts.append(
            "Times and money of a system are not measured but attributed by its share of generated tokens, as if it "
            "had sampled alone: systems share samples and batches, so no clock can tell them apart."
        )
    return " ".join(parts)


def _saved(demand: Demand) -> str:
    return NOTHING if demand.saved is None else f"{100 * demand.saved:.0f} %".replace("-", "−")


def _tokens_of_round(place: int) -> Callable[[Costs], str]:
    return lambda one: f"{one.rounds[place].generated_tokens:,.0f}" if place < len(one.rounds) else NOTHING


def _or_nothing(number: float | None, form: str) -> str:
    return NOTHING if number is None else form.format(number)
