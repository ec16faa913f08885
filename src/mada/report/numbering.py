"""One number for every system, wherever a report shows it: in tables, charts and matrices."""

from collections.abc import Iterable

from mada.evaluation.plan import EvaluationPlan


def numbered_titles(plans: Iterable[EvaluationPlan]) -> dict[str, str]:
    """Return the titles of shown systems by name, each behind its number, in the order in which they are first met."""
    titles: dict[str, str] = {}
    for system in (system for plan in plans for system in plan.systems if system.shown):
        titles.setdefault(system.name, f"{len(titles) + 1} {system.title}")
    return titles
