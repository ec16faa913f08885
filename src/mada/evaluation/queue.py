"""The queue of an evaluation: every system on every benchmark, problem and seed, recorded one by one.

Many questions are in progress at once, so that the engine's batch is full; each is recorded when it is answered, in any
order. What is recorded is not done again. Systems of a fixed size go first, because the size of matched ones depends on
what those spent; matched ones go block by block (see `budgets`).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mada.concurrency import each, gather_or_cancel
from mada.debate.prompts import WindowError
from mada.debate.protocol import Agent, run_debate
from mada.debate.transcript import Debate, Response, Turn
from mada.errors import EvaluationError, UnansweredError
from mada.evaluation.budgets import Budgets, blocks
from mada.evaluation.costs import UsageMeter
from mada.evaluation.grid import ScoreKey, score_key
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript, score_debate
from mada.grading import Grader
from mada.problems import Problem
from mada.runs import Run

_log = logging.getLogger(__name__)
AgentNamed = Callable[[str], Agent]
"""Returns the agent of a name in the plan."""


@dataclass(frozen=True, slots=True)
class Item:
    """One question for one system; `number` counts the benchmark's questions over all seeds."""

    system: PlannedSystem
    benchmark: str
    seed: int
    problem: Problem
    number: int

    @property
    def key(self) -> ScoreKey:
        """The key of this item's score."""
        return self.system.name, self.benchmark, self.seed, self.problem.id


class Queue:
    """The items of an evaluation, and which of them are finished."""

    def __init__(
        self,
        run: Run,
        plan: EvaluationPlan,
        problems: Mapping[str, Sequence[Problem]],
        *,
        seeds: int,
        grader: Grader,
        progressed: Callable[[int, int, str], None],
        fail_on_error: float = 0.0,
    ) -> None:
        self._run, self._plan, self._grader, self._progressed = run, plan, grader, progressed
        self._problems, self._seeds = problems, seeds
        self._scores = run.records(SCORES, Score)
        self._transcripts = run.records(TRANSCRIPTS, Transcript)
        self._budgets = Budgets()
        self._systems = {system.name: system for system in plan.evaluated_systems}
        matched = [system for system in plan.evaluated_systems if system.matched_to is not None]
        self._numbers = {item.key: item.number for system in matched for item in self._items(system)}
        self._of = len(plan.evaluated_systems) * seeds * sum(map(len, problems.values()))
        self._finished: set[ScoreKey] = set()
        self._fail_on_error, self._failed = fail_on_error, 0
        self._right: list[bool] = []
        for score in self._scores:
            self._finish(score)
        self._kept = {score_key(one) for one in self._transcripts}
        self._report()

    def pending(self, system: PlannedSystem) -> list[Item]:
        """Return the items that a system has not answered yet."""
        return [item for item in self._items(system) if item.key not in self._finished]

    async def run(
        self,
        systems: Sequence[PlannedSystem],
        *,
        agent_named: AgentNamed,
        at_once: int,
        meter: UsageMeter,
        prompt_price: float | None = None,
    ) -> None:
        """Let systems answer their pending items; those on which others' sizes depend go first."""
        self._budgets.prompt_price = prompt_price
        slots = asyncio.Semaphore(at_once)

        async def answer(item: Item, planned: PlannedSystem) -> None:
            async with slots:
                await self._answer(item, planned, agent_named)
                meter.record()

        fixed = [item for system in systems if system.matched_to is None for item in self.pending(system)]
        await each(_by_question(fixed), lambda item: answer(item, item.system), at_once=at_once)
        matched = [item for system in systems if system.matched_to is not None for item in self.pending(system)]

        async def answer_blocks(benchmark: str) -> None:
            of = self._seeds * len(self._problems[benchmark])
            for block in blocks(of):
                items = [one for one in matched if one.benchmark == benchmark and one.number in block]
                sizes = {
                    system.name: self._budgets.sizes(system, benchmark, block, of=of)
                    for system in systems
                    if any(one.system == system for one in items)
                }
                sized = [
                    (one, one.system.with_generators(sizes[one.system.name][one.number], start=one.number))
                    for one in _by_question(items)
                ]
                await gather_or_cancel([answer(one, planned) for one, planned in sized])

        await gather_or_cancel([answer_blocks(benchmark) for benchmark in self._problems])

    def _items(self, system: PlannedSystem) -> Iterator[Item]:
        for seed in range(self._seeds):
            for benchmark, problems in self._problems.items():
                for index, problem in enumerate(problems):
                    yield Item(system, benchmark, seed, problem, seed * len(problems) + index)

    async def _answer(self, item: Item, planned: PlannedSystem, agent_named: AgentNamed) -> None:
        debate = await run_system(
            planned,
            item.problem.question,
            agent_named=lambda name: _FaultTolerantAgent(agent_named(name)),
            seed=self._run.seed("evaluate", item.benchmark, item.seed, item.problem.id),
        )
        score, debate = await score_debate(
            debate,
            system=planned.name,
            benchmark=item.benchmark,
            seed=item.seed,
            problem=item.problem,
            grader=self._grader,
            rule=planned.rule,
        )
        if score.failed:
            self._allow_failure()
        # The score last: what has one has everything. A killed session may have left a transcript without.
        if item.system.shown and item.system.is_debate and item.key not in self._kept:
            self._transcripts.append(Transcript(*item.key, reference=item.problem.answer, debate=debate))
        self._scores.append(score)
        self._finish(score)
        self._report()

    def _allow_failure(self) -> None:
        """Raise if the server failed to answer too many questions."""
        allowed = math.ceil(self._fail_on_error * self._of)
        if self._failed >= allowed:
            raise EvaluationError(
                f"the server fails to answer more than {allowed:,} of {self._of:,} questions, which "
                f"engine.fail_on_error = {self._fail_on_error:g} allows; see the lines above, fix the server, or "
                "raise engine.fail_on_error (`mada evaluate --fail-on-error`)"
            )

    def _finish(self, score: Score) -> None:
        self._finished.add(score_key(score))
        self._failed += score.failed > 0
        system = self._systems.get(score.system)
        if system is not None and system.matched_to is None:
            self._budgets.add(score)
        elif system is not None and score_key(score) in self._numbers:
            self._budgets.add_matched(score, self._numbers[score_key(score)])
        if score.system == self._plan.reference:
            self._right.append(score.verdict_correct)

    def _report(self) -> None:
        right = self._right
        note = f"{self._plan.reference} {sum(right) / len(right):.1%} right" if right else ""
        self._progressed(len(self._finished), self._of, note)


