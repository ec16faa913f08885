"""Systems, shared samples, scores and summary together, with agents whose knowledge is known."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest

from mada.debate.transcript import Response, Turn
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.queue import run_system
from mada.evaluation.sample_cache import CachingEngine
from mada.evaluation.scores import score_debate
from mada.evaluation.summary import summarize
from mada.evaluation.systems import debate_system, majority_vote, single_agents
from mada.models.engines import ScriptedEngine
from mada.models.engines.engine import Sampling
from mada.problems import Problem

PROBLEMS = [Problem(f"question {number}", "4", f"p{number}", "test") for number in range(4)]
# Problems that each model gets right: the vote of the three is right about 0 and 1.
KNOWLEDGE = {"first": {0, 1, 2}, "second": {0, 1}, "third": {0, 3}}


@dataclass
class Seat:
    """Asks an engine, which answers with one token: the number that it says."""

    name: str
    engine: CachingEngine

    async def answer(self, question, seen, *, seed):
        prompt = [int(question.split()[1]), *(int(response.answer) for response in seen)]
        [completion] = await self.engine.sample(self.name, prompt, Sampling(max_tokens=1, seed=seed))
        said = str(completion.token_ids[0])
        return Turn(self.name, question, len(prompt), Response(said, said, len(completion.token_ids)))


def script(request):
    """Generators say 4 if they know the problem, else 5. The critic finds a single 4, except in problem 0."""
    number, *seen = request.prompt_ids
    if request.agent == "critic":
        return [4 if 4 in seen and number != 0 else 5]
    return [4 if number in KNOWLEDGE[request.agent] else 5]


PLAN = EvaluationPlan.of(
    [
        single_agents("single", "single", ["first"]),
        majority_vote("vote", "vote", list(KNOWLEDGE)),
        debate_system("debate", "debate", list(KNOWLEDGE), critics=["critic"] * 2, rounds=2),
    ],
    reference="single",
)


async def evaluated(grader):
    below, counts, scores = ScriptedEngine(script), Counter[str](), []
    for seed in (0, 1):
        for problem in PROBLEMS:
            engine = CachingEngine(below)
            seat = partial(Seat, engine=engine)
            systems = PLAN.evaluated_systems
            debates = await asyncio.gather(
                *(run_system(one, problem.question, agent_named=seat, seed=seed) for one in systems)
            )
            for system, debate in zip(systems, debates, strict=True):
                where = {"system": system.name, "benchmark": "test", "seed": seed}
                score, _ = await score_debate(debate, **where, problem=problem, grader=grader, rule=system.rule)
                scores.append(score)
            counts.update(asked=engine.asked, sampled=engine.sampled)
    return summarize(Grid.of(scores, PLAN)), counts


def test_known_agents_get_the_accuracy_they_must_have(grader):
    summary, counts = asyncio.run(evaluated(grader))
    single, vote, debate = summary.systems
    assert single.verdict.average.mean == pytest.approx(3 / 4)
    assert vote.verdict.average.mean == pytest.approx(2 / 4)
    assert debate.mean.average.mean == pytest.approx(3 / 4)
    # The critics rescue 2 and 3, which one generator knew, and spoil 0, which all of them did.
    assert (debate.improves, debate.damages) == (pytest.approx(2 / 4), pytest.approx(1 / 4))
    assert [one.tokens for one in summary.systems] == [1, 3, 5]
    # Per problem 1 + 3 + 5 completions are asked for; the generators' three are shared, the critics' two are not.
    assert counts == {"asked": 8 * 9, "sampled": 8 * 5}
