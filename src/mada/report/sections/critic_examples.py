"""What the critics learnt from: how many examples there are, and how hard they were for the generators."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mada.report.document import Column, Section, Table, row
from mada.report.numbers import NOTHING
from mada.report.reading import CRITIC_EXAMPLES, Source, has_records, stored


@dataclass(frozen=True, slots=True)
class CriticExampleCount:
    """What a report needs of a critic's example: its part, and how many of the generators were right."""

    part: str
    generator_accuracy: float


def critic_examples_section(source: Source) -> Section | None:
    """Return how many examples each part has, by the share of generators that were right; None without any."""
    if not has_records(source.run, CRITIC_EXAMPLES):
        return None
    table = _table(stored(source.run, CRITIC_EXAMPLES, CriticExampleCount))
    return Section("critic-examples", "Critic examples", (table,))


def _table(examples: Iterable[CriticExampleCount]) -> Table:
    counts = Counter((one.part, round(one.generator_accuracy, 6)) for one in examples)
    parts = sorted({part for part, _ in counts})
    shares = sorted({share for _, share in counts})
    rows = tuple(
        row(part, [*(f"{counts[part, share]:,}" if counts[part, share] else NOTHING for share in shares), f"{total:,}"])
        for part in parts
        for total in [sum(counts[part, share] for share in shares)]
    )
    return Table(
        "critic-examples",
        "What the critics learn from",
        (Column("part", "text"), *(Column(f"{100 * share:.0f} % right") for share in shares), Column("all")),
        (rows,),
        ("Numbers of problems, by the share of generators that were right about them.",),
    )
