"""The engine of a completion server: agents are names of models there, and prompts go as token ids."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mada.errors import EngineError, UnansweredError
from mada.models.engines.engine import Completion, EngineStatistics, Sampling
from mada.models.engines.openai.client import Backoff, FailedAttemptError, Reply, ServerClient
from mada.models.engines.openai.protocol import (
    EXTENSIONS,
    Answer,
    AnswerError,
    Refusal,
    most_bytes,
    read_answer,
    read_identity,
    read_models,
    request_body,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_log = logging.getLogger(__name__)
_ADD_ADAPTER = "start vLLM with `--enable-lora --lora-modules NAME=FOLDER` to add an adapter"
_MOST_NAMES = 12
_MODELS_BYTES = 2**24
_FIRST_CONTACT = 30.0  # seconds: before anything is sampled, a wrong address is likelier than an outage
_BLAMES_THE_REQUEST = frozenset({400, 413, 422})


class OpenAIEngine:
    """Samples from any server that speaks OpenAI's completion protocol; adapters are names of models there.

        engine = OpenAIEngine("http://localhost:8000/v1", models={None: "Qwen/Qwen3-4B", "critic-1": "critic-1"},
                              tokenizer=tokenizer)
        await engine.check()
        completions = await engine.sample("critic-1", prompt_ids, Sampling(max_tokens=512), n=8)

    The key is `api_key`, else the environment's MADA_API_KEY or OPENAI_API_KEY; an empty one is none. It is never
    shown. `slots` requests are under way at the same time, each for a whole group. An attempt may take `timeout`
    seconds. A server that is away or busy, or whose replies make no sense, is asked again for `retry_for` seconds; if
    it then answers other requests, this one ends in an `UnansweredError`, else in an `EngineError`.

    Fields that the server refuses are left out from then on, and a server that refuses token ids gets text; each such
    discovery is logged once. What to know about servers that do less than vLLM:

    - One that gives no token ids has its text encoded. The ids may then differ from those sampled, for text can be cut
      into tokens in several ways, and there are no log-probabilities.
    - Log-probabilities are kept at temperature 0 and 1 only, where a server's, which are those at temperature 1, are
      those of `Completion`; else, and where the server gives none, there are none: `log_probs` is empty.
    - A server ends a reply at its model's own end too, whether or not that is among the stop tokens.
    - A reply that ends for another reason, such as content_filter, has `stop="failed"`.
    - Equal seeds give equal samples only as far as the server keeps to that.
    """

    def __init__(
        self,
        url: str,
        *,
        models: Mapping[str | None, str],
        tokenizer: "PreTrainedTokenizerBase",
        api_key: str | None = None,
        slots: int = 64,
        timeout: float = 600.0,
        retry_for: float = 1800.0,
        backoff: Backoff | None = None,
    ) -> None:
        for name, value in (("slots", slots), ("timeout", timeout), ("retry_for", retry_for)):
            if not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")
        self.models = dict(models)
        self.slots = slots
        self._client = ServerClient(url, api_key, slots, timeout, retry_for, backoff or Backoff())
        self._tokenizer = tokenizer
        self._vocabulary = max(tokenizer.get_vocab().values()) + 1
        self._under_way: set[asyncio.Task[list[Completion]]] = set()
        self._statistics = EngineStatistics()
        self._identity: dict[str, Any] = {}
        # What the server turns out to understand, learned from what it refuses and answers.
        self._left_out: set[str] = set()
        self._understood: set[str] = set()
        self._prompts: Literal["ids", "text"] | None = None
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIEngine({self._client.url!r}, models={self.models!r}, slots={self.slots})"

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far, as the server counts it where it does; a server's steps are not to be seen."""
        self._statistics.seconds = self._client.seconds
        return self._statistics

    def identity(self) -> dict[str, Any]:
        """Return what the server said of itself and of our models when it was last checked; empty before that.

        Samples are kept under this: a model that was swapped behind the same address is another one.
        """
        return self._identity

    async def check(self) -> None:
        """Ask the server what it has, and refuse to begin if one of the models is not there."""
        url = self._client.url
        reply, version = await self._get("models"), await self._get("../version")
        if not reply.is_success:
            raise self._refused(Refusal.of(reply.status, reply.text, reason=reply.reason), asked="what models it has")
        served = read_models(reply.content)
        if served is None:
            raise EngineError(
                f"{url}/models does not answer with a list of models, so this is no OpenAI-compatible server, or not "
                f"its address; wanted one such as http://localhost:8000/v1. {self._beginning(reply)}"
            )
        self._identity = read_identity(served, self.models.values(), version.content if version.is_success else None)
        missing = {agent: name for agent, name in self.models.items() if name not in served}
        if missing:
            wanted = ", ".join(f"{name!r} (for {agent or 'the base'})" for agent, name in missing.items())
            has = ", ".join(self._client.quote(name) for name in list(served)[:_MOST_NAMES]) or "nothing"
            more = f" and {len(served) - _MOST_NAMES} more" if len(served) > _MOST_NAMES else ""
            raise EngineError(
                f"{url} does not serve {wanted}; it has {has}{more}. Correct the names, or {_ADD_ADAPTER}"
            )

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`.

        Cancelling the call ends its request.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        if agent not in self.models:
            known = ", ".join(str(one or "None, the base") for one in self.models) or "none"
            raise EngineError(
                f"no model is named for {agent or 'None, the base'}, only for these: {known}; give OpenAIEngine its "
                "name on the server in `models`"
            )
        if not prompt_ids:
            raise EngineError("the prompt is empty; a model needs at least one token to continue")
        # A task of its own, so that `close` can end it; who is cancelled while waiting for it cancels it too.
        task = asyncio.ensure_future(self._sampled(self.models[agent], tuple(prompt_ids), sampling, n))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await task

    async def sleep(self) -> None:
        """Do nothing: what a server holds in memory is its own business."""

    async def wake_up(self) -> None:
        """Do nothing: a server loads adapters from files, and answers with those that it has loaded.

        So an adapter that changes here does not change there: this engine is for debates and evaluation, and a learner
        wants one that shares its adapters.
        """

    async def close(self) -> None:
        """Cancel what is under way, which closes the connections."""
        loop = asyncio.get_running_loop()
        unfinished = [task for task in self._under_way if task.get_loop() is loop]
        self._under_way.clear()
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    async def _get(self, path: str) -> Reply:
        async with self._client.opened():
            return await self._client.ask(
                lambda: self._client.fetch("GET", path, most_bytes=_MODELS_BYTES),
                retry_for=min(_FIRST_CONTACT, self._client.retry_for),
            )

    async def _sampled(self, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int) -> list[Completion]:
        # The likeliest reply is the same every time, and vLLM refuses to look for it more than once.
        count = 1 if sampling.temperature == 0 else n
        async with self._client.opened() as connection, connection.slots:
            try:
                answer = await self._client.ask(
                    lambda: self._exchange(model, prompt, sampling, count),
                    answers_others=lambda: self._answers(model),
                )
            except _RefusedError as refused:
                error = self._refused(refused.refusal, asked=f"{model} for a completion")
                if refused.refusal.status in _BLAMES_THE_REQUEST and await self._answers(model):
                    raise UnansweredError(str(error)) from None
                raise error from None
        generated = sum(len(completion.token_ids) for completion in answer.completions)
        self._statistics.prompt_tokens += _either(answer.prompt_tokens, len(prompt))
        self._statistics.generated_tokens += _either(answer.generated_tokens, generated)
        return list(answer.completions * (n // count))

    async def _answers(self, model: str) -> bool:
        """Whether the server completes the simplest prompt: then what failed is one request, and not the server."""
        prompt = tuple(self._tokenizer.encode("1", add_special_tokens=False))
        try:
            await self._exchange(model, prompt, Sampling(max_tokens=1, temperature=0.0), 1)
        except (FailedAttemptError, EngineError, _RefusedError):
            return False
        return True

    async def _exchange(self, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int) -> Answer:
        """Ask once, and again without what the server refuses, until it has understood the question."""
        text = self._as_text(prompt) if self._prompts == "text" else None
        while True:
            if sampling.top_k is not None and "top_k" in self._left_out:
                raise EngineError(
                    f"{self._client.url} refuses top_k, and top_k = {sampling.top_k} was asked for; leave it out, or "
                    "use a server that knows it, such as vLLM"
                )
            body = request_body(model, prompt if text is None else text, sampling, n=n, without=self._left_out)
            reply = await self._client.fetch(
                "POST", "completions", body, most_bytes=most_bytes(len(prompt), sampling, n=n)
            )
            if reply.is_success:
                answer = self._read(reply, prompt, sampling, n=n, as_text=text is not None)
                self._accept(body)
                return answer
            refusal = Refusal.of(reply.status, reply.text, reason=reply.reason)
            if self._leave_out(body, refusal):
                continue
            if self._prompts is None and text is None and refusal.names("prompt"):
                text = self._as_text(prompt, refusal)
                continue
            raise _RefusedError(refusal)

    def _read(self, reply: Reply, prompt: tuple[int, ...], sampling: Sampling, *, n: int, as_text: bool) -> Answer:
        try:
            answer = read_answer(reply.content, sampling, n=n, tokenizer=self._tokenizer, vocabulary=self._vocabulary)
        except AnswerError as error:
            said = f"the reply cannot be used: {error}. {self._beginning(reply)}"
            raise FailedAttemptError(said, is_odd=True) from None
        if not answer.has_ids:
            self._tell("ids", "it gives no token ids, so its text is encoded, which may give others")
        if as_text and answer.prompt_tokens not in (None, len(prompt)):
            self._tell(
                "read",
                f"it read {answer.prompt_tokens} tokens where {len(prompt)} were sent as text: is its "
                "tokenizer the same, and does it add a token of its own?",
            )
        for reason in answer.odd_endings:
            said = self._client.quote(reason[:40])
            self._tell(f"reason {said}", f"a reply ended with the reason {said!r}; such replies count as wrong")
        return answer

    def _accept(self, body: Mapping[str, Any]) -> None:
        """Remember what was in a request that was answered: if it is refused later, then for its value."""
        self._understood.update(body)
        if self._prompts is None:
            self._prompts = "text" if isinstance(body["prompt"], str) else "ids"
            if self._prompts == "text":
                self._tell("prompts", "it takes no token ids, so prompts are sent to it as text")

    def _leave_out(self, body: Mapping[str, Any], refusal: Refusal) -> bool:
        """Leave out what the server refuses from now on; return whether the request is now another one."""
        blamed = {name for name in EXTENSIONS if name in body and refusal.names(name)} - self._understood
        quoted = self._client.quote(refusal.message)
        for name in sorted(blamed - self._left_out):
            self._tell(name, f"it refuses {name} ({quoted}), so that is no longer sent: {EXTENSIONS[name]}")
        self._left_out |= blamed
        return bool(blamed)

    def _as_text(self, prompt: tuple[int, ...], refusal: Refusal | None = None) -> str:
        """Return a prompt as text, if that is the same prompt."""
        text = str(self._tokenizer.decode(list(prompt), skip_special_tokens=False, clean_up_tokenization_spaces=False))
        if tuple(self._tokenizer.encode(text, add_special_tokens=False)) == prompt:
            return text
        said = f" ({self._client.quote(refusal.message)})" if refusal is not None else ""
        raise EngineError(
            f"{self._client.url} refuses prompts of token ids{said}, and this one cannot be sent as text: read again, "
            "it gives other tokens; use a server that takes token ids, such as vLLM"
        )

    def _refused(self, refusal: Refusal, *, asked: str) -> EngineError:
        hints = {
            401: ". Set MADA_API_KEY, or give api_key",
            403: ". Set MADA_API_KEY, or give api_key",
            404: f". Is this the server's address (most end in /v1), and does it serve that model? Or {_ADD_ADAPTER}",
        }
        return EngineError(
            f"{self._client.url}, asked {asked}, refuses with status {refusal.status}: "
            f"{self._client.quote(refusal.message)}{hints.get(refusal.status, '')}"
        )

    def _beginning(self, reply: Reply) -> str:
        return f"It begins: {self._client.quote(reply.text[:80])!r}"

    def _tell(self, topic: str, what: str) -> None:
        """Log something about the server, once."""
        if topic not in self._told:
            self._told.add(topic)
            _log.warning("%s: %s", self._client.url, what)


class _RefusedError(Exception):
    """A server that understood a request, and refuses it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _either(counted: int | None, otherwise: int) -> int:
    return otherwise if counted is None else counted
