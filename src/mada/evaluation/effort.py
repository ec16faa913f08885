"""What an evaluation took: stretches of time with what was sampled in them, recorded as it goes on.

Samples are shared between systems, so the time of one system cannot be measured; its share of the tokens is what it can
be charged with (`costs`). A kill loses the stretch under way, at most `SECONDS` long.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from mada.run import Records

EFFORT = "effort"
"""The name of the records in a run."""
SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Effort:
    """A stretch of an evaluation; `accelerators` is 0 where the CPU computed.

    `busy` are the seconds in which an engine had something to do. The counts are of what engines really sampled and
    read; what systems asked for between them is in the scores.
    """

    seconds: float
    busy: float
    device: str
    accelerators: int
    completions: int
    generated_tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Reading:
    """What engines have done since they were made."""

    device: str
    accelerators: int
    busy: float
    completions: int
    generated_tokens: int
    prompt_tokens: int


class Meter:
    """Records the effort of a session while engines work: `tick` it whenever something is finished."""

    def __init__(self, records: Records[Effort], read: Callable[[], Reading]) -> None:
        self._records, self._read = records, read
        self._since, self._last = time.monotonic(), read()

    def tick(self, *, at_once: bool = False) -> None:
        """Record the stretch since the last record, if it is long enough or must be recorded now."""
        seconds = time.monotonic() - self._since
        if seconds < SECONDS and not at_once:
            return
        now, last = self._read(), self._last
        self._records.append(
            Effort(
                seconds=round(seconds, 3),
                busy=round(now.busy - last.busy, 3),
                device=now.device,
                accelerators=now.accelerators,
                completions=now.completions - last.completions,
                generated_tokens=now.generated_tokens - last.generated_tokens,
                prompt_tokens=now.prompt_tokens - last.prompt_tokens,
            )
        )
        self._since, self._last = time.monotonic(), now