def _by_question(items: Iterable[Item]) -> list[Item]:
    """Sort by question, not by system: systems that share samples then request them at the same time."""
    return sorted(items, key=lambda item: (item.seed, item.number))


class _FaultTolerantAgent:
    """An agent that gives no answer to what does not fit its window, or what its server fails to answer.

    One such question must not end an evaluation of thousands; it counts as wrong.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._agent.name

    async def answer(self, question: str, seen: Sequence[Response], *, seed: int) -> Turn:
        """Return the agent's turn, or an empty one."""
        try:
            return await self._agent.answer(question, seen, seed=seed)
        except WindowError:
            return Turn(self.name, prompt="", prompt_tokens=0, response=Response("", None, 0, stop="length"))
        except UnansweredError as error:
            _log.warning("a question counts as wrong: %s", error)
            return Turn(self.name, prompt="", prompt_tokens=0, response=Response("", None, 0, stop="failed"))


async def run_system(system: PlannedSystem, question: str, *, agent_named: AgentNamed, seed: int) -> Debate:
    """Return the debate of a system's agents about a question; the verdict is left to its rule.

    A sample's seed depends on the round and the agent's index, or the number of its draw, not on the system: systems
    with the same agent at the same index share its samples.
    """
    return await run_debate(
        question,
        generators=[agent_named(name) for name in system.generators],
        critics=[agent_named(name) for name in system.critics] if system.rounds > 1 else [],
        rounds=system.rounds,
        seed=seed,
        draws=system.draws,
    )
