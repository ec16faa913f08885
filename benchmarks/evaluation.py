"""Problems per second of debates on a CPU: coroutines on one engine, against rounds with barriers.

    python benchmarks/evaluation.py [--lengths model lognormal] [--questions 20] [--rows 12] [--repeats 3] [--threads 1]

Three generators and three critics on the embedded model (a blank adapter in every seat, so that it answers as it does
by itself) debate problems of all four abacus benchmarks in two rounds. There are three ways to the same debates:

- mada: every debate is a coroutine (`run_debate`) and many are under way (`each`). A critic begins when its own three
  generators have ended, in the row that somebody else's generator has left.
- batches: round by round with full barriers, as a pipeline of static batches does it. As many questions as fill the
  engine's rows are taken; all their generators answer, then all their critics, then come the next questions.
- rounds: kinder, one barrier in all. The generators answer all questions, with the engine refilling its rows, then the
  critics.

All have the same engine with the same rows, the same questions and seeds, and come to the same debates, word by word:
the table says how many are equal, and fewer than nine in ten are an error (a batch of another size may round a sum
otherwise, and once in many thousand draws that is another token). The rivals are spared what static batches really
cost: in this engine a row that has ended is no longer computed, where a padded batch computes it until the longest is
done. Votes and grades are left out: they are the same for all.

Two kinds of lengths:

- model: replies end where the model ends them. Worked arithmetic is of even length, so this shows the least gain.
- lognormal: every request has a length of its own, drawn by its seed: log-normal with σ = 1, cut off at 6.5 times the
  mean, and no token ends a reply. These are the proportions of reasoning models: the paper counts 30,221 tokens for the
  six calls of a question, a mean of 5,037, and cuts replies off at 32,768. The spread σ is our choice, not its.

Few rows are the default, because then a step costs nearly the same however many rows are alive, as on a GPU: on one
core 12 rows of so small a model cost little more than 4. Many rows cost in proportion to their number, so that ending
a row early is worth as much as filling it, and the gain shrinks (try --rows 48).

Rounds are interleaved after a short warm-up, and a ratio is the median of the ratios of the rounds. With one thread
the clock is the processor time of this process, which is the wall clock's on a free core; with more it is the wall's.
"""

import argparse
import asyncio
import math
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mada.agents import DebateSettings, agent_names
from mada.concurrency import each
from mada.debate.protocol import run_debate
from mada.debate.transcript import Debate, Role
from mada.models.adapters import AdapterStack, Lora
from mada.models.engine_agent import EngineAgent
from mada.models.engines import Completion, Engine, Live, Sampling
from mada.models.engines.local import LocalEngine
from mada.models.forward import set_threads
from mada.models.loading import ChatModel, load_base
from mada.problems import load_problems
from mada.seeds import seed_for

BENCHMARKS = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")
SEATS = 3
WINDOW, MOST_NEW_TOKENS = 512, 208
MEAN_LENGTH, SPREAD = MOST_NEW_TOKENS / 6.5, 1.0
EQUAL_ENOUGH = 0.9
WAYS = ("mada", "batches", "rounds")


