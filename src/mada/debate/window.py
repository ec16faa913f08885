"""Fitting a debate prompt into the model's window (P3).

When question and responses do not fit, responses are shortened from their middle: the beginning holds the approach, the
end the answer. Short responses stay whole and the longest give way first. What was left out is said in the prompt, and
counted for the record. Nothing is ever dropped silently, and the question is never touched.
"""

from bisect import bisect_left
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
        return FittedPrompt(text, count_tokens(text), sum(len(one) > limit for one in shared), _excess(shared, limit))

    whole = fitted(max(map(len, shared), default=0))
    if whole.tokens <= budget:
        return whole
    smallest = fitted(0)
    if smallest.tokens > budget:
        raise WindowError(
            f"the question does not fit: with every response shortened away the prompt has {smallest.tokens:,} tokens "
            f"and the window leaves {budget:,}; "
            "use a model with a longer window, fewer agents, or a smaller max_new_tokens"
        )
    return _largest_fit(fitted, shared, smallest, whole, budget=budget)


def _largest_fit(
    fitted: Callable[[int], FittedPrompt],
    shared: Sequence[str],
    best: FittedPrompt,
    too_long: FittedPrompt,
    *,
    budget: int,
) -> FittedPrompt:
    """Search for a limit that uses 99 % of the budget: counting tokens of long texts is the cost here.

    Tokens grow nearly evenly with the characters that are left, so the limit is guessed from the best prompt so far and
    the shortest that does not fit. Every third step halves instead, for texts that are not even at all.
    """
    below, above, step = 0, max(map(len, shared)), 0
    while best.tokens < 0.99 * budget and above - below > 1:
        step += 1
        share = (too_long.tokens - 0.995 * budget) / (too_long.tokens - best.tokens)
        wanted = round(share * best.characters_left_out + (1 - share) * too_long.characters_left_out)
        even = bisect_left(range(above), -wanted, key=lambda limit: -_excess(shared, limit))
        limit = (below + above) // 2 if step % 3 == 0 else min(max(even, below + 1), above - 1)
        candidate = fitted(limit)
        if candidate.tokens <= budget:
            below, best = limit, candidate
        else:
            above, too_long = limit, candidate
    return best


def _excess(texts: Sequence[str], limit: int) -> int:
    """Return how many characters a limit takes from texts."""
    return sum(max(0, len(text) - limit) for text in texts)
