"""Chat templates: from a user message to the tokens of a prompt, and from sampled tokens to text."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

from mada.debate.prompts import ChatTokenizer, render
from mada.errors import ModelError
from mada.grading.extraction import THINKING_OPENS

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")

_CACHED_PROMPTS = 512
_LONG_PROMPT = 1500
"""Characters from which a prompt is encoded in another thread."""
_ENCODING_THREAD = ThreadPoolExecutor(1, thread_name_prefix="mada-encoding")
"""One thread, so that prompts come back in the order in which they were asked for."""


def check_chat_template(tokenizer: "PreTrainedTokenizerBase") -> None:
    """Refuse a model without a chat template."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"{tokenizer.name_or_path or 'the model'}: its tokenizer has no chat template, so it is no chat model; "
            "use an instruction-tuned model, or set chat_template in its tokenizer_config.json"
        )


def chat_prompt(text: str, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a user message rendered in the model's chat template."""
    # transformers says that a template may give many things; asked for text, it gives text.
    return render(text, tokenizer=cast("ChatTokenizer", tokenizer))


def opens_thinking(rendered: str) -> bool:
    """Whether a rendered prompt ends inside a thinking block, as some chat templates make it."""
    return rendered.rstrip().endswith(THINKING_OPENS)


def prompt_ids(text: str, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Return a rendered prompt's tokens, without special ones: the chat template has written them already."""
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def text_of(token_ids: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the text of tokens without the special ones."""
    # transformers looks at every token before it hands them on, which takes longer than decoding them.
    fast = cast("Tokenizer | None", getattr(tokenizer, "backend_tokenizer", None))
    if fast is None or getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return str(tokenizer.decode(list(token_ids), skip_special_tokens=True))
    return fast.decode(list(token_ids), skip_special_tokens=True)


@lru_cache(maxsize=8)
def encoder_of(tokenizer: "PreTrainedTokenizerBase") -> Callable[[str], tuple[str, tuple[int, ...]]]:
    """Return the function that renders and encodes user messages; all agents with this tokenizer share its cache.

    A prompt is counted before it is sent, and all critics of a round are sent the same one; encoding is most of the
    host's work for a long prompt.
    """

    @lru_cache(maxsize=_CACHED_PROMPTS)
    def encode(text: str) -> tuple[str, tuple[int, ...]]:
        rendered = chat_prompt(text, tokenizer)
        return rendered, prompt_ids(rendered, tokenizer)

    return encode


async def encode_in_thread(work: Callable[[], T], *, characters: int) -> T:
    """Return the result of encoding a prompt of so many characters; a long one is encoded in another thread.

    An engine in this process works on the event loop and would have to wait; the tokenizer releases the interpreter.
    """
    if characters < _LONG_PROMPT:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_ENCODING_THREAD, work)
