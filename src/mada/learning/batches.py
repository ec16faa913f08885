"""Completions to learn from, cut into micro-batches. Axes: B completion, L place in the padded sequence.

A micro-batch is one forward and backward pass. Its size is its rows times its width, padding included, which is what
its memory follows. Rows are padded on the right: a causal model's real tokens never see what comes after them, so no
attention mask is needed, and attention runs its fastest causal kernels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class CreditedCompletion:
    """A completion with the advantage it was credited with.

    `learn=False` takes it out of the passes, not out of its agent's means (see loss.py). `engine_log_probs` are the
    sampler's, for the canary.
    """

    agent: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    engine_log_probs: tuple[float, ...] | None
    advantage: float
    learn: bool = True

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.completion_ids:
            raise ValueError(
                f"a completion and its prompt need at least one token each, got {len(self.completion_ids)} and "
                f"{len(self.prompt_ids)} from {self.agent}"
            )
        if self.engine_log_probs is not None and len(self.engine_log_probs) != len(self.completion_ids):
            raise ValueError(
                f"{self.agent}'s completion has {len(self.completion_ids)} tokens but {len(self.engine_log_probs)} "
                "log-probabilities"
            )

    @property
    def length(self) -> int:
        """Tokens of prompt and completion."""
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that pass through the model together, in agent order."""

    completions: tuple[CreditedCompletion, ...]
    places: tuple[int, ...]
    """Where each row stands among the completions that were cut."""

    @property
    def width(self) -> int:
        """Length of the longest row."""
        return max(completion.length for completion in self.completions)

    @property
    def size(self) -> int:
        """Tokens, padding included."""
        return len(self.completions) * self.width

    @property
    def padding(self) -> int:
        """Tokens that are padding."""
        return self.size - sum(completion.length for completion in self.completions)

    @property
    def completion_lengths(self) -> list[int]:
        """Tokens of each row's completion."""
        return [len(completion.completion_ids) for completion in self.completions]

    @property
    def shared_share(self) -> float:
        """Share of the rows' tokens that belong to a prompt which an earlier row of the same agent has too."""
        prompts, _ = self.prompts()
        whole = sum(len(completion.prompt_ids) for completion in self.completions)
        return (whole - sum(len(ids) for _, ids in prompts)) / sum(completion.length for completion in self.completions)

    def prompts(self) -> tuple[list[tuple[str, tuple[int, ...]]], list[int]]:
        """Return the different prompts with their agents, in agent order, and which of them each row continues."""
        place_of: dict[tuple[str, tuple[int, ...]], int] = {}
        for completion in self.completions:
            place_of.setdefault((completion.agent, completion.prompt_ids), len(place_of))
        return list(place_of), [place_of[one.agent, one.prompt_ids] for one in self.completions]

    def padded_ids(self) -> Tensor:
        """Return the rows' tokens as [B, L], padded on the right with an arbitrary token."""
        return padded([completion.prompt_ids + completion.completion_ids for completion in self.completions])

    def completion_places(self) -> Tensor:
        """Return where the completions' tokens stand in the flattened `padded_ids`, row after row."""
        starts = (row * self.width + len(completion.prompt_ids) for row, completion in enumerate(self.completions))
        return torch.cat(
            [torch.arange(start, start + length) for start, length in zip(starts, self.completion_lengths, strict=True)]
        )


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return rows of tokens as one tensor, padded on the right with an arbitrary token."""
    ids = torch.zeros(len(rows), max(len(row) for row in rows), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids


def micro_batches(
    completions: Sequence[CreditedCompletion], *, agents: Sequence[str], max_tokens: int
) -> list[MicroBatch]:
    """Cut completions into micro-batches of at most `max_tokens`; a longer sequence has one to itself.

    Sequences of similar length go together, so that padding is small. Where it costs no padding, a micro-batch has
    equally many rows of each agent, which adapted layers compute as plain blocks (see `Routing`). That is nice to
    have with few agents: with three, padding costs more than rows by gate do.
    """
    place_of = {agent: place for place, agent in enumerate(agents)}
    longest_first = sorted(range(len(completions)), key=lambda place: (-completions[place].length, place))

    def in_agent_order(places: Iterable[int]) -> list[int]:
        return sorted(places, key=lambda place: (place_of[completions[place].agent], -completions[place].length, place))

    by_agent = groupby(in_agent_order(longest_first), key=lambda place: completions[place].agent)
    # One row of each agent that has any left: first everybody's longest, then everybody's second, and so on.
    tiers = [
        [place for place in tier if place is not None]
        for tier in zip_longest(*(list(places) for _, places in by_agent))
    ]
    lengths = [completion.length for completion in completions]
    even = _cut(tiers, lengths, max_tokens)
    tight = _cut([[place] for place in longest_first], lengths, max_tokens)
    chosen = even if _size(even, lengths) <= _size(tight, lengths) else tight
    ordered = [in_agent_order(places) for places in chosen]
    return [MicroBatch(tuple(completions[place] for place in places), tuple(places)) for places in ordered]


def padding_share(batches: Sequence[MicroBatch]) -> float:
    """Return the share of all tokens computed that are padding."""
    size = sum(batch.size for batch in batches)
    return sum(batch.padding for batch in batches) / size if size else 0.0


def _cut(tiers: Sequence[Sequence[int]], lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Fill micro-batches with whole tiers while they fit; a tier that is too large for one is cut itself."""
    cut: list[list[int]] = []
    for tier in tiers:
        fits = len(tier) * max(lengths[place] for place in tier) <= max_tokens
        for part in [list(tier)] if fits else [[place] for place in tier]:
            together = [*cut[-1], *part] if cut else part
            if cut and len(together) * max(lengths[place] for place in together) <= max_tokens:
                cut[-1] = together
            else:
                cut.append(part)
    return cut


def _size(cut: Sequence[Sequence[int]], lengths: Sequence[int]) -> int:
    return sum(len(places) * max(lengths[place] for place in places) for places in cut)
