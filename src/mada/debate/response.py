"""One reply of an agent, as every other part of mada sees it."""

from dataclasses import dataclass
from typing import Literal

StopReason = Literal["end", "length", "cancelled", "failed"]
"""How a reply ended; failed means that a server filtered it, gave it up, or never gave it."""


@dataclass(frozen=True, slots=True)
class Response:
    """What an agent said, the answer found in it, and how it ended.

    `answer` is `None` when there is no final answer; `token_count` is the number of generated tokens, which the
    length reward and the cost accounting use; `token_ids` and `log_probs` are there when they were kept;
    `mean_log_prob`, over the generated tokens, when the engine gives it.
    """

    text: str
    answer: str | None
    token_count: int
    stop: StopReason = "end"
    token_ids: tuple[int, ...] | None = None
    log_probs: tuple[float, ...] | None = None
    mean_log_prob: float | None = None

    @property
    def truncated(self) -> bool:
        """Whether the token limit cut the reply off, so that readers of it can be told."""
        return self.stop == "length"
