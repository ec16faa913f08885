"""The batch on the device: what every slot's next step needs, and the step itself. Axes: S slot, N row, K agent.

A step takes each row's last token, draws the next one and leaves it where the following step finds it, so a step never
waits for the host to look at the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mada.models.adapters.layer import gates
from mada.models.engines.local.cache import SlotCache
from mada.models.engines.local.drawing import DrawSettings, draw
from mada.models.engines.local.network import Network
from mada.models.engines.local.randomness import row_seed
from mada.models.engines.local.rows import Row


class Drawn(Protocol):
    """Tokens that are drawn or being drawn."""

    def fetch(self) -> tuple[list[int], list[float]]:
        """Wait for them; return tokens and log-probabilities, one per row."""
        ...


class Batch:
    """The state of all slots, as tensors on the model's device."""

    moved_together = 0
    """Positions that are moved at once, padding included. On a CPU launches cost nothing, and rows go one by one."""

    def __init__(self, network: Network, cache: SlotCache, *, scale_K: Tensor | None) -> None:
        self.network = network
        self.cache = cache
        slots, device = cache.slots, cache.keys_LSHCD.device
        self.device = device
        self.tokens_S = torch.zeros(slots, dtype=torch.long, device=device)
        self.lengths_S = torch.zeros(slots, dtype=torch.long, device=device)
        self.counts_S = torch.zeros(slots, dtype=torch.long, device=device)
        self.seeds_S = torch.zeros(slots, dtype=torch.long, device=device)
        self.temperatures_S = torch.ones(slots, device=device)
        self.top_p_S = torch.ones(slots, device=device)
        self.top_k_S = torch.ones(slots, dtype=torch.long, device=device)
        self.log_probs_S = torch.zeros(slots, device=device)
        self.scale_K = scale_K
        # One agent per slot, −1 for the bare base; the gates follow from it.
        self.agents_S = torch.full((slots,), -1, dtype=torch.long, device=device)

    def gate(self, agents_N: Tensor) -> Tensor | None:
        """Return the rows' gates; without adapters there are none."""
        return None if self.scale_K is None else gates(agents_N, self.scale_K)

    def size_for(self, count: int) -> int:
        """Return how many slots a step over the first `count` computes: what the step costs."""
        return count

    def place(self, rows: Sequence[Row]) -> None:
        """Set up the slots of rows that begin."""
        slots = self.whole([row.slot for row in rows])
        sampling = [row.request.sampling for row in rows]
        unlimited = torch.iinfo(torch.int32).max
        self.agents_S[slots] = self.whole([row.request.agent for row in rows])
        self.lengths_S[slots] = self.whole([len(row.request.prompt_ids) for row in rows])
        self.counts_S[slots] = 0
        self.seeds_S[slots] = self.whole([row_seed(row.request.sampling.seed, row.place) for row in rows])
        self.top_k_S[slots] = self.whole([unlimited if each.top_k is None else each.top_k for each in sampling])
        self.temperatures_S[slots] = self._real([each.temperature for each in sampling])
        self.top_p_S[slots] = self._real([each.top_p for each in sampling])

    def begin(self, rows: Sequence[Row], logits_NV: Tensor, *, filtered: bool) -> Drawn:
        """Draw the first token of rows that begin, from the logits after their prompts."""
        slots = self.whole([row.slot for row in rows])
        tokens, log_probs = self.draw(logits_NV, self._settings(slots), filtered=filtered)
        self.tokens_S[slots] = tokens
        self.counts_S[slots] = 1
        return self.hand_over(tokens, log_probs)

    def step(self, count: int, *, longest: int, filtered: bool) -> Drawn:
        """Draw the next token of the first `count` slots; some may be idle, and what they draw means nothing."""
        self.advance(count, longest=longest, filtered=filtered)
        return self.hand_over(self.tokens_S[:count], self.log_probs_S[:count])

    def advance(self, count: int, *, longest: int, filtered: bool) -> None:
        """Do one step on the device, from the batch's tensors into the batch's tensors."""
        logits_NV = self.network.decode(
            self.tokens_S[:count],
            self.lengths_S[:count],
            self.gate(self.agents_S[:count]),
            self.cache,
            longest=longest,
        )
        tokens, log_probs = self.draw(logits_NV, self._settings(slice(count)), filtered=filtered)
        self.tokens_S[:count] = tokens
        self.log_probs_S[:count] = log_probs
        # A slot whose row has ended may be stepped for long; it must stay inside its slot.
        self.lengths_S[:count] = (self.lengths_S[:count] + 1).clamp_(max=self.cache.context - 1)
        self.counts_S[:count] += 1

    def draw(self, logits_NV: Tensor, settings: DrawSettings, *, filtered: bool) -> tuple[Tensor, Tensor]:
        """Draw one token per row."""
        return draw(logits_NV, settings, filtered=filtered)

    def move(self, sources: Sequence[int], targets: Sequence[int], *, lengths: Sequence[int]) -> None:
        """Move rows into free slots, with everything that belongs to them; no target may be a source."""
        moves = [_Move(*each) for each in zip(sources, targets, lengths, strict=True)]
        for group in _groups(moves, positions=self.moved_together):
            self._move_positions(group)
        from_, to = self.whole(sources), self.whole(targets)
        for tensor in self._tensors():
            tensor[to] = tensor[from_]

    def clear(self, slots: Sequence[int]) -> None:
        """Have slots whose rows have ended begin at position 0: while idle, they look back at little."""
        self.lengths_S.index_fill_(0, self.whole(slots), 0)

    def whole(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Send whole numbers to the device, without waiting for what it is doing."""
        # Prompts are many numbers, and NumPy reads lists three times as fast as torch does.
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self.device, non_blocking=True)

    def hand_over(self, tokens_N: Tensor, log_probs_N: Tensor) -> Drawn:
        """Give drawn tokens to the host."""
        return _Here(tokens_N.clone(), log_probs_N.clone())

    def _settings(self, slots: Tensor | slice) -> DrawSettings:
        return DrawSettings(
            temperature_N=self.temperatures_S[slots],
            top_p_N=self.top_p_S[slots],
            top_k_N=self.top_k_S[slots],
            seed_N=self.seeds_S[slots],
            count_N=self.counts_S[slots],
        )

    def _move_positions(self, group: Sequence["_Move"]) -> None:
        if len(group) == 1:
            self.cache.move(group[0].source, group[0].target, length=group[0].length)
            return
        sources, targets = self.whole([move.source for move in group]), self.whole([move.target for move in group])
        self.cache.move_together(sources, targets, length=max(move.length for move in group))

    def _tensors(self) -> list[Tensor]:
        drawing = [self.counts_S, self.seeds_S, self.temperatures_S, self.top_p_S, self.top_k_S]
        return [self.tokens_S, self.lengths_S, self.agents_S, self.log_probs_S, *drawing]

    def _real(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32).to(self.device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Here:
    tokens_N: Tensor
    log_probs_N: Tensor

    def fetch(self) -> tuple[list[int], list[float]]:
        return self.tokens_N.tolist(), self.log_probs_N.tolist()


@dataclass(frozen=True, slots=True)
class _Move:
    source: int
    target: int
    length: int


def _groups(moves: Sequence[_Move], *, positions: int) -> list[list[_Move]]:
    """Put rows of like length together, as many as have so few positions when padded; at least one each."""
    groups: list[list[_Move]] = []
    for move in sorted(moves, key=lambda move: move.length):
        # Sorted, so the newest is the longest, and decides how much of each row is copied.
        if groups and (len(groups[-1]) + 1) * move.length <= positions:
            groups[-1].append(move)
        else:
            groups.append([move])
    return groups
