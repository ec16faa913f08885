"""The bill of an evaluation in a few plain lines, for a terminal."""

from mada.evaluation.costs import Bill, Demand
from mada.report.numbers import small_text
from mada.text import duration


def bill_text(bill: Bill) -> list[str]:
    """Return what an evaluation asked for, what of it was sampled, and what that took; no Markdown."""
    lines = [
        f"{bill.completions.asked:,} completions asked for{_sampled(bill.completions)}",
        f"{bill.generated_tokens.asked:,} tokens asked for{_sampled(bill.generated_tokens)}",
    ]
    if bill.seconds:
        lines.append(", ".join(taken(bill)))
    return lines


def taken(bill: Bill) -> list[str]:
    """Return what the evaluation took: time, accelerators' time, speed, money, as far as each is known."""
    parts = [f"{duration(bill.seconds)} (engines at work for {duration(bill.busy_seconds)})"]
    if bill.accelerator_seconds is not None:
        parts.append(f"{duration(bill.accelerator_seconds)} of accelerators")
    if bill.tokens_per_second is not None:
        parts.append(f"{small_text(bill.tokens_per_second)} tokens per second")
    if bill.money is not None:
        parts.append(f"{bill.money:,.2f} in money")
    return parts


def _sampled(demand: Demand) -> str:
    saved = demand.saved
    if saved is None:
        return ""
    if saved < 0:
        # A kill loses what was under way, and it is sampled again.
        return f", {demand.computed:,} sampled, more than asked for because of work that was lost and done again"
    return f", {demand.computed:,} sampled: sharing saved {100 * saved:.0f} %"
