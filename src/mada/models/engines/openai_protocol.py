"""Requests to `/completions`, and completions and error messages read from what comes back, all of it untrusted."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from openai import APIStatusError
from pydantic import BaseModel, Field, StrictInt, ValidationError

from mada.models.engines.engine import Completion, Sampling, Stop
from mada.seeds import SEED_BITS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EXTENSIONS = {
    "add_special_tokens": "it may add a token of its own before prompts that are sent as text",
    "logprobs": "completions have no log-probabilities",
    "min_p": "its own default for min_p applies",
    "repetition_penalty": "its own default for repetition_penalty applies",
    "return_token_ids": "token ids are read from its log-probabilities, else from its text",
    "return_tokens_as_token_ids": "token ids are read from its text where it gives none",
    "seed": "the same seed no longer gives the same samples",
    "skip_special_tokens": "special tokens inside a reply may be lost",
    "stop_token_ids": "replies end where the model ends them, and are cut at the first stop token afterwards",
    "top_k": "its own default for top_k applies",
}
"""Fields that a server may not know, and what is lost without them; all others belong to the protocol."""

_FINISHED = frozenset({"stop", "eos", "eos_token", "stop_sequence"})
_TOKEN_AS_ID = re.compile(r"token_id:(\d{1,9})")
_LOG_PROB_RANGE = (-10_000.0, 0.001)
"""vLLM writes -9999 for a probability of 0, and rounding may lift a log-probability above 0."""


class ReplyError(ValueError):
    """A reply that does not answer the request."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Completions, the server's token counts where it gives them, and whether the ids are those it sampled."""

    completions: tuple[Completion, ...]
    prompt_tokens: int | None
    generated_tokens: int | None
    has_ids: bool
    failures: frozenset[str]
    """Finish reasons other than a stop and the length, such as content_filter: those completions have failed."""


def max_reply_bytes(prompt: int, sampling: Sampling, *, n: int) -> int:
    """Return a bound on a reply's size: about 200 bytes a token are usual with ids and log-probabilities."""
    return 2**20 + n * (1024 * sampling.max_tokens + 32 * prompt)


