"""The batch on the device: the tensors of every slot, and the decoding step. Axes: S slot, N row, K agent.

A step takes each row's last token, draws the next one and leaves it where the following step finds it, so a step never
waits for the host to read the tokens of the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mada.models.adapters.layer import gates
from mada.models.engines.local.network import KVCache, Network
from mada.models.engines.local.requests import Row
from mada.models.engines.local.sampling import SamplingTensors, row_seed, sample_tokens


class SampledTokens(Protocol):
    """Tokens that are sampled, or being sampled on the device."""

    def fetch(self) -> tuple[list[int], list[float]]:
        """Wait for them; return tokens and log-probabilities, one per row."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceTokens:
    """Tokens that are copied to the host when they are fetched."""

    tokens_N: Tensor
    log_probs_N: Tensor

    def fetch(self) -> tuple[list[int], list[float]]:
        """Return tokens and log-probabilities, one per row."""
        return self.tokens_N.tolist(), self.log_probs_N.tolist()


class Batch:
    """The state of all slots, as tensors on the model's device."""

    move_tokens = 0
    """Cache positions moved in one launch, padding included. On a CPU launches are free and rows move one by one."""

    def __init__(self, network: Network, cache: KVCache, *, scale_K: Tensor | None) -> None:
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
        # One agent per slot, −1 for the bare base.
        self.agents_S = torch.full((slots,), -1, dtype=torch.long, device=device)

    def gate(self, agents_N: Tensor) -> Tensor | None:
        """Return the rows' adapter gates, None without adapters."""
        return None if self.scale_K is None else gates(agents_N, self.scale_K)

    def padded_size(self, count: int) -> int:
        """Return how many slots a step over the first `count` computes."""
        return count

    def add(self, rows: Sequence[Row]) -> None:
        """Set up the slots of new rows."""
        slots = self.integers([row.slot for row in rows])
        sampling = [row.request.sampling for row in rows]
        unlimited = torch.iinfo(torch.int32).max
        self.agents_S[slots] = self.integers([row.request.agent for row in rows])
        self.lengths_S[slots] = self.integers([len(row.request.prompt_ids) for row in rows])
        self.counts_S[slots] = 0
        self.seeds_S[slots] = self.integers([row_seed(row.request.sampling.seed, row.index) for row in rows])
        self.top_k_S[slots] = self.integers([unlimited if each.top_k is None else each.top_k for each in sampling])
        self.temperatures_S[slots] = self._floats([each.temperature for each in sampling])
        self.top_p_S[slots] = self._floats([each.top_p for each in sampling])

    def sample_first(self, rows: Sequence[Row], logits_NV: Tensor, *, filtered: bool) -> SampledTokens:
        """Draw the first token of new rows, from the logits after their prompts."""
        slots = self.integers([row.slot for row in rows])
        tokens, log_probs = self.sample(logits_NV, self._settings(slots), filtered=filtered)
        self.tokens_S[slots] = tokens
        self.counts_S[slots] = 1
        return self.copy_to_host(tokens, log_probs)

    def step(self, count: int, *, longest: int, filtered: bool) -> SampledTokens:
        """Draw the next token of the first `count` slots; the tokens of idle slots mean nothing."""
        self.forward(count, longest=longest, filtered=filtered)
        return self.copy_to_host(self.tokens_S[:count], self.log_probs_S[:count])

    def forward(self, count: int, *, longest: int, filtered: bool) -> None:
        """Do one step on the device, from the batch's tensors into the batch's tensors."""
        logits_NV = self.network.decode(
            self.tokens_S[:count],
            self.lengths_S[:count],
            self.gate(self.agents_S[:count]),
            self.cache,
            longest=longest,
        )
        tokens, log_probs = self.sample(logits_NV, self._settings(slice(count)), filtered=filtered)
        self.tokens_S[:count] = tokens
        self.log_probs_S[:count] = log_probs
        # An idle slot may be stepped for long; it must stay inside its context.
        self.lengths_S[:count] = (self.lengths_S[:count] + 1).clamp_(max=self.cache.context - 1)
        self.counts_S[:count] += 1

    def sample(self, logits_NV: Tensor, settings: SamplingTensors, *, filtered: bool) -> tuple[Tensor, Tensor]:
        """Draw one token per row."""
        return sample_tokens(logits_NV, settings, filtered=filtered)

    def move(self, sources: Sequence[int], targets: Sequence[int], *, lengths: Sequence[int]) -> None:
        """Move rows into free slots, with everything that belongs to them; no target may be a source."""
        groups: list[list[tuple[int, int, int]]] = []
        for length, source, target in sorted(zip(lengths, sources, targets, strict=True)):
            # Sorted, so the newest is the longest, and decides how much of each row is copied.
            if groups and (len(groups[-1]) + 1) * length <= self.move_tokens:
                groups[-1].append((length, source, target))
            else:
                groups.append([(length, source, target)])
        for group in groups:
            _, group_sources, group_targets = zip(*group, strict=True)
            if len(group) == 1:
                self.cache.move(group_sources[0], group_targets[0], length=group[-1][0])
            else:
                from_, to = self.integers(group_sources), self.integers(group_targets)
                self.cache.move_together(from_, to, length=group[-1][0])
        from_, to = self.integers(sources), self.integers(targets)
        for tensor in self._tensors():
            tensor[to] = tensor[from_]

    def clear(self, slots: Sequence[int]) -> None:
        """Reset idle slots to position 0, so that their attention reads little."""
        self.lengths_S.index_fill_(0, self.integers(slots), 0)

    def integers(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Copy integers to the device without waiting for it."""
        # Prompts are many numbers, and NumPy reads lists three times as fast as torch does.
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self.device, non_blocking=True)

    def copy_to_host(self, tokens_N: Tensor, log_probs_N: Tensor) -> SampledTokens:
        """Hand sampled tokens to the host."""
        return DeviceTokens(tokens_N.clone(), log_probs_N.clone())

    def _settings(self, slots: Tensor | slice) -> SamplingTensors:
        return SamplingTensors(
            temperature_N=self.temperatures_S[slots],
            top_p_N=self.top_p_S[slots],
            top_k_N=self.top_k_S[slots],
            seed_N=self.seeds_S[slots],
            count_N=self.counts_S[slots],
        )

    def _tensors(self) -> list[Tensor]:
        sampling = [self.counts_S, self.seeds_S, self.temperatures_S, self.top_p_S, self.top_k_S]
        return [self.tokens_S, self.lengths_S, self.agents_S, self.log_probs_S, *sampling]

    def _floats(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32).to(self.device, non_blocking=True)