class DrawnLengths:
    """An engine whose replies are as long as a log-normal draw by the request's seed says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # A log-normal variable's mean is its median times exp(σ² / 2).
        self._median = MEAN_LENGTH / math.exp(SPREAD**2 / 2)

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        drawn = round(self._median * random.Random(sampling.seed).lognormvariate(0, SPREAD))
        length = min(max(1, drawn), sampling.max_tokens)
        sampling = replace(sampling, max_tokens=length, stop_tokens=())
        return await self._engine.sample(agent, prompt_ids, sampling, n=n, live=live)

    async def sleep(self) -> None:
        await self._engine.sleep()

    async def wake_up(self) -> None:
        await self._engine.wake_up()

    async def close(self) -> None:
        await self._engine.close()


@dataclass(frozen=True)
class Pipeline:
    """The questions, who debates them, and the three ways to have them debated."""

    questions: Sequence[str]
    generators: Sequence[EngineAgent]
    critics: Sequence[EngineAgent]
    engine: LocalEngine

    def seed(self, index: int) -> int:
        return seed_for(0, "debate", index)

    async def mada(self) -> list[Debate]:
        done: dict[int, Debate] = {}

        async def debate(index: int) -> None:
            done[index] = await run_debate(
                self.questions[index],
                generators=self.generators,
                critics=self.critics,
                rounds=2,
                seed=self.seed(index),
            )

        indices = range(len(self.questions))
        # A debate asks for three completions at once, so three times what fills the rows waits, and none stays empty.
        await each(indices, debate, at_once=min(len(indices), self.engine.slots))
        return [done[index] for index in indices]

    async def batches(self) -> list[Debate]:
        size = max(1, self.engine.slots // SEATS)
        indices = range(len(self.questions))
        parts = [indices[start : start + size] for start in range(0, len(indices), size)]
        return list(chain.from_iterable([await self._round_by_round(part) for part in parts]))

    async def rounds(self) -> list[Debate]:
        return await self._round_by_round(range(len(self.questions)))

    async def _round_by_round(self, indices: Sequence[int]) -> list[Debate]:
        debates = [Debate(self.questions[index]) for index in indices]
        roles: list[tuple[Role, Sequence[EngineAgent]]] = [("generator", self.generators), ("critic", self.critics)]
        for number, (role, agents) in enumerate(roles, start=1):
            turns = await asyncio.gather(
                *(
                    agent.answer(
                        debate.question,
                        debate.last.responses if debate.rounds else (),
                        seed=seed_for(self.seed(index), "turn", number, seat),
                    )
                    for index, debate in zip(indices, debates, strict=True)
                    for seat, agent in enumerate(agents)
                )
            )
            debates = [
                debate.with_round(role, turns[first : first + len(agents)])
                for first, debate in zip(range(0, len(turns), len(agents)), debates, strict=True)
            ]
        return debates


@dataclass(frozen=True)
class Measured:
    """What a way took in one round, and how full it kept the engine."""

    seconds: float
    rows_per_step: float
    debates: list[Debate]


def pipeline_of(lengths: str, *, questions: int, rows: int, threads: int) -> Pipeline:
    base = load_base("mada-nano", device="cpu")
    set_threads(base.model, threads)
    generators, critics = agent_names("generator", SEATS), agent_names("critic", SEATS)
    stack = AdapterStack.attach(base.model, (*generators, *critics), Lora(rank=4, alpha=8, dropout=0.0))
    engine = LocalEngine(base.model, stack, context=WINDOW, rows=rows)
    settings = DebateSettings(max_new_tokens=MOST_NEW_TOKENS)

    def agent(name: str) -> EngineAgent:
        sampler = engine if lengths == "model" else DrawnLengths(engine)
        return settings.agent(name, name, engine=sampler, chat=ChatModel.of(base), window=WINDOW)

    each_has = -(-questions // len(BENCHMARKS))
    problems = zip(*(load_problems(name, limit=each_has) for name in BENCHMARKS), strict=True)
    mixed = [problem.question for four in problems for problem in four][:questions]
    return Pipeline(mixed, [agent(name) for name in generators], [agent(name) for name in critics], engine)


def measure(pipeline: Pipeline, way: Callable[[], Awaitable[list[Debate]]], clock: Callable[[], float]) -> Measured:
    async def debated() -> list[Debate]:
        return await way()

    before = replace(pipeline.engine.statistics)
    started = clock()
    debates = asyncio.run(debated())
    seconds = clock() - started
    after = pipeline.engine.statistics
    return Measured(seconds, (after.rows_stepped - before.rows_stepped) / (after.steps - before.steps), debates)


def compare(pipeline: Pipeline, repeats: int, clock: Callable[[], float]) -> list[dict[str, Measured]]:
    """Measure every way in interleaved rounds, after a few questions to warm up."""
    asyncio.run(replace(pipeline, questions=pipeline.questions[: len(BENCHMARKS)]).rounds())
    ways = {name: getattr(pipeline, name) for name in WAYS}
    return [{name: measure(pipeline, way, clock) for name, way in ways.items()} for _ in range(repeats)]


def equal_share(taken: Sequence[list[Debate]], expected: list[Debate]) -> float:
    """Return the share of debates that are the expected ones, or refuse a way that comes to other ones."""
    equal = [one == other for debates in taken for one, other in zip(debates, expected, strict=True)]
    share = sum(equal) / len(equal)
    assert share >= EQUAL_ENOUGH, f"only {share:.0%} of the debates are equal"
    return share


def describe(lengths: str, debates: Sequence[Debate]) -> str:
    tokens = [turn.response.token_count for debate in debates for one in debate.rounds for turn in one.turns]
    return (
        f"lengths: {lengths}; replies of {statistics.mean(tokens):.0f} ± {statistics.stdev(tokens):.0f} tokens "
        f"(mean ± standard deviation), median {statistics.median(tokens):.0f}, longest {max(tokens)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", choices=("model", "lognormal"), default=["model", "lognormal"])
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    ratios: dict[tuple[str, str], float] = {}
    for lengths in options.lengths:
        pipeline = pipeline_of(lengths, questions=options.questions, rows=options.rows, threads=options.threads)
        rounds = compare(pipeline, options.repeats, clock)
        expected = rounds[0]["mada"].debates
        print(describe(lengths, expected))
        print(f"{'':<10}{'problems/s':>12}{'rows/step':>12}{'equal':>8}{'mada is':>10}")
        for name in WAYS:
            rate = statistics.median(len(pipeline.questions) / taken[name].seconds for taken in rounds)
            ratio = statistics.median(taken[name].seconds / taken["mada"].seconds for taken in rounds)
            equal = equal_share([taken[name].debates for taken in rounds], expected)
            rows = rounds[0][name].rows_per_step
            print(f"{name:<10}{rate:>12.2f}{rows:>12.1f}{equal:>8.0%}{f'{ratio:.2f}×':>10}", flush=True)
            ratios[lengths, name] = ratio
        print()
    for lengths in options.lengths:
        print(f"ratio: {ratios[lengths, 'rounds']:.2f} (mada against one barrier between rounds, lengths: {lengths})")
        print(f"ratio: {ratios[lengths, 'batches']:.2f} (mada against barriers round by round, lengths: {lengths})")


if __name__ == "__main__":
    main()
