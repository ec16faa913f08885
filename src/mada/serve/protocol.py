"""OpenAI's requests as mada takes them, and the errors it answers with.

A field that mada cannot honour is refused with a 400 that names it; only fields that change nothing are ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from mada.seeds import SEED_BITS

MAX_CHOICES = 128
MAX_ROUNDS = 8
_IGNORED = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"}
)
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "top_logprobs": (0,),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "use_beam_search": (False,),
    "spaces_between_special_tokens": (True,),
    "return_tokens_as_token_ids": (False, True),
}
"""Fields that mada has no use for, and the values that ask for nothing."""


class RequestError(Exception):
    """A request that is refused, as the client is told: status, message, and where they help the field and a code."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after

    @property
    def body(self) -> dict[str, Any]:
        """The error in OpenAI's form."""
        kind = "invalid_request_error" if self.status < 429 else "server_error"
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, kind)
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Part(BaseModel):
    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A message of a chat; its content is text, whole or in parts."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str

    @field_validator("content", mode="before")
    @classmethod
    def _joined(cls, content: object) -> object:
        if isinstance(content, list):
            return "".join(_Part.model_validate(part).text for part in content)
        return content


class MadaOptions(BaseModel):
    """The field `mada` of a chat request: the team's rounds, and whether the stream has the debate's events."""

    model_config = ConfigDict(extra="forbid")

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] | None = None
    events: bool = False


class _StreamOptions(BaseModel):
    include_usage: bool = False


class SamplingRequest(BaseModel):
    """What chat and completion requests have in common; what is left out is as the served team has it."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] = 1
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**SEED_BITS), lt=2**SEED_BITS)] | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()
    return_token_ids: bool = False
    skip_special_tokens: bool = True

    @field_validator("stop", mode="before")
    @classmethod
    def _several(cls, stop: object) -> object:
        return () if stop is None else (stop,) if isinstance(stop, str) else stop

    @field_validator("stop")
    @classmethod
    def _few(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if len(stop) > 16 or not all(1 <= len(one) <= 200 for one in stop):
            raise ValueError("wanted at most 16 texts of 1 to 200 characters")
        return stop

    @field_validator("n", "stream", "stop_token_ids", "stream_options", "skip_special_tokens", mode="before")
    @classmethod
    def _default(cls, value: object, info: Any) -> object:
        return cls.model_fields[info.field_name].get_default() if value is None else value


class ChatRequest(SamplingRequest):
    """The body of `/v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    mada: MadaOptions = MadaOptions()

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.messages[-1].role != "user":
            raise ValueError("the last message must be the user's")
        self.max_tokens = self.max_completion_tokens or self.max_tokens
        return self


class CompletionRequest(SamplingRequest):
    """The body of `/v1/completions`."""

    prompt: str | list[int] | list[str] | list[list[int]]
    logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    add_special_tokens: bool = True

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """The prompts, of which each gets `n` choices."""
        if isinstance(self.prompt, str) or not self.prompt or isinstance(self.prompt[0], int):
            return [self.prompt]  # type: ignore[list-item]
        return self.prompt  # type: ignore[return-value]


def parse(kind: type[BaseModel], body: bytes) -> Any:
    """Read a request; raise RequestError that names the first field that is wrong."""
    try:
        fields = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "the body is not a JSON object")
    for name, value in fields.items():
        if name in kind.model_fields or name in _IGNORED or value is None:
            continue
        if name not in _NEUTRAL:
            raise RequestError(400, f"{name[:80]!r} is not a field that mada knows; leave it out", param=name[:80])
        if value not in _NEUTRAL[name]:
            raise RequestError(400, f"mada does not support {name!r}; leave it out", param=name)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise RequestError(400, f"{where}: {message}" if where else message, param=where or None) from None


def question_of(messages: Sequence[Message]) -> str:
    """Return a chat as one question, which is what agents debate.

    A single user message is the question as it stands. Instructions of the system stand before it; what was said
    earlier stands between them, speaker by speaker, and the last message is asked "with this in mind".
    """
    instructions = [one.content for one in messages[:-1] if one.role in ("system", "developer")]
    earlier = [one for one in messages[:-1] if one.role in ("user", "assistant")]
    parts = [text for text in instructions if text.strip()]
    if earlier:
        said = [f"{one.role.capitalize()}: {one.content}" for one in earlier]
        parts += ["This was said before:", *said, "With this in mind, answer the following:"]
    return "\n\n".join([*parts, messages[-1].content])
