"""Stage 3, critic data: every generator answers every training problem once (T5).

A problem is recorded when all its responses are graded, so an interruption loses only those in progress. The
validation problems are answered too, because the best critic is chosen by them. Generators sample as in a debate (the
recipe's inference settings), because that is what critics will read.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mada.concurrency import gather_or_cancel
from mada.debate.transcript import Response
from mada.grading import Grader
from mada.models.engine_agent import EngineAgent
from mada.pipeline.context import Context
from mada.pipeline.results import CriticDataResult
from mada.pipeline.split import read_problems, read_split
from mada.problems import Problem
from mada.recipe.schema import Truncated
from mada.report.reading import CRITIC_EXAMPLES
from mada.runs import StoredRun


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
        """Return acc_G; where a role's rule counts truncated replies as wrong, so are the generators'."""
        if truncated != "wrong":
            return self.generator_accuracy
        ended = (right and not said.truncated for right, said in zip(self.correct, self.responses, strict=True))
        return sum(ended) / len(self.correct)


async def critic_data(context: Context) -> CriticDataResult:
    """Let the generators answer, and record their responses."""
    split, problems = read_split(context.run), read_problems(context.run)
    wanted = [(part.name, problems[name]) for part in split.parts for name in part.ids]
    records = context.run.records(CRITIC_EXAMPLES, CriticExample)
    known = {example.problem for example in records}
    model = context.load_model("generator", trained=True)
    settings = context.settings
    tokens = {problem.id: len(model.encode(settings.prompts.ask(problem.question))) for _, problem in wanted}
    reply = context.recipe.inference.max_new_tokens
    fitting = [item for item in wanted if tokens[item[1].id] + reply <= model.window]
    longest = max((tokens[problem.id] for _, problem in fitting), default=0) + reply
    async with model.engine(longest=longest, alone=True, log=context.events.log) as engine:
        agents = [
            settings.agent(name, name, engine=engine, chat=model.chat, window=model.window)
            for name in model.stack.agents
        ]
        with context.grader() as grader:

            async def answer(item: tuple[str, Problem]) -> None:
                records.append(await _example(context, *item, agents=agents, grader=grader))

            missing = [item for item in fitting if item[1].id not in known]
            await context.process(missing, answer, done=len(known), at_once=2 * engine.slots)
    examples = read_critic_examples(context.run)
    return CriticDataResult(
        examples=len(examples),
        by_right=count_by_right(examples),
        generator_accuracy=sum(example.generator_accuracy for example in examples) / len(examples),
        too_long=len(wanted) - len(fitting),
        truncated=sum(response.truncated for example in examples for response in example.responses),
        without_answer=sum(response.answer is None for example in examples for response in example.responses),
    )


async def _example(
    context: Context, part: str, problem: Problem, *, agents: Sequence[EngineAgent], grader: Grader
) -> CriticExample:
    turns = await gather_or_cancel(
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
    """Count examples by how many generators were right."""
    counts = Counter(sum(example.correct) for example in examples)
    return {right: counts[right] for right in range(len(examples[0].correct) + 1)}
