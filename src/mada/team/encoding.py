"""From a user's message to the tokens of a prompt, and from sampled tokens to text, out of the engine's way."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

from mada.debate.prompts import ChatTokenizer, render

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")

_KEPT = 512
_LONG = 1500
"""Characters from which a prompt is worth another thread."""
_ASIDE = ThreadPoolExecutor(1, thread_name_prefix="mada-encoding")
"""One thread, so that prompts come back in the order in which they were asked for."""


def chat_prompt(text: str, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a prompt as the model sees it, in its chat template."""
    # transformers says that a template may give many things; asked for text, it gives text.
    return render(text, tokenizer=cast("ChatTokenizer", tokenizer))


def prompt_ids(text: str, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Return a rendered prompt's tokens. No special ones are added: the chat template has written them already."""
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def text_of(token_ids: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return what tokens say, special ones left out."""
    # transformers looks at every token before it hands them on, which takes longer than decoding them.
    fast = cast("Tokenizer | None", getattr(tokenizer, "backend_tokenizer", None))
    if fast is None or getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return str(tokenizer.decode(list(token_ids), skip_special_tokens=True))
    return fast.decode(list(token_ids), skip_special_tokens=True)


class Encoder:
    """Renders and encodes prompts, and keeps the latest: a prompt is counted before it is sent, and all critics of a
    round are sent the same. Encoding is most of what the host has to do for a long prompt.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[str, tuple[str, tuple[int, ...]]] = OrderedDict()

    def encode(self, text: str) -> tuple[str, tuple[int, ...]]:
        """Return a prompt as the model sees it, as text and as tokens."""
        known = self._known.get(text)
        if known is None:
            rendered = chat_prompt(text, self._tokenizer)
            known = self._known[text] = rendered, prompt_ids(rendered, self._tokenizer)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known


async def aside(work: Callable[[], T], *, characters: int) -> T:
    """Have a prompt of so many characters made in another thread if it is long.

    An engine in this process works on the event loop, and would have to wait; the tokenizer needs no interpreter.
    Prompts that must be shortened are encoded several times.
    """
    if characters < _LONG:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_ASIDE, work)


@lru_cache(maxsize=8)
def encoder_of(tokenizer: "PreTrainedTokenizerBase") -> Encoder:
    """Return the encoder that all agents with this tokenizer share."""
    return Encoder(tokenizer)
