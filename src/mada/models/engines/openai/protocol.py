"""Requests and answers: what is asked of `/completions`, and how a completion is read from what comes back."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictInt, ValidationError

from mada.models.engines.engine import Completion, Sampling
from mada.seeds import SEED_BITS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EXTENSIONS = {
    "add_special_tokens": "it may put a token of its own before prompts that are sent as text",
    "logprobs": "completions have no log-probabilities",
    "min_p": "its own default for min_p holds",
    "repetition_penalty": "its own default for repetition_penalty holds",
    "return_token_ids": "token ids are read from its log-probabilities, else from its text",
    "return_tokens_as_token_ids": "token ids are read from its text where it gives none",
    "seed": "the same seed no longer gives the same samples",
    "skip_special_tokens": "special tokens inside a reply may be lost",
    "stop_token_ids": "replies end where the model ends them, and are cut at the first stop token only afterwards",
    "top_k": "its own default for top_k holds",
}
"""Fields that a server may not know, and what is lost without them. All others belong to the protocol's core."""

_ENDED = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
_AS_TOKEN_ID = re.compile(r"token_id:(\d{1,9})")


class AnswerError(ValueError):
    """An answer that is no answer to the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was sampled, the tokens that the server counted, and whether the ids are those it sampled."""

    completions: tuple[Completion, ...]
    prompt_tokens: int | None
    generated_tokens: int | None
    has_ids: bool


def request_body(
    model: str, prompt: Sequence[int] | str, sampling: Sampling, *, n: int, without: Collection[str] = ()
) -> dict[str, Any]:
    """Write a request, without the fields that the server does not know.

    What `Sampling` leaves open is said all the same: vLLM would else take top_k, min_p and repetition_penalty from the
    model's generation settings, and sample from another distribution than the one that is asked for.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "n": n,
        "seed": sampling.seed % 2**SEED_BITS,
        "logprobs": 1,
        "top_k": -1 if sampling.top_k is None else sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "stop_token_ids": list(sampling.stop_tokens),
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    return {name: value for name, value in body.items() if name not in without}


class _LogProbs(BaseModel):
    tokens: list[str | None] | None = None
    token_logprobs: list[float | None] | None = None


class _Choice(BaseModel):
    index: int | None = None
    text: str = ""
    finish_reason: str | None = None
    stop_reason: Any = None
    token_ids: list[Annotated[StrictInt, Field(ge=0)]] | None = None
    logprobs: _LogProbs | None = None


class _Answer(BaseModel):
    choices: list[_Choice]
    usage: Any = None


def read_answer(content: bytes, sampling: Sampling, *, n: int, tokenizer: "PreTrainedTokenizerBase") -> Answer:
    """Read the completions of an answer, in the order of their places in the group."""
    try:
        answer = _Answer.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AnswerError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    if len(answer.choices) != n:
        raise AnswerError(f"got {len(answer.choices)} choices, wanted {n}: it may not know how to sample n at once")
    places = [choice.index for choice in answer.choices]
    # A server that numbers its choices may send them in any order.
    if sorted(place for place in places if place is not None) == list(range(n)):
        answer.choices.sort(key=lambda choice: choice.index or 0)
    return Answer(
        completions=tuple(_completion(choice, sampling, tokenizer) for choice in answer.choices),
        prompt_tokens=_count(answer.usage, "prompt_tokens"),
        generated_tokens=_count(answer.usage, "completion_tokens"),
        has_ids=all(_sampled_ids(choice) is not None for choice in answer.choices),
    )


def _completion(choice: _Choice, sampling: Sampling, tokenizer: "PreTrainedTokenizerBase") -> Completion:
    if choice.finish_reason != "length" and choice.finish_reason not in _ENDED:
        raise AnswerError(f"a reply ended for the reason {choice.finish_reason!r:.40}, wanted stop or length")
    stop: Literal["end", "length"] = "length" if choice.finish_reason == "length" else "end"
    sampled = _sampled_ids(choice)
    ids = tokenizer.encode(choice.text, add_special_tokens=False) if sampled is None else sampled
    ends = [place for place, token in enumerate(ids) if token in sampling.stop_tokens]
    if ends:  # a server that knows no stop tokens goes on after one
        ids, stop = ids[: ends[0] + 1], "end"
    elif stop == "end":
        ids = [*ids, *_missing_stop(choice, ids, sampling, tokenizer)]
    # Text may take more tokens than were sampled, and cutting those would cut the reply, so only sampled ids are cut.
    if sampled is not None and len(ids) > sampling.max_tokens:
        ids, stop = ids[: sampling.max_tokens], "length"
    return Completion(tuple(ids), () if sampled is None else _log_probs(choice, len(ids), sampling), stop)


def _sampled_ids(choice: _Choice) -> list[int] | None:
    """Return the ids that a server sampled, where it gives them."""
    if choice.token_ids is not None:
        return list(choice.token_ids)
    tokens = choice.logprobs.tokens if choice.logprobs is not None else None
    matches = [_AS_TOKEN_ID.fullmatch(token or "") for token in tokens or ()]
    ids = [int(match[1]) for match in matches if match is not None]
    return ids if tokens and len(ids) == len(tokens) else None


def _missing_stop(
    choice: _Choice, ids: Sequence[int], sampling: Sampling, tokenizer: "PreTrainedTokenizerBase"
) -> list[int]:
    """Return the stop token that ended a reply and is not among its ids.

    A server that does not say which one it was most likely met the tokenizer's own. A reply that ends with another
    special token was ended by the model's settings on the server, and lacks nothing.
    """
    if choice.stop_reason in sampling.stop_tokens:
        return [int(choice.stop_reason)]
    if not sampling.stop_tokens or (ids and ids[-1] in tokenizer.all_special_ids):
        return []
    own = tokenizer.eos_token_id
    return [own if isinstance(own, int) and own in sampling.stop_tokens else sampling.stop_tokens[0]]


def _log_probs(choice: _Choice, count: int, sampling: Sampling) -> tuple[float, ...]:
    """Return the server's log-probabilities where they are those that a `Completion` holds.

    Servers give them at temperature 1, whatever the request's; at another one, the learner's would be others.
    """
    given = (choice.logprobs.token_logprobs if choice.logprobs is not None else None) or []
    kept = [value for value in given[:count] if value is not None and math.isfinite(value)]
    return tuple(kept) if sampling.temperature in (0.0, 1.0) and len(kept) == count else ()


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
