"""The batch on the device: what every slot's next step needs, and the step itself. Axes: S slot, N row, K agent.

A step takes each row's last token, draws the next one and leaves it where the following step finds it, so a step never
waits for the host to look at the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mada.models.adapters.routing import gates
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

    def place(self, rows: Sequence[Row]) -> None:
        """Set up the slots of rows that begin."""
        slots = self._whole([row.slot for row in rows])
        sampling = [row.request.sampling for row in rows]
        unlimited = torch.iinfo(torch.int32).max
        self.agents_S[slots] = self._whole([row.request.agent for row in rows])
        self.lengths_S[slots] = self._whole([len(row.request.prompt_ids) for row in rows])
        self.counts_S[slots] = 0
        self.seeds_S[slots] = self._whole([row_seed(row.request.sampling.seed, row.place) for row in rows])
        self.top_k_S[slots] = self._whole([unlimited if each.top_k is None else each.top_k for each in sampling])
        self.temperatures_S[slots] = self._real([each.temperature for each in sampling])
        self.top_p_S[slots] = self._real([each.top_p for each in sampling])

    def begin(self, rows: Sequence[Row], logits_NV: Tensor, *, filtered: bool) -> Drawn:
        """Draw the first token of rows that begin, from the logits after their prompts."""
        slots = self._whole([row.slot for row in rows])
        tokens, log_probs = self.draw(logits_NV, self._settings(slots), filtered=filtered)
        self.tokens_S[slots] = tokens
        self.counts_S[slots] = 1
        return self.hand_over(tokens, log_probs)

    def step(self, count: int, *, longest: int, filtered: bool) -> Drawn:
        """Draw the next token of the first `count` slots."""
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
        # A row that has ended may be stepped once more before the host knows; it must stay inside its slot.
        self.lengths_S[:count] = (self.lengths_S[:count] + 1).clamp_(max=self.cache.context - 1)
        self.counts_S[:count] += 1

    def draw(self, logits_NV: Tensor, settings: DrawSettings, *, filtered: bool) -> tuple[Tensor, Tensor]:
        """Draw one token per row."""
        return draw(logits_NV, settings, filtered=filtered)

    def move(self, sources: Sequence[int], targets: Sequence[int], *, lengths: Sequence[int]) -> None:
        """Move rows into other slots, with everything that belongs to them."""
        for source, target, length in zip(sources, targets, lengths, strict=True):
            self.cache.copy(source, [target], length=length)
        from_, to = self._whole(sources), self._whole(targets)
        for tensor in self._tensors():
            tensor[to] = tensor[from_]

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

    def _tensors(self) -> list[Tensor]:
        drawing = [self.counts_S, self.seeds_S, self.temperatures_S, self.top_p_S, self.top_k_S]
        return [self.tokens_S, self.lengths_S, self.agents_S, self.log_probs_S, *drawing]

    def _whole(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long).to(self.device, non_blocking=True)

    def _real(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32).to(self.device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Here:
    tokens_N: Tensor
    log_probs_N: Tensor

    def fetch(self) -> tuple[list[int], list[float]]:
        return self.tokens_N.tolist(), self.log_probs_N.tolist()
