"""The engine of a server with OpenAI's completion protocol, such as vLLM, SGLang or llama.cpp."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from openai import APIStatusError

from mada.errors import EngineError, UnansweredError
from mada.models.engines.engine import Completion, EngineStatistics, Live, Sampling, check_request, fill
from mada.models.engines.openai_client import Backoff, RetryableError, ServerClient
from mada.models.engines.openai_protocol import (
    EXTENSIONS,
    Reply,
    ReplyError,
    blames_field,
    error_message,
    max_reply_bytes,
    read_reply,
    request_body,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_log = logging.getLogger(__name__)
_ADD_ADAPTER = "start vLLM with `--enable-lora --lora-modules NAME=FOLDER` to add an adapter"
_MAX_NAMES = 12
_MAX_MODELS_BYTES = 2**24
_CHECK_RETRY_FOR = 30.0  # seconds: before anything is sampled, a wrong address is likelier than an outage


class OpenAIEngine:
    """Samples from any server with OpenAI's completion protocol; adapters are names of models there.

        engine = OpenAIEngine("http://localhost:8000/v1", models={None: "Qwen/Qwen3-4B", "critic-1": "critic-1"},
                              tokenizer=tokenizer)
        await engine.check()
        completions = await engine.sample("critic-1", prompt_ids, Sampling(max_tokens=512), n=8)

    The key is `api_key`, else the environment's MADA_API_KEY or OPENAI_API_KEY; an empty one is none. It is never
    shown. `slots` requests run at the same time, each for a whole group. An attempt may take `timeout` seconds. A
    server that is away or busy, or whose replies cannot be used, is asked again for `retry_for` seconds; if it then
    answers other requests, this one ends in an `UnansweredError`, else in an `EngineError`.

    Fields that the server refuses are left out from then on, and a server that refuses token ids gets text; each such
    discovery is logged once. Servers that do less than vLLM:

    - Without token ids, the reply's text is encoded. The ids may then differ from those sampled, and there are no
      log-probabilities.
    - Log-probabilities are kept at temperature 0 and 1 only, because servers give those at temperature 1; else
      `log_probs` is empty.
    - A server also ends a reply at its model's own end, whether or not that is among the stop tokens.
    - A reply that ends for another reason, such as content_filter, has `stop="failed"`.
    - Equal seeds give equal samples only as far as the server ensures that.
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
        self._tasks: set[asyncio.Task[list[Completion]]] = set()
        self._statistics = EngineStatistics()
        self._identity: dict[str, Any] = {}
        # What the server supports, learned from its replies and refusals.
        self._refused: set[str] = set()
        self._accepted: set[str] = set()
        self._prompt_kind: Literal["ids", "text"] | None = None
        self._logged: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIEngine({self._client.url!r}, models={self.models!r}, slots={self.slots})"

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far, as the server counts it where it does; its steps are not known."""
        self._statistics.seconds = self._client.seconds
        return self._statistics

    def identity(self) -> dict[str, Any]:
        """Return what the server said of itself and of our models in `check`; empty before.

        Samples are stored under it: a model that was replaced behind the same address is another one.
        """
        return self._identity

    async def check(self) -> None:
        """Ask the server which models it has, and refuse to start if one of ours is missing."""
        url = self._client.url
        try:
            content = await self._get("models")
        except APIStatusError as error:
            raise self._refusal(error, "what models it has") from None
        try:
            version = json.loads(await self._get("../version"))["version"]  # only vLLM has one
        except (EngineError, APIStatusError, ValueError, KeyError, TypeError, RecursionError):
            version = None
        try:
            served = {str(model["id"]): dict(model) for model in json.loads(content)["data"]}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise EngineError(
                f"{url}/models does not answer with a list of models, so this is not the address of an OpenAI-"
                f"compatible server; wanted one such as http://localhost:8000/v1. {self._beginning(content)}"
            ) from None
        # When a model was loaded (`created`) does not tell models apart.
        fields = ("id", "root", "parent", "max_model_len", "owned_by")
        ours = sorted(set(self.models.values()) & served.keys())
        self._identity = {
            "models": {name: {key: served[name][key] for key in fields if key in served[name]} for name in ours},
            "version": version if isinstance(version, str) else None,
        }
        missing = {agent: name for agent, name in self.models.items() if name not in served}
        if missing:
            wanted = ", ".join(f"{name!r} (for {agent or 'the base'})" for agent, name in missing.items())
            has = ", ".join(self._client.quote(name) for name in list(served)[:_MAX_NAMES]) or "nothing"
            more = f" and {len(served) - _MAX_NAMES} more" if len(served) > _MAX_NAMES else ""
            raise EngineError(
                f"{url} does not serve {wanted}; it has {has}{more}. Correct the names, or {_ADD_ADAPTER}"
            )

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`.

        Cancelling the call ends its request.
        """
        check_request(prompt_ids, n)
        if agent not in self.models:
            known = ", ".join(str(one or "None, the base") for one in self.models) or "none"
            raise EngineError(
                f"no model is named for {agent or 'None, the base'}, only for these: {known}; give OpenAIEngine its "
                "name on the server in `models`"
            )
        # A task, so that `close` can cancel it; a caller that is cancelled cancels it too.
        task = asyncio.ensure_future(self._sample(self.models[agent], tuple(prompt_ids), sampling, n))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        completions = await task
        fill(live, completions)
        return completions

    async def sleep(self) -> None:
        """Do nothing: a server keeps its memory."""

    async def wake_up(self) -> None:
        """Do nothing: a server has the adapters that it loaded from files.

        An adapter that changes here does not change there: this engine is for debates and evaluation, not learning.
        """

    async def close(self) -> None:
        """Cancel running requests, which closes the connections."""
        loop = asyncio.get_running_loop()
        tasks = [task for task in self._tasks if task.get_loop() is loop]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _get(self, path: str) -> bytes:
        async with self._client.connected():
            return await self._client.retry(
                lambda: self._client.request("GET", path, max_bytes=_MAX_MODELS_BYTES), retry_for=_CHECK_RETRY_FOR
            )

    async def _sample(self, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int) -> list[Completion]:
        # Greedy replies are all the same, and vLLM refuses to sample more than one.
        asked = 1 if sampling.temperature == 0 else n
        async with self._client.connected() as connection, connection.slots:
            try:
                reply = await self._client.retry(
                    lambda: self._complete(model, prompt, sampling, asked),
                    answers_others=lambda: self._answers_others(model),
                )
            except APIStatusError as error:
                refusal = self._refusal(error, f"{model} for a completion")
                if error.status_code in (400, 413, 422) and await self._answers_others(model):
                    raise UnansweredError(str(refusal)) from None
                raise refusal from None
        counted = sum(len(completion.token_ids) for completion in reply.completions)
        self._statistics.prompt_tokens += len(prompt) if reply.prompt_tokens is None else reply.prompt_tokens
        self._statistics.generated_tokens += counted if reply.generated_tokens is None else reply.generated_tokens
        return list(reply.completions * (n // asked))

    async def _answers_others(self, model: str) -> bool:
        """Return whether the server completes the simplest prompt: then one request failed, and not the server."""
        prompt = tuple(self._tokenizer.encode("1", add_special_tokens=False))
        try:
            await self._complete(model, prompt, Sampling(max_tokens=1, temperature=0.0), 1)
        except (RetryableError, EngineError, APIStatusError):
            return False
        return True

    async def _complete(self, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int) -> Reply:
        """Make one attempt, repeated without each field that the server refuses."""
        text = self._as_text(prompt) if self._prompt_kind == "text" else None
        while True:
            if sampling.top_k is not None and "top_k" in self._refused:
                raise EngineError(
                    f"{self._client.url} refuses top_k, and top_k = {sampling.top_k} was asked for; leave it out, "
                    "or use a server that supports it, such as vLLM"
                )
            body = request_body(model, prompt if text is None else text, sampling, n=n, without=self._refused)
            try:
                content = await self._client.request(
                    "POST", "completions", body, max_bytes=max_reply_bytes(len(prompt), sampling, n=n)
                )
            except APIStatusError as error:
                if self._leave_out_refused(body, error):
                    continue
                if self._prompt_kind is None and text is None and blames_field(error, "prompt"):
                    text = self._as_text(prompt, error)
                    continue
                raise
            reply = self._read(content, sampling, n)
            if text is not None and reply.prompt_tokens not in (None, len(prompt)):
                self._log_once(
                    "prompt tokens",
                    f"it read {reply.prompt_tokens} tokens where {len(prompt)} were sent as text: is its tokenizer the "
                    "same, and does it add a token of its own?",
                )
            # If a field that was accepted once is refused later, its value is the reason.
            self._accepted.update(body)
            if self._prompt_kind is None:
                self._prompt_kind = "ids" if text is None else "text"
                if text is not None:
                    self._log_once("prompts", "it takes no token ids, so prompts are sent to it as text")
            return reply

    def _read(self, content: bytes, sampling: Sampling, n: int) -> Reply:
        try:
            reply = read_reply(content, sampling, n=n, tokenizer=self._tokenizer, vocabulary=self._vocabulary)
        except ReplyError as error:
            message = f"the reply cannot be used: {error}. {self._beginning(content)}"
            raise RetryableError(message, is_odd=True) from None
        if not reply.has_ids:
            self._log_once("ids", "it gives no token ids, so its text is encoded, which may give others")
        for reason in reply.failures:
            quoted = self._client.quote(reason[:40])
            self._log_once(f"reason {quoted}", f"a reply ended with the reason {quoted!r}; such replies count as wrong")
        return reply

    def _leave_out_refused(self, body: Mapping[str, Any], error: APIStatusError) -> bool:
        """Leave out the fields that the server refuses from now on; return whether there are any."""
        blamed = {name for name in EXTENSIONS if name in body and blames_field(error, name)} - self._accepted
        for name in sorted(blamed - self._refused):
            quoted = self._client.quote(error_message(error))
            self._log_once(name, f"it refuses {name} ({quoted}), so that is no longer sent: {EXTENSIONS[name]}")
        self._refused |= blamed
        return bool(blamed)

    def _as_text(self, prompt: tuple[int, ...], error: APIStatusError | None = None) -> str:
        """Return a prompt as text, if that is the same prompt."""
        text = str(self._tokenizer.decode(list(prompt), skip_special_tokens=False, clean_up_tokenization_spaces=False))
        if tuple(self._tokenizer.encode(text, add_special_tokens=False)) == prompt:
            return text
        said = f" ({self._client.quote(error_message(error))})" if error is not None else ""
        raise EngineError(
            f"{self._client.url} refuses prompts of token ids{said}, and this one cannot be sent as text: "
            "encoded again, it gives other tokens; use a server that takes token ids, such as vLLM"
        )

    def _refusal(self, error: APIStatusError, asked: str) -> EngineError:
        hints = {
            401: ". Set MADA_API_KEY, or give api_key",
            403: ". Set MADA_API_KEY, or give api_key",
            404: f". Is this the server's address (most end in /v1), and does it serve that model? Or {_ADD_ADAPTER}",
        }
        return EngineError(
            f"{self._client.url}, asked {asked}, refuses with status {error.status_code}: "
            f"{self._client.quote(error_message(error))}{hints.get(error.status_code, '')}"
        )

    def _log_once(self, topic: str, message: str) -> None:
        if topic not in self._logged:
            self._logged.add(topic)
            _log.warning("%s: %s", self._client.url, message)

    def _beginning(self, content: bytes) -> str:
        return f"It begins: {self._client.quote(content[:240].decode('utf-8', errors='replace')[:80])!r}"
