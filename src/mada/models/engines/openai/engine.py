"""The engine of a completion server: agents are names of models there, and prompts go as token ids."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx

from mada.errors import EngineError
from mada.models.engines.engine import Completion, EngineStatistics, Sampling
from mada.models.engines.openai.connection import Connection, Connections
from mada.models.engines.openai.dialect import Dialect
from mada.models.engines.openai.protocol import Answer, AnswerError, read_answer, request_body
from mada.models.engines.openai.refusal import Refusal
from mada.models.engines.openai.retrying import Backoff, NoAnswerError, ask_until_answered
from mada.models.engines.openai.server import Server

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ADD_ADAPTER = "start vLLM with `--enable-lora --lora-modules NAME=FOLDER` to add an adapter"
_MOST_NAMES = 12


class OpenAIEngine:
    """Samples from any server that speaks OpenAI's completion protocol; adapters are names of models there.

        engine = OpenAIEngine("http://localhost:8000/v1", models={None: "Qwen/Qwen3-4B", "critic-1": "critic-1"},
                              tokenizer=tokenizer)
        await engine.check()
        completions = await engine.sample("critic-1", prompt_ids, Sampling(max_tokens=512), n=8)

    The key is `api_key`, else the environment's MADA_API_KEY or OPENAI_API_KEY; an empty one is none. It is never
    shown. `slots` requests are under way at the same time, each for a whole group. An attempt may take `timeout`
    seconds; a server that is away or busy is asked `attempts` times.

    Fields that the server refuses are left out from then on, and a server that refuses token ids gets text; each such
    discovery is logged once. What to know about servers that do less than vLLM:

    - One that gives no token ids has its text encoded. The ids may then differ from those sampled, for text can be cut
      into tokens in several ways, and there are no log-probabilities.
    - Log-probabilities are kept at temperature 0 and 1 only, where a server's, which are those at temperature 1, are
      those of `Completion`; else, and where the server gives none, there are none: `log_probs` is empty.
    - A server ends a reply at its model's own end too, whether or not that is among the stop tokens.
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
        attempts: int = 6,
        backoff: Backoff | None = None,
    ) -> None:
        for name, value in (("slots", slots), ("attempts", attempts)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0, got {timeout}")
        self.models = dict(models)
        self.slots = slots
        self._server = Server.at(url, api_key)
        self._tokenizer = tokenizer
        self._timeout = timeout
        self._attempts = attempts
        self._backoff = backoff or Backoff()
        self._dialect = Dialect(self._server.url)
        self._connections = Connections(self._server, places=slots)
        self._under_way: set[asyncio.Task[list[Completion]]] = set()
        self._statistics = EngineStatistics()

    def __repr__(self) -> str:
        return f"OpenAIEngine({self._server.url!r}, models={self.models!r}, slots={self.slots})"

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far, as the server counts it where it does; a server's steps are not to be seen."""
        self._statistics.seconds = self._connections.seconds
        return self._statistics

    async def check(self) -> None:
        """Ask the server what it has, and refuse to begin if one of the models is not there."""
        async with self._connections.opened() as connection:
            response = await self._send(connection, "GET", "models")
        if not response.is_success:
            raise self._refused(Refusal.of(response), asked="what models it has")
        served = _names(response)
        if served is None:
            raise EngineError(
                f"{self._server.url}/models does not answer with a list of models, so this is no OpenAI-compatible "
                f"server, or not its address; wanted one such as http://localhost:8000/v1. {self._proof(response)}"
            )
        missing = {agent: name for agent, name in self.models.items() if name not in served}
        if missing:
            wanted = ", ".join(f"{name!r} (for {agent or 'the base'})" for agent, name in missing.items())
            has = ", ".join(self._server.quote(name) for name in served[:_MOST_NAMES]) or "nothing"
            more = f" and {len(served) - _MOST_NAMES} more" if len(served) > _MOST_NAMES else ""
            raise EngineError(
                f"{self._server.url} does not serve {wanted}; it has {has}{more}. Correct the names, or {_ADD_ADAPTER}"
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

    async def rest(self) -> None:
        """Do nothing: what a server holds in memory is its own business."""

    async def resume(self) -> None:
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

    async def _sampled(self, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int) -> list[Completion]:
        # The likeliest reply is the same every time, and vLLM refuses to look for it more than once.
        count = 1 if sampling.temperature == 0 else n
        async with self._connections.opened() as connection, connection.places:
            answer = await self._ask(connection, model, prompt, sampling, count)
        generated = sum(len(completion.token_ids) for completion in answer.completions)
        self._statistics.prompt_tokens += _either(answer.prompt_tokens, len(prompt))
        self._statistics.generated_tokens += _either(answer.generated_tokens, generated)
        return list(answer.completions * (n // count))

    async def _ask(
        self, connection: Connection, model: str, prompt: tuple[int, ...], sampling: Sampling, n: int
    ) -> Answer:
        """Ask until the server has understood the question: every turn leaves out what it refused the time before."""
        text = self._as_text(prompt) if self._dialect.prompts == "text" else None
        while True:
            if sampling.top_k is not None and "top_k" in self._dialect.without:
                raise EngineError(
                    f"{self._server.url} refuses top_k, and top_k = {sampling.top_k} was asked for; leave it out, or "
                    "use a server that knows it, such as vLLM"
                )
            body = request_body(model, prompt if text is None else text, sampling, n=n, without=self._dialect.without)
            response = await self._send(connection, "POST", "completions", body)
            if response.is_success:
                self._dialect.accept(body)
                return self._read(response, prompt, sampling, n=n, as_text=text is not None)
            refusal = Refusal.of(response)
            if self._dialect.drop(body, refusal, quoted=self._server.quote(refusal.message)):
                continue
            if self._dialect.may_want_text(body, refusal):
                text = self._as_text(prompt, refusal)
                continue
            raise self._refused(refusal, asked=f"{model} for a completion")

    async def _send(
        self, connection: Connection, method: str, path: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        async def send() -> httpx.Response:
            return await connection.client.request(method, f"{self._server.url}/{path}", json=body)

        try:
            return await ask_until_answered(send, attempts=self._attempts, timeout=self._timeout, backoff=self._backoff)
        except NoAnswerError as unanswered:
            said = "" if unanswered.response is None else f": {Refusal.of(unanswered.response).message}"
            failure = self._server.quote(f"{unanswered}{said}")
        times = "once" if self._attempts == 1 else f"{self._attempts} times"
        raise EngineError(
            f"{self._server.url} was asked {times} and gave no answer, at last: {failure}. Is the server up, and is "
            "this its address? For one that is slow or busy, lower slots, or raise timeout or attempts"
        )

    def _read(
        self, response: httpx.Response, prompt: tuple[int, ...], sampling: Sampling, *, n: int, as_text: bool
    ) -> Answer:
        try:
            answer = read_answer(response.content, sampling, n=n, tokenizer=self._tokenizer)
        except AnswerError as error:
            raise EngineError(
                f"{self._server.url}/completions gave an answer that cannot be used: {self._server.quote(str(error))}. "
                f"{self._proof(response)}"
            ) from None
        if not answer.has_ids:
            self._dialect.tell("ids", "it gives no token ids, so its text is encoded, which may give others")
        if as_text and answer.prompt_tokens not in (None, len(prompt)):
            self._dialect.tell(
                "read",
                f"it read {answer.prompt_tokens} tokens where {len(prompt)} were sent as text: is its "
                "tokenizer the same, and does it add a token of its own?",
            )
        return answer

    def _as_text(self, prompt: tuple[int, ...], refusal: Refusal | None = None) -> str:
        """Return a prompt as text, if that is the same prompt."""
        text = str(self._tokenizer.decode(list(prompt), skip_special_tokens=False, clean_up_tokenization_spaces=False))
        if tuple(self._tokenizer.encode(text, add_special_tokens=False)) == prompt:
            return text
        said = f" ({self._server.quote(refusal.message)})" if refusal is not None else ""
        raise EngineError(
            f"{self._server.url} refuses prompts of token ids{said}, and this one cannot be sent as text: read again, "
            "it gives other tokens; use a server that takes token ids, such as vLLM"
        )

    def _refused(self, refusal: Refusal, *, asked: str) -> EngineError:
        hints = {
            401: ". Set MADA_API_KEY, or give api_key",
            403: ". Set MADA_API_KEY, or give api_key",
            404: f". Is this the server's address (most end in /v1), and does it serve that model? Or {_ADD_ADAPTER}",
        }
        return EngineError(
            f"{self._server.url}, asked {asked}, refuses with status {refusal.status}: "
            f"{self._server.quote(refusal.message)}{hints.get(refusal.status, '')}"
        )

    def _proof(self, response: httpx.Response) -> str:
        return f"It begins: {self._server.quote(response.text[:80])!r}"


def _names(response: httpx.Response) -> list[str] | None:
    try:
        listed = response.json()["data"]
        return [str(model["id"]) for model in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _either(counted: int | None, otherwise: int) -> int:
    return otherwise if counted is None else counted
