"""Fitting a debate prompt into the model's window (P3).

When question and responses do not fit, responses are shortened from their middle: the beginning holds the approach, the
end the answer. Short responses stay whole and the longest give way first. What was left out is said in the prompt, and
counted for the record. Nothing is ever dropped silently, and the question is never touched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mada.debate.prompts import Prompts
from mada.debate.response import Response
from mada.errors import MadaError

LEFT_OUT = "\n[… {count:,} characters left out …]\n"


class WindowError(MadaError):
    """A question does not fit the model's window even with every response shortened away."""


@dataclass(frozen=True, slots=True)
class FittedPrompt:
    """A prompt that fits, with how many responses were shortened and how many characters that cost."""

    text: str
    tokens: int
    shortened_responses: int
    characters_left_out: int


def shorten(text: str, limit: int) -> str:
    """Cut a text's middle out so that `limit` of its characters remain, and say how many are gone."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    head = limit - tail
    return text[:head] + LEFT_OUT.format(count=len(text) - limit) + text[len(text) - tail :]


def fit_debate_prompt(
    question: str,
    responses: Sequence[Response],
    *,
    prompts: Prompts,
    count_tokens: Callable[[str], int],
    budget: int,
) -> FittedPrompt:
    """Return the debate prompt for `question`, with responses shortened until it has at most `budget` tokens.

    `count_tokens` must count the prompt as the model will see it, chat template included; `budget` is the window less
    the tokens reserved for the reply.
    """
    shared = [prompts.shared(response) for response in responses]

    def fitted(limit: int) -> FittedPrompt:
        text = prompts.ask_again(question, [shorten(one, limit) for one in shared])
        excess = [len(one) - limit for one in shared if len(one) > limit]
        return FittedPrompt(text, count_tokens(text), len(excess), sum(excess))

    longest = max((len(one) for one in shared), default=0)
    whole = fitted(longest)
    if whole.tokens <= budget:
        return whole
    smallest = fitted(0)
    if smallest.tokens > budget:
        raise WindowError(
            f"the question does not fit: with every response shortened away the prompt has {smallest.tokens:,} tokens "
            f"and the window leaves {budget:,}; "
            "use a model with a longer window, fewer agents, or a smaller max_new_tokens"
        )
    return _largest_fit(fitted, low=smallest, high=longest, budget=budget)


def _largest_fit(fitted: Callable[[int], FittedPrompt], *, low: FittedPrompt, high: int, budget: int) -> FittedPrompt:
    """Search for the largest limit that fits, to within 1 %: counting tokens of long texts is the cost here."""
    best, below, above = low, 0, high  # `below` fits, `above` does not
    while above - below > max(1, above // 100):
        middle = (below + above) // 2
        candidate = fitted(middle)
        if candidate.tokens <= budget:
            best, below = candidate, middle
        else:
            above = middle
    return best