def request_body(
    model: str, prompt: Sequence[int] | str, sampling: Sampling, *, n: int, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return a request, without the fields that the server does not know.

    Settings that `Sampling` leaves open are sent too: vLLM would take top_k, min_p and repetition_penalty from the
    model's generation config and sample from another distribution.
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


# The SDK's own types are built without validation, so replies are checked here.
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

    @property
    def stop(self) -> Stop:
        if self.finish_reason == "length":
            return "length"
        return "end" if self.finish_reason in _FINISHED else "failed"

    @property
    def sampled_ids(self) -> list[int] | None:
        """The ids that the server sampled, where it gives them."""
        if self.token_ids is not None:
            return list(self.token_ids)
        tokens = self.logprobs.tokens if self.logprobs is not None else None
        matches = [_TOKEN_AS_ID.fullmatch(token or "") for token in tokens or ()]
        ids = [int(match[1]) for match in matches if match is not None]
        return ids if tokens and len(ids) == len(tokens) else None


class _Reply(BaseModel):
    choices: list[_Choice]
    usage: Any = None


def read_reply(
    content: bytes, sampling: Sampling, *, n: int, tokenizer: "PreTrainedTokenizerBase", vocabulary: int
) -> Reply:
    """Read the completions of a reply in the order of their indices; token ids must be below `vocabulary`."""
    try:
        reply = _Reply.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReplyError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    if len(reply.choices) != n:
        raise ReplyError(f"got {len(reply.choices)} choices, wanted {n}: the server may not support n")
    largest = max((token for choice in reply.choices for token in choice.sampled_ids or ()), default=0)
    if largest >= vocabulary:
        raise ReplyError(f"got the token id {largest!s:.20}, wanted ids below {vocabulary}: is it the same model?")
    indices = [choice.index for choice in reply.choices]
    # A server that numbers its choices may send them in any order.
    if sorted(index for index in indices if index is not None) == list(range(n)):
        reply.choices.sort(key=lambda choice: choice.index or 0)
    return Reply(
        completions=tuple(_completion(choice, sampling, tokenizer) for choice in reply.choices),
        prompt_tokens=_count(reply.usage, "prompt_tokens"),
        generated_tokens=_count(reply.usage, "completion_tokens"),
        has_ids=all(choice.sampled_ids is not None for choice in reply.choices),
        failures=frozenset(str(choice.finish_reason) for choice in reply.choices if choice.stop == "failed"),
    )


def _completion(choice: _Choice, sampling: Sampling, tokenizer: "PreTrainedTokenizerBase") -> Completion:
    stop, sampled = choice.stop, choice.sampled_ids
    ids = tokenizer.encode(choice.text, add_special_tokens=False) if sampled is None else sampled
    if sampled is None and len(ids) > 2 * sampling.max_tokens + 16:
        raise ReplyError(f"got a text of {len(ids):,} tokens, wanted at most {sampling.max_tokens:,}")
    end = next((index for index, token in enumerate(ids) if token in sampling.stop_tokens), None)
    if stop == "failed":
        ids = ids[: sampling.max_tokens]
    elif end is not None:  # a server that knows no stop tokens goes on after one
        ids, stop = ids[: end + 1], "end"
    elif stop == "end":
        ids = [*ids, *_missing_stop(choice, ids, sampling, tokenizer)]
    # Text may take more tokens than were sampled; cutting those would cut the reply, so only sampled ids are cut.
    if sampled is not None and len(ids) > sampling.max_tokens:
        ids, stop = ids[: sampling.max_tokens], "length"
    return Completion(tuple(ids), () if sampled is None else _log_probs(choice, len(ids), sampling), stop)


def _missing_stop(
    choice: _Choice, ids: Sequence[int], sampling: Sampling, tokenizer: "PreTrainedTokenizerBase"
) -> list[int]:
    """Return the stop token that ended a reply and is not among its ids.

    Unless the server says which one it was, it was most likely the tokenizer's own. A reply that ends with another
    special token was ended by the model's settings on the server, and lacks nothing.
    """
    if choice.stop_reason in sampling.stop_tokens:
        return [int(choice.stop_reason)]
    if not sampling.stop_tokens or (ids and ids[-1] in tokenizer.all_special_ids):
        return []
    own = tokenizer.eos_token_id
    return [own if isinstance(own, int) and own in sampling.stop_tokens else sampling.stop_tokens[0]]


def _log_probs(choice: _Choice, count: int, sampling: Sampling) -> tuple[float, ...]:
    """Return the server's log-probabilities, which are at temperature 1, where a `Completion` has the same."""
    given = (choice.logprobs.token_logprobs if choice.logprobs is not None else None) or []
    lowest, highest = _LOG_PROB_RANGE
    kept = [value for value in given[:count] if value is not None and lowest <= value <= highest]
    return tuple(kept) if sampling.temperature in (0.0, 1.0) and len(kept) == count else ()


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 <= value < 2**31 else None


def error_message(error: APIStatusError) -> str:
    """Return what an error reply says, in OpenAI's form, FastAPI's, or any other."""
    found = [error.body, _field(error.body, "message"), _field(error.body, "detail")]
    messages = [one.strip() for one in found if isinstance(one, str)]
    messages += [f"{'.'.join(path)}: {message}" for path, message in _field_errors(error)]
    said = "; ".join(message for message in dict.fromkeys(messages) if message)
    return said or error.response.text.strip() or error.response.reason_phrase


def blames_field(error: APIStatusError, field: str) -> bool:
    """Return whether an error reply complains about a field of the request.

    If the reply names fields in `param`, or in FastAPI's details, those are meant and no others. Else the message
    decides, though it may also list the fields that the server knows.
    """
    if error.status_code not in (400, 422):
        return False
    param = _field(error.body, "param")
    blamed = {param} if isinstance(param, str) and param else set[str]()
    blamed.update(part for path, _ in _field_errors(error) for part in path)
    if blamed - {"body"}:
        return field in blamed
    return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", error_message(error)) is not None


def _field(body: object, name: str) -> object:
    return cast("dict[str, object]", body).get(name) if isinstance(body, dict) else None


def _field_errors(error: APIStatusError) -> Iterator[tuple[list[str], str]]:
    """Yield the path and the message of each of FastAPI's validation errors."""
    details = _field(error.body, "detail")
    for detail in cast("list[object]", details) if isinstance(details, list) else []:
        path = _field(detail, "loc")
        if isinstance(path, list):
            yield [str(part) for part in cast("list[object]", path)], str(_field(detail, "msg"))
