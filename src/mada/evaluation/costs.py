"""What systems cost: tokens, calls, parameters, time and money, per question and for the whole evaluation (E3, B1).

Tokens and calls are counted, question by question. Time is not: systems share samples, and their samples are drawn in
the same batches, so no clock can tell one system's seconds from another's. What is charged to a system is an
*attribution*: the evaluation's seconds per token really sampled, times the tokens that the system would have sampled
alone. It takes every token to be equally dear and leaves the reading of prompts out, so it is good for comparing
systems of one evaluation, and no prediction of how fast a system answers by itself. Only
`EvaluationCost` has measured times.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mada.debate.transcript import Role
from mada.evaluation.grid import MEASURES, Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.sample_cache import SampleCounts
from mada.run import Records

USAGE = "effort"
"""The name of the records in a run."""
SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Usage:
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
class EngineUsage:
    """What engines have done since they were made."""

    device: str
    accelerators: int
    busy: float
    completions: int
    generated_tokens: int
    prompt_tokens: int


class UsageMeter:
    """Records the effort of a session while engines work: `tick` it whenever something is finished."""

    def __init__(self, records: Records[Usage], read: Callable[[], EngineUsage]) -> None:
        self._records, self._read = records, read
        self._since, self._last = time.monotonic(), read()

    def record(self, *, now: bool = False) -> None:
        """Record the stretch since the last record, if it is long enough or must be recorded now."""
        seconds = time.monotonic() - self._since
        if seconds < SECONDS and not now:
            return
        current, last = self._read(), self._last
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
        self._since, self._last = time.monotonic(), current


SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round takes per question: generators speak in round 1, critics from round 2 on."""

    number: int
    role: Role
    calls: float
    generated_tokens: float
    prompt_tokens: float


@dataclass(frozen=True, slots=True)
class SystemCost:
    """What a system costs per question, on average over seeds and benchmarks as all averages are.

    Counted: calls and tokens, those of a family as the mean of its members'. `tokens_per_right_answer` are generated
    tokens by right verdicts, None where nothing is right. `parameters` are those that training changed.

    Attributed, not measured: `seconds`, `accelerator_seconds` and `money`, by the system's share of tokens (see above).
    They are None without a record of what the evaluation took; `accelerator_seconds` also where no accelerator worked,
    and `money` without a price.
    """

    rounds: tuple[RoundCost, ...]
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
    """What systems asked for between them, and how much of it was really computed."""

    requested: int
    computed: int

    @property
    def saved(self) -> float | None:
        """The share that sharing spared, None if nothing was asked for.

        Below 0 if more was computed than the scores account for: work that a kill lost is done twice.
        """
        return 1 - self.computed / self.requested if self.requested else None


@dataclass(frozen=True, slots=True)
class EvaluationCost:
    """What a whole evaluation took. All of it is counted or measured; only `money` is a measured time at a given price.

    What was asked for is counted over all scores, replies that did not fit the window included. `busy_seconds` are
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
    grid: Grid,
    system: PlannedSystem,
    *,
    efforts: Sequence[Usage] = (),
    price_per_hour: float | None = None,
) -> SystemCost:
    """Say what a system costs; the price is that of one accelerator, or of the machine while the CPU computed."""
    rounds = _round_costs(grid, system)
    generated = sum(one.generated_tokens for one in rounds)
    accuracy = grid.average(system, MEASURES["verdict"])
    return SystemCost(
        rounds=rounds,
        calls=sum(one.calls for one in rounds),
        generated_tokens=generated,
        prompt_tokens=sum(one.prompt_tokens for one in rounds),
        tokens_per_right_answer=generated / accuracy if accuracy else None,
        parameters=system.parameters,
        seconds=_charged(sum(effort.seconds for effort in efforts), generated, efforts=efforts),
        accelerator_seconds=_charged(_accelerator_seconds(efforts), generated, efforts=efforts),
        money=_charged(_money(efforts, price_per_hour), generated, efforts=efforts),
    )


def evaluation_cost(
    grid: Grid, efforts: Sequence[Usage], *, sampled: SampleCounts | None = None, price_per_hour: float | None = None
) -> EvaluationCost:
    """Say what an evaluation took, and what the sharing of samples spared it.

    `sampled` is counted in the samples. The efforts say it too, less what kills made them lose; they say more where
    somebody has removed the samples, which are most of a run's bytes.
    """
    scores = grid.scores.values()
    seconds = sum(effort.seconds for effort in efforts)
    timed = sum(effort.generated_tokens for effort in efforts)
    told = SampleCounts(sum(effort.completions for effort in efforts), timed)
    sampled = told if sampled is None or told.completions > sampled.completions else sampled
    return EvaluationCost(
        completions=Reuse(sum(score.calls for score in scores), sampled.completions),
        generated_tokens=Reuse(sum(score.generated_tokens for score in scores), sampled.tokens),
        prompt_tokens=Reuse(
            sum(score.prompt_tokens for score in scores), sum(effort.prompt_tokens for effort in efforts)
        ),
        seconds=seconds,
        busy_seconds=sum(effort.busy for effort in efforts),
        accelerator_seconds=_accelerator_seconds(efforts),
        tokens_per_second=timed / seconds if seconds else None,
        money=_money(efforts, price_per_hour),
    )


def _round_costs(grid: Grid, system: PlannedSystem) -> tuple[RoundCost, ...]:
    """Return the costs of every round; of a family, a round that a member does not hold costs that member nothing."""
    calls = grid.averages(system, lambda score: dict(enumerate(map(len, score.tokens), start=1)))
    generated = grid.averages(system, lambda score: dict(enumerate(map(sum, score.tokens), start=1)))
    prompts = grid.averages(system, lambda score: dict(enumerate(map(sum, score.prompts), start=1)))
    return tuple(
        RoundCost(number, "generator" if number == 1 else "critic", calls[number], generated[number], prompts[number])
        for number in sorted(calls)
    )


def _charged(total: float | None, tokens: float, *, efforts: Sequence[Usage]) -> float | None:
    """Charge so many tokens with their share of what all sampled tokens took."""
    sampled = sum(effort.generated_tokens for effort in efforts)
    return total / sampled * tokens if total is not None and sampled else None


def _accelerator_seconds(efforts: Sequence[Usage]) -> float | None:
    if not any(effort.accelerators for effort in efforts):
        return None
    return sum(effort.seconds * effort.accelerators for effort in efforts)


def _money(efforts: Sequence[Usage], price_per_hour: float | None) -> float | None:
    """Return the price of all stretches; where no accelerator worked, the machine is paid for."""
    if price_per_hour is None or not efforts:
        return None
    return sum(effort.seconds * (effort.accelerators or 1) for effort in efforts) * price_per_hour / SECONDS_PER_HOUR
