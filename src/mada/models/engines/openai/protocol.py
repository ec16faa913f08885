"""Requests, answers and refusals: what is asked of `/completions`, and what is read from what comes back."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, Field, StrictInt, ValidationError

from mada.models.engines.engine import Completion, Sampling, Stop
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
_LOG_PROBS = (-10_000.0, 0.001)
"""What a log-probability may be: vLLM writes -9999 for a probability of 0, and rounding may lift one above 0."""
_MOST_TOKENS = 2**31
_IDENTIFYING = ("id", "root", "parent", "max_model_len", "owned_by")
BLAMES_A_FIELD = frozenset({400, 422})


class AnswerError(ValueError):
    """An answer that is no answer to the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was sampled, the tokens that the server counted, and whether the ids are those it sampled."""

    completions: tuple[Completion, ...]
    prompt_tokens: int | None
    generated_tokens: int | None
    has_ids: bool
    odd_endings: frozenset[str]
    """Finish reasons that are neither a stop nor the length, such as content_filter: those replies have failed."""


def most_bytes(prompt: int, sampling: Sampling, *, n: int) -> int:
    """Return how large a reply may be: about 200 bytes a token are usual with ids and log-probabilities."""
    return 2**20 + n * (1024 * sampling.max_tokens + 32 * prompt)


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


def read_answer(
    content: bytes, sampling: Sampling, *, n: int, tokenizer: "PreTrainedTokenizerBase", vocabulary: int
) -> Answer:
    """Read the completions of an answer, in the order of their places in the group; ids are below `vocabulary`."""
    try:
        answer = _Answer.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AnswerError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    if len(answer.choices) != n:
        raise AnswerError(f"got {len(answer.choices)} choices, wanted {n}: it may not know how to sample n at once")
    largest = max((token for choice in answer.choices for token in _sampled_ids(choice) or ()), default=0)
    if largest >= vocabulary:
        raise AnswerError(f"got the token id {largest!s:.20}, wanted ids below {vocabulary}: is it the same model?")
    places = [choice.index for choice in answer.choices]
    # A server that numbers its choices may send them in any order.
    if sorted(place for place in places if place is not None) == list(range(n)):
        answer.choices.sort(key=lambda choice: choice.index or 0)
    return Answer(
        completions=tuple(_completion(choice, sampling, tokenizer) for choice in answer.choices),
        prompt_tokens=_count(answer.usage, "prompt_tokens"),
        generated_tokens=_count(answer.usage, "completion_tokens"),
        has_ids=all(_sampled_ids(choice) is not None for choice in answer.choices),
        odd_endings=frozenset(str(one.finish_reason) for one in answer.choices if _stop(one) == "failed"),
    )


def _completion(choice: _Choice, sampling: Sampling, tokenizer: "PreTrainedTokenizerBase") -> Completion:
    stop = _stop(choice)
    sampled = _sampled_ids(choice)
    ids = tokenizer.encode(choice.text, add_special_tokens=False) if sampled is None else sampled
    if sampled is None and len(ids) > 2 * sampling.max_tokens + 16:
        raise AnswerError(f"got a text of {len(ids):,} tokens, wanted at most {sampling.max_tokens:,}")
    ends = [place for place, token in enumerate(ids) if token in sampling.stop_tokens]
    if stop == "failed":
        ids = ids[: sampling.max_tokens]
    elif ends:  # a server that knows no stop tokens goes on after one
        ids, stop = ids[: ends[0] + 1], "end"
    elif stop == "end":
        ids = [*ids, *_missing_stop(choice, ids, sampling, tokenizer)]
    # Text may take more tokens than were sampled, and cutting those would cut the reply, so only sampled ids are cut.
    if sampled is not None and len(ids) > sampling.max_tokens:
        ids, stop = ids[: sampling.max_tokens], "length"
    return Completion(tuple(ids), () if sampled is None else _log_probs(choice, len(ids), sampling), stop)


def _stop(choice: _Choice) -> Stop:
    if choice.finish_reason == "length":
        return "length"
    return "end" if choice.finish_reason in _ENDED else "failed"


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
    lowest, highest = _LOG_PROBS
    kept = [value for value in given[:count] if value is not None and lowest <= value <= highest]
    return tuple(kept) if sampling.temperature in (0.0, 1.0) and len(kept) == count else ()


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS else None


def read_models(content: bytes) -> dict[str, dict[str, Any]] | None:
    """Return what a server says of its models, by their names; None if it says something else."""
    try:
        return {str(model["id"]): dict(model) for model in json.loads(content)["data"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def read_identity(
    served: Mapping[str, Mapping[str, Any]], names: Iterable[str], version: bytes | None
) -> dict[str, Any]:
    """Return what tells these models from others. When a model was loaded (`created`) does not."""
    models = {
        name: {key: served[name][key] for key in _IDENTIFYING if key in served[name]}
        for name in sorted(set(names) & served.keys())
    }
    try:
        said = json.loads(version or b"")["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        said = None
    return {"models": models, "version": said if isinstance(said, str) else None}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer. Its words are the server's, and as trustworthy as the server."""

    status: int
    message: str
    blamed: frozenset[str]
    """Fields that the answer names in a place made for it (`param`, or pydantic's `loc`)."""

    @classmethod
    def of(cls, status: int, text: str, *, reason: str = "") -> "Refusal":
        """Read an answer in OpenAI's form, FastAPI's, or any other."""
        body, error = _error_in(text)
        param = error.get("param")
        blamed = {param} if isinstance(param, str) and param else set[str]()
        blamed |= {part for one in _details(error, body) for part in one.get("loc", ()) if isinstance(part, str)}
        return cls(status, message_of(text, otherwise=reason), frozenset(blamed))

    def names(self, field: str) -> bool:
        """Whether this is a complaint about a field: where the answer blames fields as such, those and no others.

        Words alone are the weaker sign: a message may list the fields that a server does know.
        """
        if self.status not in BLAMES_A_FIELD:
            return False
        if self.blamed - {"body"}:
            return field in self.blamed
        return re.search(rf"(?<!\w){re.escape(field)}(?!\w)", self.message) is not None


def message_of(text: str, *, otherwise: str) -> str:
    """Return what an error answer says, in whatever form it says it."""
    body, error = _error_in(text)
    messages = _messages(error.get("message"), error.get("detail"), body.get("detail"))
    return "; ".join(messages) or text.strip() or otherwise


def _error_in(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the answer, and what it says of the error, in it or as a whole."""
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    body = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    error = body.get("error", body)
    if isinstance(error, str):
        error = {"message": error}
    return body, cast("dict[str, Any]", error) if isinstance(error, dict) else {}


def _details(*bodies: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        details = body.get("detail")
        if isinstance(details, list):
            yield from (cast("dict[str, Any]", one) for one in cast("list[Any]", details) if isinstance(one, dict))


def _messages(*found: Any) -> Iterator[str]:
    said: list[str] = []
    for one in found:
        several = cast("list[Any]", one) if isinstance(one, list) else [one]
        said += [part for part in several if isinstance(part, str)]
        for part in several:
            if isinstance(part, dict):
                place = ".".join(str(step) for step in part.get("loc", ()))
                said.append(f"{place}: {part.get('msg', '')}" if place else str(part.get("msg", "")))
    yield from dict.fromkeys(one for one in said if one)
