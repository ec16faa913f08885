"""Prompts and scorer of training, which screening and both trainings share."""

from collections.abc import Iterable, Sequence

from mada.agents import AdaptedModel
from mada.debate.prompts import WindowError, fit_debate_prompt
from mada.debate.transcript import Response, Role
from mada.grading import Grader
from mada.grading.rewards import REWARDS, total_reward
from mada.learning.rollouts import Reward, Scorer, TrainingPrompt
from mada.models.chat import chat_prompt, check_chat_template, opens_thinking, text_of
from mada.models.engines import Completion
from mada.pipeline.context import Context
from mada.pipeline.critic_data import CriticExample
from mada.problems import Problem


def make_scorer(context: Context, model: AdaptedModel, grader: Grader, *, role: Role) -> Scorer:
    """Return the function that grades and rewards a group of completions (R1–R3).

    Where the role's rule for truncated completions is `wrong`, they are wrong whatever they say.
    """
    weights = context.recipe.reward.model_dump()
    tokenizer = model.chat.tokenizer
    thinking_opened = opens_thinking(chat_prompt("", tokenizer))
    must_end = context.training(role).truncated == "wrong"

    async def score(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        texts = [text_of(one.token_ids, tokenizer) for one in completions]
        pairs = [(text, str(prompt.payload)) for text in texts]
        grades = await grader.grade_async(pairs, thinking_opened=thinking_opened)
        ended = [one.stop == "end" or not must_end for one in completions]
        correct = [grade.correct and complete for grade, complete in zip(grades, ended, strict=True)]
        lengths = [len(one.token_ids) for one in completions]
        totals = total_reward([correct], [lengths], weights=weights)[0]
        parts = {name: REWARDS[name]([correct], [lengths])[0] for name in weights}
        return [
            Reward(float(total), right, {name: float(part[index]) for name, part in parts.items()})
            for index, (total, right) in enumerate(zip(totals, correct, strict=True))
        ]

    return score


class TrainingPrompts:
    """Makes training prompts that fit the window, and counts those left out or shortened."""

    def __init__(self, context: Context, model: AdaptedModel) -> None:
        check_chat_template(model.chat.tokenizer)
        self._ids = model.encode
        self._run = context.run
        self._critics = context.training("critic")
        self._prompts = context.settings.prompts
        self._reply = context.recipe.training.max_new_tokens
        self._budget = model.window - self._reply
        if self._budget < 1:
            raise WindowError(
                f"replies of up to {self._reply:,} tokens leave no room for a prompt in a "
                f"window of {model.window:,}; lower training.max_new_tokens"
            )
        self._longest = 0
        self._left_out: set[str] = set()
        self.shortened = 0

    @property
    def too_long(self) -> int:
        """How many problems were left out."""
        return len(self._left_out)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt so far with the longest reply that it may get."""
        return self._longest + self._reply

    def generator(self, problem: Problem) -> TrainingPrompt:
        """Ask the bare question."""
        ids = self._ids(self._prompts.ask(problem.question))
        return TrainingPrompt(problem.id, ids, payload=problem.answer, question=problem.question)

    def critic(self, example: CriticExample, agent: str) -> TrainingPrompt:
        """Ask the question with all generators' responses in the critic's own order, shortened to fit."""
        responses = self._prompts.ordered(example.responses, seed=self._run.seed("order", agent, example.problem))
        fitted = self._fitted(example.question, responses)
        accuracy = example.accuracy(self._critics.truncated)
        return TrainingPrompt(
            example.problem,
            fitted,
            payload=example.reference,
            question=example.question,
            generator_accuracy=accuracy,
        )

    def fitting(self, prompts: Iterable[TrainingPrompt]) -> list[TrainingPrompt]:
        """Return the prompts that leave room for a reply, and count the others."""
        listed = list(prompts)
        fit = [prompt for prompt in listed if 0 < len(prompt.prompt_ids) <= self._budget]
        self._left_out |= {prompt.id for prompt in listed} - {prompt.id for prompt in fit}
        self._longest = max([self._longest, *(len(prompt.prompt_ids) for prompt in fit)])
        if listed and not fit:
            raise WindowError(
                f"none of {len(listed):,} prompts fits beside replies of the longest length; "
                "lower training.max_new_tokens, or use a model with a longer window"
            )
        return fit

    def _fitted(self, question: str, responses: Sequence[Response]) -> tuple[int, ...]:
        try:
            fitted = fit_debate_prompt(
                question,
                responses,
                prompts=self._prompts,
                count_tokens=lambda text: len(self._ids(text)),
                budget=self._budget,
            )
        except WindowError:
            return ()  # counted by `fitting`, with the questions that are too long by themselves
        self.shortened += fitted.shortened_responses > 0
        return self._ids(fitted.text)
