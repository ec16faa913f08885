"""What lies between the engine and vLLM: how it is started, what it gives, and what is asked of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mada.models.engines.engine import Sampling
from mada.models.engines.vllm.handover import Version


@dataclass(frozen=True, slots=True)
class Settings:
    """What vLLM is started with."""

    model: str
    revision: str | None
    dtype: str
    context: int
    rows: int
    memory: float
    """Share of the GPU's whole memory."""
    seed: int
    agents: int = 0
    """How many adapters there are at the same time; none: the bare base only."""
    rank: int = 1
    """The largest rank among them."""
    sleeps: bool = False
    eager: bool = False


@dataclass(frozen=True, slots=True)
class Generated:
    """One completion as vLLM gives it."""

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    reason: str
    """`stop` for a stop token, `length`, or whatever else ended it."""
    prompt_tokens: int
    """Tokens of the prompt that were read, not found in the prefix cache."""


class Backend(Protocol):
    """What the engine asks of vLLM. Whatever goes wrong is an EngineError."""

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        ...

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, seed: int, limit: int, version: Version | None
    ) -> Generated:
        """Sample one completion; being cancelled takes it out of the batch."""
        ...

    async def load(self, version: Version) -> None:
        """Load an adapter, so that the first request with it need not wait."""
        ...

    async def unload(self, version: Version) -> None:
        """Forget an adapter."""
        ...

    async def sleep(self) -> None:
        """Give back the GPU's memory: weights go to the host, cached keys and values are dropped."""
        ...

    async def wake_up(self) -> None:
        """Take the memory again."""
        ...

    async def close(self) -> None:
        """End vLLM's process."""
        ...
