"""The machine that estimates are for: this one's GPU, or else the machine that was measured."""

import os
from dataclasses import dataclass

import torch

from mada.models.memory import MAX_CPU_MEMORY, cache_share
from mada.pipeline.throughput import CPU, GIB, H200, Throughput

SMALL_MODEL = 100_000_000
"""Parameters up to which a recipe is taken to be meant for a CPU where no GPU is."""
H200_BYTES = 139 * GIB


@dataclass(frozen=True, slots=True)
class Machine:
    """What a model would run on, and how fast such a machine was."""

    words: str
    is_gpu: bool
    memory: int
    throughput: Throughput

    @classmethod
    def for_model(cls, parameters: int) -> "Machine":
        """Choose as a run would: a GPU if one is here; without one, what the model is meant for."""
        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            as_if = "" if "H200" in name else ", times as if it were an H200"
            return cls(f"the {name} here{as_if}", True, torch.cuda.get_device_properties(0).total_memory, H200)
        if parameters > SMALL_MODEL:
            return cls("one H200 (no GPU is here)", True, H200_BYTES, H200)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return cls("a CPU like ours, two shared cores", False, memory, CPU)

    @property
    def kind(self) -> str:
        """What PyTorch calls it."""
        return "cuda" if self.is_gpu else "cpu"

    def cache_budget(self, *, held: int, alone: bool) -> int:
        """Return the bytes that the engine, alone or beside a learner, gives to keys and values."""
        free = max(0, self.memory - held)
        share = cache_share(self.kind, alone=alone)
        return int(share * (free if self.is_gpu else min(free, MAX_CPU_MEMORY)))
