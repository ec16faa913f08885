"""Stage 5, evaluate: the trained team and its untrained rivals on every benchmark, seed by seed (E1, I1–I4).

The unit of work is a problem with a seed: all systems answer it, what they have in common is sampled once, and the
scores are appended together. An interruption costs the problems under way.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from mada.concurrency import all_or_none
from mada.debate.verdict import vote
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript, score_debate
from mada.evaluation.sharing import SharingEngine
from mada.evaluation.systems import System
from mada.grading import Grader
from mada.models.engines import Engine
from mada.pipeline.context import Context, Workshop, each, workshop
from mada.problems import Problem, load_problems
from mada.team.agent import EngineAgent

TEAM = "mada"


@dataclass(frozen=True, slots=True)
class Item:
    """One problem to be answered by all systems with one seed."""

    benchmark: str
    seed: int
    problem: Problem

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells this item from the others."""
        return self.benchmark, self.seed, self.problem.id


async def evaluate(context: Context) -> dict[str, JsonValue]:
    """Have every system answer every problem with every seed, and record how right it was."""
    items = _items(context)
    async with workshop(context, (*context.seats("generator"), *context.seats("critic")), trained=True) as shop:
        plan = EvaluationPlan.of(
            systems_of(context, shop, shop.engine), reference=TEAM, benchmarks=context.recipe.evaluation.benchmarks
        )
        context.run.write_text(PLAN_FILE, plan.to_json())
        with context.grader() as grader:
            work = _Work(context, shop, grader, of=len(items))
            missing = [item for item in items if item.key not in work.finished]
            # A problem asks for a dozen completions at once and for more later, so these fill the engine.
            await each(missing, work.answer, at_once=max(1, shop.engine.slots // 12))
    return {
        "problems": len(items),
        "completions wanted in this session": work.asked,
        "of these sampled": work.sampled,
        "mean accuracy of the team": work.team_accuracy,
    }


def systems_of(context: Context, shop: Workshop, engine: Engine) -> tuple[System, ...]:
    """Return the systems of the headline table, from the bare model to the trained team.

    The votes have as many calls as the debates, and the untrained rivals are the same base without adapters.
    """
    rounds = context.recipe.team.rounds
    names = context.seats("generator"), context.seats("critic")
    calls = len(names[0]) + (rounds - 1) * len(names[1])

    def seat(name: str, adapter: str | None) -> EngineAgent:
        return context.agent(shop, name, adapter, engine=engine)

    bare = [seat(f"base-{number}", None) for number in range(1, calls + 1)]
    bare_critics = tuple(seat(f"base-critic-{number}", None) for number in range(1, len(names[1]) + 1))
    trained = tuple(seat(name, name) for name in names[0])
    voters = tuple(trained[place % len(trained)] for place in range(calls))
    critics = tuple(seat(name, name) for name in names[1])
    systems = (
        System("single", "single agent, untrained", (bare[0],)),
        System("vote", f"vote of {calls}, untrained", tuple(bare), measure="vote"),
        System("debate", "debate, untrained", tuple(bare[: len(trained)]), bare_critics, rounds=rounds),
        System("generators", "generators, trained", trained),
        System("trained-vote", f"vote of {calls}, trained generators", voters, measure="vote"),
        System(TEAM, "MADA debate", trained, critics, rounds=rounds),
    )
    return tuple(system for system in systems if system.name in context.recipe.evaluation.systems)


def _items(context: Context) -> list[Item]:
    evaluation = context.recipe.evaluation
    problems = {
        name: load_problems(name, folder=context.recipe.data.folder, limit=evaluation.problems)
        for name in evaluation.benchmarks
    }
    return [
        Item(name, seed, problem)
        for seed in range(evaluation.seeds)
        for name in evaluation.benchmarks
        for problem in problems[name]
    ]


class _Work:
    """Answers items, and knows which are finished."""

    def __init__(self, context: Context, shop: Workshop, grader: Grader, *, of: int) -> None:
        self._context, self._shop, self._grader, self._of = context, shop, grader, of
        self._scores = context.run.records(SCORES, Score)
        self._transcripts = context.run.records(TRANSCRIPTS, Transcript)
        self.finished: set[tuple[str, int, str]] = set()
        self.asked = self.sampled = 0
        self._team: list[float] = []
        for score in self._scores:
            self.finished.add((score.benchmark, score.seed, score.problem))
            if score.system == TEAM:
                self._team.append(score.accuracy)
        self._kept = {(one.system, one.benchmark, one.seed, one.problem) for one in self._transcripts}
        self._report()

    @property
    def team_accuracy(self) -> float | None:
        """How often the team's answers were right so far."""
        return sum(self._team) / len(self._team) if self._team else None

    async def answer(self, item: Item) -> None:
        engine = SharingEngine(self._shop.engine)
        systems = systems_of(self._context, self._shop, engine)
        done = await all_or_none([self._debated(system, item) for system in systems])
        transcripts = [transcript for transcript, _ in done if self._is_kept(transcript)]
        # Scores last and in one write: an item with scores has everything.
        self._transcripts.extend(transcripts)
        self._scores.extend(score for _, score in done)
        self.finished.add(item.key)
        self._team += [score.accuracy for _, score in done if score.system == TEAM]
        self.asked += engine.asked
        self.sampled += engine.sampled
        self._report()

    async def _debated(self, system: System, item: Item) -> tuple[Transcript, Score]:
        seed = self._context.run.seed("evaluate", item.benchmark, item.seed, item.problem.id)
        debate = await system.debate(item.problem.question, seed=seed)
        debate = debate.with_verdict(await vote([one.responses for one in debate.rounds], grader=self._grader))
        score = await score_debate(
            debate,
            system=system.name,
            benchmark=item.benchmark,
            seed=item.seed,
            problem=item.problem,
            grader=self._grader,
        )
        reference = item.problem.answer
        return Transcript(system.name, item.benchmark, item.seed, item.problem.id, reference, debate), score

    def _is_kept(self, transcript: Transcript) -> bool:
        """Keep debates; of votes and single answers the scores say enough. A killed session may have kept some."""
        key = (transcript.system, transcript.benchmark, transcript.seed, transcript.problem)
        return len(transcript.debate.rounds) > 1 and key not in self._kept

    def _report(self) -> None:
        accuracy = self.team_accuracy
        note = f"team {accuracy:.1%} right" if accuracy is not None else ""
        self._context.watch.progressed(len(self.finished), self._of, note)
