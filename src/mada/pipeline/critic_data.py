"""Stage 3, critic data: every generator answers every training problem once (T5).

One record per problem, appended when all its responses are there and graded, so an interruption costs nothing that is
finished. The validation problems are answered too: by them the best critic is chosen. Generators answer as they will
in a debate (the recipe's inference settings), because that is what critics will have to read.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from mada.concurrency import all_or_none
from mada.debate.response import Response
from mada.grading import Grader
from mada.pipeline.context import Context, workshop
from mada.pipeline.split import read_problems, read_split
from mada.problems import Problem
from mada.recipe.training import Truncated
from mada.report.reading import CRITIC_EXAMPLES
from mada.run import StoredRun
from mada.team.agent import EngineAgent


@dataclass(frozen=True, slots=True)
class CriticExample:
    """A problem with all generators' responses, and how many of them are right (acc_G)."""

    problem: str
    part: str
    question: str
    reference: str
    agents: tuple[str, ...]
    responses: tuple[Response, ...]
    correct: tuple[bool, ...]
    generator_accuracy: float

    def accuracy(self, truncated: Truncated) -> float:
        """Return acc_G by a role's rule for replies cut off: where they are wrong, so are the generators'."""
        if truncated != "wrong":
            return self.generator_accuracy
        ended = (right and not said.truncated for right, said in zip(self.correct, self.responses, strict=True))
        return sum(ended) / len(self.correct)


async def critic_data(context: Context) -> dict[str, JsonValue]:
    """Let the generators answer, and record what they said."""
    split, problems = read_split(context.run), read_problems(context.run)
    wanted = [(part.name, problems[name]) for part in split.parts for name in part.ids]
    records = context.run.records(CRITIC_EXAMPLES, CriticExample)
    known = {example.problem for example in records}
    shop = workshop(context, context.seats("generator"), trained=True)
    tokens = {problem.id: shop.question_tokens(problem.question) for _, problem in wanted}
    reply = context.recipe.inference.max_new_tokens
    fitting = [item for item in wanted if tokens[item[1].id] + reply <= shop.window]
    longest = max((tokens[problem.id] for _, problem in fitting), default=0) + reply
    async with shop.sampling(longest=longest, alone=True) as engine:
        agents = [context.agent(shop, seat, engine=engine) for seat in context.seats("generator")]
        with context.grader() as grader:

            async def answer(item: tuple[str, Problem]) -> None:
                records.append(await _example(context, *item, agents=agents, grader=grader))

            missing = [item for item in fitting if item[1].id not in known]
            await context.work_off(missing, answer, done=len(known), at_once=2 * engine.slots)
    examples = read_critic_examples(context.run)
    return {
        "examples": len(examples),
        "by right answers": {str(right): count for right, count in count_by_right(examples).items()},
        "generator accuracy": sum(example.generator_accuracy for example in examples) / len(examples),
        "problems left out, too long for the window": len(wanted) - len(fitting),
        "cut off": sum(response.truncated for example in examples for response in example.responses),
        "no answer": sum(response.answer is None for example in examples for response in example.responses),
    }


async def _example(
    context: Context, part: str, problem: Problem, *, agents: Sequence[EngineAgent], grader: Grader
) -> CriticExample:
    turns = await all_or_none(
        [
            agent.answer(problem.question, (), seed=context.run.seed("critic-data", problem.id, agent.name))
            for agent in agents
        ]
    )
    responses = tuple(turn.response for turn in turns)
    grades = await grader.compare_async((response.answer, problem.answer) for response in responses)
    correct = tuple(grade.correct for grade in grades)
    return CriticExample(
        problem=problem.id,
        part=part,
        question=problem.question,
        reference=problem.answer,
        agents=tuple(agent.name for agent in agents),
        responses=responses,
        correct=correct,
        generator_accuracy=sum(correct) / len(correct),
    )


def read_critic_examples(run: StoredRun) -> list[CriticExample]:
    """Return the stage's records in the split's order, whatever order they were finished in.

    Problems that are too long for the window have none.
    """
    by_problem = {example.problem: example for example in run.records(CRITIC_EXAMPLES, CriticExample)}
    return [by_problem[name] for part in read_split(run).parts for name in part.ids if name in by_problem]


def count_by_right(examples: Sequence[CriticExample]) -> dict[int, int]:
    """Count examples by how many generators were right: what is left for critics to correct, and to spoil."""
    counts = Counter(sum(example.correct) for example in examples)
    return {right: counts[right] for right in range(len(examples[0].correct) + 1)}
