"""What the evaluation and each of its systems cost: counted, measured, and attributed, each called by its name (E3)."""

from collections.abc import Callable, Mapping, Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.costs import Bill, Costs, Demand, costs_of
from mada.evaluation.plan import PlannedSystem
from mada.report.bill import taken
from mada.report.document import Block, Column, Section, Table, row
from mada.report.figures.data import ParametersFigure
from mada.report.numbering import numbered_titles
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
    costs = [costs_of(grid, one, efforts=source.efforts, price_per_hour=source.price_per_hour) for one in systems]
    blocks.append(_costs(systems, costs, titles=numbered_titles([grid.plan])))
    blocks.append(figure_place(ParametersFigure))
    return Section("costs", "Costs", tuple(blocks))


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


def _costs(systems: Sequence[PlannedSystem], costs: Sequence[Costs], *, titles: Mapping[str, str]) -> Table:
    """Return what each system costs per question; what no system has is left out."""
    rounds = max(len(one.rounds) for one in costs)
    generated = "generated tokens"
    columns: list[tuple[Column, Callable[[Costs], str]]] = [(Column("calls"), lambda one: count_text(one.calls))]
    if rounds > 1:
        columns += [(Column(f"round {place + 1}", group=generated), _tokens_of_round(place)) for place in range(rounds)]
    columns += [
        (Column("all", group=generated), lambda one: f"{one.generated_tokens:,.0f}"),
        (Column("per right verdict", group=generated), lambda one: _or_nothing(one.tokens_per_right_answer, "{:,.0f}")),
        (Column("prompt tokens"), lambda one: f"{one.prompt_tokens:,.0f}"),
        (Column("trained parameters"), lambda one: _or_nothing(one.parameters, "{:,}")),
        (Column("seconds"), lambda one: small_text(one.seconds)),
        (Column("accelerator seconds"), lambda one: small_text(one.accelerator_seconds)),
        (Column("money"), lambda one: small_text(one.money)),
    ]
    shown = [(column, [text(one) for one in costs]) for column, text in columns]
    known = [(column, texts) for column, texts in shown if set(texts) != {NOTHING}]
    rows = tuple(row(titles[system.name], [texts[place] for _, texts in known]) for place, system in enumerate(systems))
    return Table(
        "costs",
        "Costs per question",
        (Column("system", "text"), *(column for column, _ in known)),
        (rows,),
        (_explained(costs),),
    )


def _explained(costs: Sequence[Costs]) -> str:
    parts = ["Calls and tokens are counted; per right verdict: generated tokens by the share of right verdicts."]
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
