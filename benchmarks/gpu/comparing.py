"""Where greedy replies of two systems part, and whether rounding explains it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from greedy_job import BARE
from greedy_workers import Replies

SYSTEMS = ("mada", "peft", "vllm")
FEW_ROWS = "mada, few rows"


@dataclass(frozen=True)
class Difference:
    """Where two replies part: the tokens they have in common, and what each says next, None if it has ended."""

    prompt: int
    place: int
    tokens: tuple[int | None, int | None]


def first_difference(prompt: int, one: Sequence[int], other: Sequence[int]) -> Difference | None:
    """Return where two replies to a prompt part, if they do."""
    if one == other:
        return None
    both = zip(one, other, strict=False)
    place = next((place for place, (a, b) in enumerate(both) if a != b), min(len(one), len(other)))
    a, b = (reply[place] if place < len(reply) else None for reply in (one, other))
    return Difference(prompt, place, (a, b))


def comparisons(job: dict[str, Any], replies: dict[str, Replies]) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Yield all comparisons: an adapter, and the keys in `replies` of two systems and of the other speaker."""
    adapters = [one for one in job["speakers"] if one["folder"]]
    for one in adapters:
        for pair in combinations([system for system in SYSTEMS if system in replies], 2):
            yield one, *pair, one["name"]
        if "mada" in replies:
            yield one, "mada", FEW_ROWS, one["name"]
            yield one, "mada", "mada", BARE[one["role"]]
            alike = [each["name"] for each in adapters if each["role"] == one["role"]]
            if len(alike) > 1:
                yield one, "mada", "mada", alike[(alike.index(one["name"]) + 1) % len(alike)]


def compare(
    job: dict[str, Any],
    replies: dict[str, Replies],
    weigh: Callable[[list[dict[str, Any]]], list[dict[str, float]] | None],
    tolerance: float,
) -> list[dict[str, Any]]:
    """Compare all that answered, and have first differences weighed; None says that this failed."""
    rows: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    weighed: list[dict[str, Any]] = []
    for speaker, first, second, other in comparisons(job, replies):
        name, prompts = speaker["name"], job["prompts"][speaker["role"]]
        pairs = list(zip(replies[first][name], replies[second][other], strict=True))
        found = [first_difference(number, one["ids"], two["ids"]) for number, (one, two) in enumerate(pairs)]
        lengths = [max(len(one["ids"]), len(two["ids"])) for one, two in pairs]
        common = [each.place if each else length for each, length in zip(found, lengths, strict=True)]
        differences: list[dict[str, Any]] = []
        for each in filter(None, found):
            differences.append({"prompt": each.prompt, "place": each.place, "tokens": each.tokens, "gaps": {}})
            if None not in each.tokens:
                before = [*prompts[each.prompt], *replies[first][name][each.prompt]["ids"][: each.place]]
                questions.append({"speaker": name, "ids": before, "tokens": each.tokens, "decides": other == name})
                weighed.append(differences[-1])
        apart = [
            abs(a - b)
            for (one, two), size in zip(pairs, common, strict=True)
            for a, b in zip(one["log_probs"][:size], two["log_probs"][:size], strict=True)
        ]
        rows.append({
            "adapter": name, "systems": [first, second], "against": None if other == name else other,
            "decides": other == name and second != FEW_ROWS, "completions": len(pairs),
            "identical": len(pairs) - len(differences), "share_in_common": round(sum(common) / sum(lengths), 4),
            "log_probs_apart": round(sum(apart) / len(apart), 5) if apart else None, "differences": differences,
        })  # fmt: skip
    if questions:
        for difference, gaps in zip(weighed, weigh(questions) or [{}] * len(questions), strict=True):
            difference["gaps"] = {dtype: round(gap, 5) for dtype, gap in gaps.items()}
    for row in rows:
        gaps = [min(each["gaps"].values(), default=None) for each in row["differences"]]
        # One without a gap, because one reply ended where the other went on, is real.
        row["real"] = sum(gap is None or gap >= tolerance for gap in gaps)
        row["largest_gap"] = max((gap for gap in gaps if gap is not None), default=None)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print a line per comparison, what decides first."""
    for row in sorted(rows, key=lambda row: not row["decides"]):
        others = " = ".join(row["systems"]) if row["against"] is None else f"mada's = those of {row['against']}"
        gap = "–" if row["largest_gap"] is None else f"{row['largest_gap']:.3f}"
        print(
            f"{'' if row['decides'] else 'control: '}{row['adapter']}: {others}:",
            f"{row['identical']}/{row['completions']} identical, {row['share_in_common']:.1%} in common,",
            f"largest gap {gap}, real {row['real']}, log-probs of what is in common {row['log_probs_apart']} apart",
        )
