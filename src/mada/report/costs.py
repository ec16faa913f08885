"""What the evaluation and each of its systems cost: counted, measured, and attributed, each called by its name (E3)."""

from collections.abc import Callable, Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.costs import Bill, Costs, Demand, bill_of, costs_of
from mada.evaluation.effort import Effort
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.samples import Sampled
from mada.report.bill import taken
from mada.report.markdown import escaped, table
from mada.report.numbers import NOTHING, count_text, small_text


def costs_section(
    grid: Grid,
    efforts: Sequence[Effort] = (),
    *,
    sampled: Sampled | None = None,
    price_per_hour: float | None = None,
) -> str:
    """Return the bill, where there are records of effort, and every system's costs per question."""
    costs: list[tuple[PlannedSystem, Costs]] = []
    for system in shown_systems(grid):
        base = base_of(grid, system)
        accuracy = None if base is None else grid.average(base, grid.measured(base))
        costs.append((system, costs_of(grid, system, efforts=efforts, price_per_hour=price_per_hour, base=accuracy)))
    parts = ["## Costs"]
    if efforts:
        bill = bill_of(grid, efforts, sampled=sampled, price_per_hour=price_per_hour)
        parts += [bill_markdown(bill), f"It took {', '.join(taken(bill))}.{_price(price_per_hour)}"]
    parts.append(costs_markdown(costs))
    parts.append(_explained([one for _, one in costs]))
    return "\n\n".join(parts)


def bill_markdown(bill: Bill) -> str:
    """Return what systems asked for between them beside what was really computed."""
    demands = {
        "completions": bill.completions,
        "generated tokens": bill.generated_tokens,
        "prompt tokens": bill.prompt_tokens,
    }
    rows = [[name, f"{one.asked:,}", f"{one.computed:,}", _saved(one)] for name, one in demands.items()]
    return table(["the whole evaluation", "asked for", "computed", "saved by sharing"], rows)


def costs_markdown(costs: Sequence[tuple[PlannedSystem, Costs]]) -> str:
    """Return what each system costs per question; what no system has is left out."""
    rounds = max(len(one.rounds) for _, one in costs)
    columns: list[tuple[str, Callable[[Costs], str]]] = [("calls", lambda one: count_text(one.calls))]
    if rounds > 1:
        columns += [(f"tokens, round {place + 1}", _tokens_of_round(place)) for place in range(rounds)]
    columns += [
        ("tokens", lambda one: f"{one.generated_tokens:,.0f}"),
        ("prompt tokens", lambda one: f"{one.prompt_tokens:,.0f}"),
        ("tokens per right answer", lambda one: _or_nothing(one.tokens_per_right_answer, "{:,.0f}")),
        ("trained parameters", lambda one: _or_nothing(one.parameters, "{:,}")),
        ("gain per parameter", lambda one: _or_nothing(one.gain_per_parameter, "{:+,.0f}").replace("-", "−")),
        ("seconds", lambda one: small_text(one.seconds)),
        ("accelerator seconds", lambda one: small_text(one.accelerator_seconds)),
        ("money", lambda one: small_text(one.money)),
    ]
    shown = [(heading, [text(one) for _, one in costs]) for heading, text in columns]
    known = [(heading, cells) for heading, cells in shown if set(cells) != {NOTHING}]
    rows = zip((escaped(system.title) for system, _ in costs), *(cells for _, cells in known), strict=True)
    return table(["per question", *(heading for heading, _ in known)], list(rows))


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


def _explained(costs: Sequence[Costs]) -> str:
    parts = ["Calls and tokens are counted. Tokens per right answer: generated tokens by accuracy."]
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


def _price(price_per_hour: float | None) -> str:
    if price_per_hour is None:
        return ""
    return f" The price is {small_text(price_per_hour)} for an hour of an accelerator, or of the machine without one."


def _saved(demand: Demand) -> str:
    return NOTHING if demand.saved is None else f"{100 * demand.saved:.0f} %".replace("-", "−")


def _tokens_of_round(place: int) -> Callable[[Costs], str]:
    return lambda one: f"{one.rounds[place].generated_tokens:,.0f}" if place < len(one.rounds) else NOTHING


def _or_nothing(number: float | None, form: str) -> str:
    return NOTHING if number is None else form.format(number)
