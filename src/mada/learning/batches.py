"""Completions to learn from, cut into micro-batches. Axes: B completion, L position in the padded sequence.

A micro-batch is one forward and backward pass. Its size is its tokens, padding included, which is what its memory
follows. Rows are padded on the right: a causal model's real tokens never see what comes after them, so no attention
mask is needed, and attention runs its fastest causal kernels.

Where prompts are long, as a critic's are, most tokens of a group are the same prompt again and again. Then groups stay
together, and each prompt is passed once for all completions that continue it.
"""

from collections.abc import Callable, Iterable, Sequence
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


# The share of tokens that passing shared prompts once must save, to make up for a second, smaller pass.
SHARE_FROM = 0.2


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows that pass through the model together, in agent order."""

    completions: tuple[CreditedCompletion, ...]
    indices: tuple[int, ...]
    """Where each row stands among the completions that were cut."""
    shares_prompts: bool = False
    """Whether each prompt is passed once for all rows of an agent that continue it."""

    @property
    def width(self) -> int:
        """Length of the longest row."""
        return max(completion.length for completion in self.completions)

    @property
    def size(self) -> int:
        """Tokens, padding included."""
        return (_shared_size if self.shares_prompts else _row_size)(self.completions)

    @property
    def completion_lengths(self) -> list[int]:
        """Tokens of each row's completion."""
        return [len(completion.completion_ids) for completion in self.completions]

    def prompts(self) -> tuple[list[tuple[str, tuple[int, ...]]], list[int]]:
        """Return the different prompts with their agents, in agent order, and which of them each row continues."""
        index_of: dict[tuple[str, tuple[int, ...]], int] = {}
        for completion in self.completions:
            index_of.setdefault((completion.agent, completion.prompt_ids), len(index_of))
        return list(index_of), [index_of[one.agent, one.prompt_ids] for one in self.completions]

    def padded_ids(self) -> Tensor:
        """Return the rows' tokens as [B, L], padded on the right with an arbitrary token."""
        return padded([completion.prompt_ids + completion.completion_ids for completion in self.completions])

    def completion_positions(self) -> Tensor:
        """Return where the completions' tokens stand in the flattened `padded_ids`, row after row."""
        starts = (row * self.width + len(completion.prompt_ids) for row, completion in enumerate(self.completions))
        return torch.cat(
            [torch.arange(start, start + length) for start, length in zip(starts, self.completion_lengths, strict=True)]
        )


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return rows of tokens as one tensor, padded on the right with an arbitrary token."""
    ids = torch.zeros(len(rows), max(len(row) for row in rows), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids


def micro_batches(
    completions: Sequence[CreditedCompletion], *, agents: Sequence[str], max_tokens: int, share_prompts: bool = False
) -> list[MicroBatch]:
    """Cut completions into micro-batches of at most `max_tokens`; a longer sequence has one to itself.

    With `share_prompts` groups are kept together and their prompts passed once, if that saves enough tokens.
    """
    index_of = {agent: index for index, agent in enumerate(agents)}

    def in_agent_order(indices: Iterable[int]) -> list[int]:
        return sorted(
            indices, key=lambda index: (index_of[completions[index].agent], -completions[index].length, index)
        )

    def batches(cut: Iterable[Iterable[int]], *, shares_prompts: bool) -> list[MicroBatch]:
        ordered = map(in_agent_order, cut)
        return [MicroBatch(tuple(completions[i] for i in own), tuple(own), shares_prompts) for own in ordered]

    by_row = batches(_cut_rows(completions, in_agent_order, max_tokens), shares_prompts=False)
    if not share_prompts:
        return by_row
    by_group = batches(_cut_groups(completions, max_tokens), shares_prompts=True)
    row_tokens, group_tokens = (sum(batch.size for batch in cut) for cut in (by_row, by_group))
    return by_group if group_tokens <= (1 - SHARE_FROM) * row_tokens and by_row else by_row


def _cut_rows(
    completions: Sequence[CreditedCompletion], in_agent_order: Callable[[Iterable[int]], list[int]], max_tokens: int
) -> list[list[int]]:
    """Put sequences of similar length together, so that padding is small.

    Where it costs no padding, a micro-batch has equally many rows of each agent, which adapted layers compute as plain
    blocks (see `Routing`). With few agents padding would cost more than routing row by row.
    """
    longest_first = sorted(range(len(completions)), key=lambda index: (-completions[index].length, index))
    by_agent = groupby(in_agent_order(longest_first), key=lambda index: completions[index].agent)
    # One row of each agent that has any left: first everybody's longest, then everybody's second, and so on.
    tiers = [
        [index for index in tier if index is not None]
        for tier in zip_longest(*(list(indices) for _, indices in by_agent))
    ]

    def size(indices: Sequence[int]) -> int:
        return _row_size([completions[index] for index in indices])

    even = _cut(tiers, size, max_tokens)
    tight = _cut([[index] for index in longest_first], size, max_tokens)
    return even if sum(map(size, even)) <= sum(map(size, tight)) else tight


def _cut_groups(completions: Sequence[CreditedCompletion], max_tokens: int) -> list[list[int]]:
    """Keep completions of one prompt and agent together, and groups with completions of similar length."""
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for index, completion in enumerate(completions):
        groups.setdefault((completion.agent, completion.prompt_ids), []).append(index)

    def longest(indices: Sequence[int]) -> tuple[int, int]:
        return max(len(completions[index].completion_ids) for index in indices), len(completions[indices[0]].prompt_ids)

    ordered = sorted(groups.values(), key=lambda indices: (*(-length for length in longest(indices)), indices[0]))
    return _cut(ordered, lambda indices: _shared_size([completions[index] for index in indices]), max_tokens)


def _cut(tiers: Sequence[Sequence[int]], size: Callable[[Sequence[int]], int], max_tokens: int) -> list[list[int]]:
    """Fill micro-batches with complete tiers while they fit; a tier that is too large for one is cut itself."""
    cut: list[list[int]] = []
    for tier in tiers:
        for part in [list(tier)] if size(tier) <= max_tokens else [[index] for index in tier]:
            together = [*cut[-1], *part] if cut else part
            if cut and size(together) <= max_tokens:
                cut[-1] = together
            else:
                cut.append(part)
    return cut


def _row_size(rows: Sequence[CreditedCompletion]) -> int:
    """Return the tokens of a pass in which every row has its own prompt."""
    return len(rows) * max(row.length for row in rows)


def _shared_size(rows: Sequence[CreditedCompletion]) -> int:
    """Return the tokens of two passes, one over the different prompts and one over all completions."""
    prompts = {(row.agent, row.prompt_ids) for row in rows}
    return len(prompts) * max(len(ids) for _, ids in prompts) + len(rows) * max(len(row.completion_ids) for row in rows)
