"""The two prompts of the method: a question alone, and a question with what other agents answered (P1, P2).

The texts are the paper's. Its listing shows the reasoning prompt as a Python format string, so what reaches a model has
`\\boxed{ANSWER}` where the listing has `\\\\boxed{{ANSWER}}`. The paper does not say what stands between the parts of
the debate prompt; here it is an empty line. The judge's texts are ours: the paper has no judge.
"""

import ctypes
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Protocol, Self

from mada.debate.transcript import Response
from mada.errors import MadaError, ModelError
from mada.grading.extraction import after_thinking
from mada.seeds import rng

Share = Literal["full", "answer"]
Order = Literal["seats", "shuffled"]

REASONING = (
    "Solve the following math problem efficiently and clearly. The last line of your response should be of the "
    "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without quotes) "
    "where ANSWER is just the final number or expression that solves the problem. Think step by step before "
    "answering.\n\n{question}"
)
DEBATE_HEADER = "These are the recent opinions from other agents:"
DEBATE_RESPONSE = "One agent's response:\n```\n{response}\n```"
DEBATE_REQUEST = "Using each response as additional advice, can you give an updated answer to the question?"
JUDGE_HEADER = "These are solutions of this problem by different agents:"
JUDGE_REQUEST = (
    "Judge the solutions: check the reasoning of each, and decide which final answer is correct. Choose one of the "
    "final answers given above, and end your response with 'Therefore, the final answer is: $\\boxed{ANSWER}$.' where "
    "ANSWER is the answer you have chosen."
)

CUT_OFF = "[cut off at the token limit]"
NO_CONCLUSION = "[no conclusion: the thinking did not end]"


TEMPLATE_SECONDS = 5.0
TEMPLATE_CHARACTERS = 1_000_000
"""What a chat template may take and add; real ones take less than a millisecond and add some hundred characters."""
_REMEDY = "fix chat_template in the model's tokenizer files, or use another model"


class ChatTokenizer(Protocol):
    """The one method prompts need of a Hugging Face tokenizer."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str | list[int]:
        """Turn a conversation into the text the model was trained on."""
        ...


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts of a recipe's prompts, and what of the responses the next round sees, in which order."""

    reasoning: str = REASONING
    debate_header: str = DEBATE_HEADER
    debate_response: str = DEBATE_RESPONSE
    debate_request: str = DEBATE_REQUEST
    judge_header: str = JUDGE_HEADER
    judge_request: str = JUDGE_REQUEST
    share: Share = "full"
    order: Order = "seats"

    @property
    def for_judge(self) -> Self:
        """The prompts of an agent that chooses among responses instead of updating its own."""
        return replace(self, debate_header=self.judge_header, debate_request=self.judge_request)

    def ask(self, question: str) -> str:
        """Return what a generator is asked."""
        # Not str.format: a question is full of braces, and so is \boxed{ANSWER}.
        return self.reasoning.replace("{question}", question)

    def debate_prompt(self, question: str, shared: Sequence[str]) -> str:
        """Return what a critic is asked, given what `shared` made of each response of the round before."""
        blocks = [self.debate_response.replace("{response}", text) for text in shared]
        return "\n\n".join([self.ask(question), self.debate_header, *blocks, self.debate_request])

    def ordered(self, responses: Sequence[Response], *, seed: int) -> Sequence[Response]:
        """Return responses in the order in which a critic sees them: that of the agents, or shuffled by its seed.

        Some models trust the last response most. In the order of the agents that is the same agent for all critics and
        all questions, so critics make the same mistakes; shuffled, the position says nothing.
        """
        if self.order == "seats":
            return responses
        indices: list[int] = rng(seed, "order").permutation(len(responses)).tolist()
        return [responses[index] for index in indices]

    def shared(self, response: Response) -> str:
        """Return the part of a response that others see; a response cut off at the token limit says so."""
        text: str | None = response.text
        if self.share == "answer":
            text = after_thinking(response.text)
        if text is None:
            return f"{NO_CONCLUSION} {CUT_OFF}" if response.truncated else NO_CONCLUSION
        text = text.strip()
        return f"{text} {CUT_OFF}" if response.truncated else text


def render(user_text: str, *, tokenizer: ChatTokenizer) -> str:
    """Wrap a prompt in the model's own chat template, ready to be continued by the assistant."""
    return render_conversation([{"role": "user", "content": user_text}], tokenizer=tokenizer)


def render_conversation(conversation: Sequence[Mapping[str, str]], *, tokenizer: ChatTokenizer) -> str:
    """Write a conversation in the model's own chat template, ready to be continued by the assistant.

    A template is a program that came with the model. transformers runs it in a sandbox; here its time and the length
    of what it writes are limited too.
    """
    from jinja2 import TemplateError  # recipes import this module, and have no use for it

    messages = [dict(message) for message in conversation]
    characters = sum(len(message["content"]) for message in messages)
    try:
        with _time_limit(TEMPLATE_SECONDS):
            rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except _OutOfTimeError:
        raise ModelError(f"the model's chat template took longer than {TEMPLATE_SECONDS:g} s; {_REMEDY}") from None
    except (TemplateError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
        raise ModelError(f"the model's chat template cannot be used ({str(error)[:200]}); {_REMEDY}") from None
    assert isinstance(rendered, str)
    if len(rendered) > TEMPLATE_CHARACTERS + 10 * characters:
        raise ModelError(f"the model's chat template made {len(rendered):,} characters of {characters:,}; {_REMEDY}")
    return rendered


class _OutOfTimeError(Exception):
    """Raised in a thread whose time is over."""


_deadlines: dict[int, float] = {}
_guard = threading.Lock()


@contextmanager
def _time_limit(seconds: float) -> Generator[None]:
    """Raise `_OutOfTimeError` in this thread, whichever it is, if the block takes too long."""
    _start_watching()
    thread = threading.get_ident()
    _deadlines[thread] = time.monotonic() + seconds
    try:
        yield
    finally:
        with _guard:
            _deadlines.pop(thread, None)


@cache
def _start_watching() -> None:
    # One thread for all prompts: a timer for each would take several times as long as the template.
    threading.Thread(target=_watch, name="mada-templates", daemon=True).start()


def _watch() -> None:
    while True:
        time.sleep(0.1)
        with _guard:
            late = [thread for thread, deadline in list(_deadlines.items()) if deadline < time.monotonic()]
            for thread in late:
                del _deadlines[thread]
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_OutOfTimeError))


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
        text = prompts.debate_prompt(question, [shorten(one, limit) for one in shared])
        return FittedPrompt(text, count_tokens(text), sum(len(one) > limit for one in shared), _excess(shared, limit))

    complete = fitted(max(map(len, shared), default=0))
    if complete.tokens <= budget:
        return complete
    smallest = fitted(0)
    if smallest.tokens > budget:
        raise WindowError(
            f"the question does not fit: with every response shortened away the prompt has {smallest.tokens:,} tokens "
            f"and the window leaves {budget:,}; "
            "use a model with a longer window, fewer agents, or a smaller max_new_tokens"
        )
    return _largest_fit(fitted, shared, smallest, complete, budget=budget)


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
