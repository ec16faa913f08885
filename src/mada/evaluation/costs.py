"""What systems cost: tokens, calls, parameters, time and money, per question and for the complete evaluation (E3, B1).

Tokens and calls are counted for each question. Time is not: systems share samples and batches, so no clock can tell one
system's seconds from another's. A system's time is an *attribution*: the evaluation's seconds per sampled token, times
the tokens that the system would have sampled alone. It takes every token to cost the same and ignores prompts, so it
compares systems of one evaluation and does not predict how fast a system answers alone. Only `EvaluationCost` has
measured times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mada.evaluation.grid import MEASURES, Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.sample_cache import SampleCounts
from mada.runs import Records

USAGE = "effort"
"""The name of the records in a run."""
SECONDS = 2.0
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Usage:
    """A stretch of time with what engines sampled and read in it; `accelerators` is 0 on a CPU.

    `busy` are the seconds in which an engine had something to do.
    """

    seconds: float
    busy: float
    device: str
    accelerators: int
    completions: int
    generated_tokens: int
    prompt_tokens: int


class UsageMeter:
    """Records usage while engines work; call `record` whenever something is finished.

    `read` returns all that was used so far, its seconds counted from any moment. A kill loses the stretch in progress,
    at most `SECONDS` long.
    """

    def __init__(self, records: Records[Usage], read: Callable[[], Usage]) -> None:
        self._records, self._read = records, read
        self._last = read()

    def record(self, *, now: bool = False) -> None:
        """Record the stretch since the last record, if it is long enough or `now`."""
        current, last = self._read(), self._last
        seconds = current.seconds - last.seconds
        if seconds < SECONDS and not now:
            return
        self._records.append(
            Usage(
                seconds=round(seconds, 3),
                busy=round(current.busy - last.busy, 3),
                device=current.device,
                accelerators=current.accelerators,
                completions=current.completions - last.completions,
                generated_tokens=current.generated_tokens - last.generated_tokens,
                prompt_tokens=current.prompt_tokens - last.prompt_tokens,
            )
        )
        self._last = current


@dataclass(frozen=True, slots=True)
class SystemCost:
    """What a system costs per question, on average over seeds and benchmarks as all averages are.

    Counted: calls and tokens, those of a family as the mean of its members'; `round_tokens` are generated tokens round
    by round. `tokens_per_right_answer` are generated tokens by right verdicts, None where nothing is right.
    `parameters` are those that training changed.

    Attributed, not measured: `seconds`, `accelerator_seconds` and `money`, by the system's share of tokens (see above).
    They are None without a record of what the evaluation took; `accelerator_seconds` also where no accelerator worked,
    and `money` without a price.
    """

    round_tokens: tuple[float, ...]
    calls: float
    generated_tokens: float
    prompt_tokens: float
    tokens_per_right_answer: float | None
    parameters: int | None
    seconds: float | None
    accelerator_seconds: float | None
    money: float | None


@dataclass(frozen=True, slots=True)
class Reuse:
    """What systems requested, and how much of it was computed."""

    requested: int
    computed: int

    @property
    def saved(self) -> float | None:
        """The share that sharing saved, None if nothing was requested; below 0 if a kill made work be done twice."""
        return 1 - self.computed / self.requested if self.requested else None


@dataclass(frozen=True, slots=True)
class EvaluationCost:
    """What a complete evaluation cost: counted or measured; `money` is a measured time at a given price.

    Requests are counted over all scores, replies that did not fit the window included. `busy_seconds` are
    those in which an engine had something to do; `tokens_per_second` are sampled tokens by `seconds`, which are all
    that passed. `accelerator_seconds` is None where the CPU computed.
    """

    completions: Reuse
    generated_tokens: Reuse
    prompt_tokens: Reuse
    seconds: float
    busy_seconds: float
    accelerator_seconds: float | None
    tokens_per_second: float | None
    money: float | None


def system_cost(
    grid: Grid, system: PlannedSystem, *, usage: Sequence[Usage] = (), price_per_hour: float | None = None
) -> SystemCost:
    """Return what a system costs; the price is that of one accelerator, or of the machine while the CPU computed."""
    # In a family, a round that a member does not have costs that member nothing.
    rounds = grid.averages(system, lambda score: dict(enumerate(map(sum, score.tokens))))
    generated = sum(rounds.values())
    accuracy = grid.average(system, MEASURES["verdict"])
    sampled = sum(one.generated_tokens for one in usage)

    def charged(total: float | None) -> float | None:
        """Charge the system's tokens with their share of what all sampled tokens took."""
        return total / sampled * generated if total is not None and sampled else None

    return SystemCost(
        round_tokens=tuple(rounds[number] for number in sorted(rounds)),
        calls=grid.average(system, lambda score: score.calls),
        generated_tokens=generated,
        prompt_tokens=grid.average(system, lambda score: score.prompt_tokens),
        tokens_per_right_answer=generated / accuracy if accuracy else None,
        parameters=system.parameters,
        seconds=charged(sum(one.seconds for one in usage)),
        accelerator_seconds=charged(_accelerator_seconds(usage)),
        money=charged(_money(usage, price_per_hour)),
    )


def evaluation_cost(
    grid: Grid, usage: Sequence[Usage], *, sampled: SampleCounts | None = None, price_per_hour: float | None = None
) -> EvaluationCost:
    """Return what an evaluation cost, and what the sharing of samples saved.

    `sampled` is counted in the samples. The usage has it too, less what kills lost; it has more where the samples, most
    of a run's bytes, were removed.
    """
    scores = grid.scores.values()
    seconds = sum(one.seconds for one in usage)
    timed = sum(one.generated_tokens for one in usage)
    recorded = SampleCounts(sum(one.completions for one in usage), timed)
    sampled = recorded if sampled is None or recorded.completions > sampled.completions else sampled
    return EvaluationCost(
        completions=Reuse(sum(score.calls for score in scores), sampled.completions),
        generated_tokens=Reuse(sum(score.generated_tokens for score in scores), sampled.tokens),
        prompt_tokens=Reuse(sum(score.prompt_tokens for score in scores), sum(one.prompt_tokens for one in usage)),
        seconds=seconds,
        busy_seconds=sum(one.busy for one in usage),
        accelerator_seconds=_accelerator_seconds(usage),
        tokens_per_second=timed / seconds if seconds else None,
        money=_money(usage, price_per_hour),
    )


def _accelerator_seconds(usage: Sequence[Usage]) -> float | None:
    if not any(one.accelerators for one in usage):
        return None
    return sum(one.seconds * one.accelerators for one in usage)


def _money(usage: Sequence[Usage], price_per_hour: float | None) -> float | None:
    """Return the price of all stretches; where no accelerator worked, the machine is paid for."""
    if price_per_hour is None or not usage:
        return None
    return sum(one.seconds * (one.accelerators or 1) for one in usage) * price_per_hour / SECONDS_PER_HOUR
