"""The engine in this process: one batch that every waiting request shares, refilled as rows end."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mada.errors import EngineError
from mada.models.adapters import AdapterStack
from mada.models.engines.engine import Completion, EngineStatistics, Sampling
from mada.models.engines.local.batch import Batch, Drawn
from mada.models.engines.local.network import Prompts
from mada.models.engines.local.rows import Queue, Request, Row
from mada.models.engines.local.setup import Limits, make_batch
from mada.models.forward import lengths_vary

_slot = attrgetter("slot")
_length = attrgetter("length")
_filtered = attrgetter("filtered")


class LocalEngine:
    """Samples from a model in this process, on a CPU or a CUDA device, with the very tensors that a learner updates.

        engine = LocalEngine(model, stack, context=2048)
        completions = await engine.sample("generator-1", prompt_ids, Sampling(max_tokens=512), n=8)

    All requests share one batch, whatever their agents. A prompt is read once for its whole group; a row that ends
    makes room for the next at once. Between steps the event loop runs, so callers go on while the engine works.

    `context` is the longest row, prompt included; `kv_memory` (bytes) and `rows` bound the batch. Without `kv_memory`
    the batch takes what a learner on the same device can spare, or more of it if the engine is `alone` there.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        stack: AdapterStack | None = None,
        *,
        context: int | None = None,
        rows: int | None = None,
        kv_memory: int | None = None,
        alone: bool = False,
    ) -> None:
        self._limits = Limits.of(model, context=context, rows=rows, kv_memory=kv_memory, alone=alone)
        self._stack = stack
        self._vocabulary: int = model.config.get_text_config().vocab_size
        self._batch: Batch = make_batch(model, stack, self._limits)
        self._waiting = Queue()
        # The living rows, in the order of their slots. Whether some have ended or were given up is noted when it
        # happens, so that steps at which nothing ended need not look.
        self._rows: list[Row] = []
        self._ended = False
        self._given_up = False
        # What was drawn for whom; `None` where a slot was idle.
        self._drawn: deque[tuple[Sequence[Row | None], Drawn]] = deque()
        self._serving: asyncio.Task[None] | None = None
        self.statistics = EngineStatistics()

    @property
    def slots(self) -> int:
        """How many rows the batch has room for."""
        return self._batch.cache.slots

    @property
    def context(self) -> int:
        """The longest row, prompt included."""
        return self._limits.context

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`."""
        request = self._request(agent, prompt_ids, sampling, n)
        self._waiting.append(request)
        # A task belongs to one event loop; after `asyncio.run` has ended, the next loop needs its own.
        if self._serving is None or self._serving.done() or self._serving.get_loop() is not request.result.get_loop():
            self._serving = asyncio.create_task(self._serve())
        try:
            return await request.result
        except asyncio.CancelledError:
            self._given_up = True
            raise

    async def rest(self) -> None:
        """Keep everything: the cache is small beside what a learner needs, and captured steps refer to it."""

    async def resume(self) -> None:
        """Do nothing: the adapters are the very tensors that the optimizer has written."""

    async def close(self) -> None:
        """Cancel what is still waiting."""
        self._given_up = True
        for request in {*self._waiting, *(row.request for row in self._rows)}:
            request.result.cancel()
        if self._serving is not None and not self._serving.done():
            await self._serving

    def _request(self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, n: int) -> Request:
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        if agent is not None and self._stack is None:
            raise EngineError(
                f"this engine has no adapters, so no agent {agent!r}; give LocalEngine a stack, or ask None"
            )
        prompt = tuple(prompt_ids)
        if not prompt:
            raise EngineError("the prompt is empty; a model needs at least one token to continue")
        if not 0 <= min(prompt) <= max(prompt) < self._vocabulary:
            odd = next(token for token in prompt if not 0 <= token < self._vocabulary)
            raise EngineError(f"the prompt holds token {odd}, and the model knows 0 to {self._vocabulary - 1}")
        room = self._limits.context - len(prompt)
        if room < 1:
            raise EngineError(
                f"the prompt has {len(prompt):,} tokens and the engine's context is {self._limits.context:,}, so there "
                "is no room for a reply; shorten the prompt, or raise the context"
            )
        index = self._stack.index(agent) if self._stack else -1
        result: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        # Of now: if the adapter changes before the last token is drawn, the completion counts as the older version's.
        version = self._stack.version(agent) if self._stack and agent is not None else None
        return Request(index, prompt, sampling, n, min(sampling.max_tokens, room), result, version)

    async def _serve(self) -> None:
        """Work until nobody waits."""
        # An event loop that has ended may have left requests behind that nobody waits for.
        self._given_up = True
        try:
            while self._rows or self._waiting or self._drawn:
                started = time.monotonic()
                with torch.inference_mode():
                    self._work()
                self.statistics.seconds += time.monotonic() - started
                await asyncio.sleep(0)
        except Exception as error:
            self._fail(error)

    def _work(self) -> None:
        if self._given_up:
            self._drop_cancelled()
        if self._ended:
            self._drop_ended()
        self._admit()
        self._close_gaps()
        if self._rows:
            self._step()
        # With a lag the device is already at the next step while the host looks at this one.
        while len(self._drawn) > (self._limits.lag if self._rows else 0):
            self._take(*self._drawn.popleft())

    def _step(self) -> None:
        """Draw every living row's next token; slots between them that are idle are computed too, and ignored."""
        seats = self._seats()
        # A row that has just begun has a first token that the host has not seen yet.
        longest = min(max(map(_length, self._rows)) + 1 + self._limits.lag, self.context)
        drawn = self._batch.step(len(seats), longest=longest, filtered=any(map(_filtered, self._rows)))
        self.statistics.steps += 1
        self.statistics.rows_stepped += len(self._rows)
        self._drawn.append((seats, drawn))

    def _seats(self) -> list[Row | None]:
        """Return who lives in each slot up to the last row's, for later: rows may move before the tokens are there."""
        seats: list[Row | None] = [None] * self._extent
        for row in self._rows:
            seats[row.slot] = row
        return seats

    @property
    def _extent(self) -> int:
        """How many slots a step must go over to reach every living row."""
        return self._rows[-1].slot + 1 if self._rows else 0

    def _take(self, seats: Sequence[Row | None], drawn: Drawn) -> None:
        tokens, log_probs = drawn.fetch()
        for row, token, log_prob in zip(seats, tokens, log_probs, strict=True):
            if row is None or row.done:
                continue
            self.statistics.generated_tokens += 1
            completion = row.take(token, log_prob)
            if completion is not None:
                self._finish(row, completion)

    def _finish(self, row: Row, completion: Completion) -> None:
        self._ended = True
        request = row.request
        request.rows.remove(row)
        request.finished[row.place] = completion
        if len(request.finished) == request.count and not request.cancelled:
            request.result.set_result([request.finished[place] for place in range(request.count)])

    def _drop_cancelled(self) -> None:
        """Give up what nobody waits for any more."""
        self._given_up = False
        self._waiting.drop_cancelled()
        for row in self._rows:
            row.done = row.done or row.request.cancelled
        self._ended = True

    def _drop_ended(self) -> None:
        """Leave the slots of rows that have ended idle, for others to begin in."""
        self._ended = False
        idle = [row.slot for row in self._rows if row.done]
        if idle:
            self._rows = [row for row in self._rows if not row.done]
            self._batch.clear(idle)

    def _admit(self) -> None:
        """Give free slots to whoever waits longest."""
        wanted = self._waiting.wanted
        # Reading prompts holds up all rows, so where that is dear a few slots are collected first.
        if not wanted or (self._rows and self.slots - len(self._rows) < min(wanted, self._limits.admit_at_least)):
            return
        free = self._free(self.slots)
        fresh: list[Request] = []
        begun: list[Row] = []
        while self._waiting and free:
            request = self._waiting.first
            living = request.rows[0] if request.rows else None
            rows = self._waiting.begin(free)
            del free[: len(rows)]
            begun += rows
            self._rows += rows
            if living is None:
                fresh.append(request)
            else:
                slots = self._batch.whole([row.slot for row in rows])
                self._batch.cache.copy(living.slot, slots, length=len(request.prompt_ids))
        self._rows.sort(key=_slot)
        self._batch.place(begun)
        for chunk in _chunks(_alike(fresh), tokens=self._limits.prompt_tokens):
            self._read(chunk)
        self._draw_first(begun)

    def _free(self, below: int) -> list[int]:
        """Return the slots below a bound in which no row lives."""
        taken = set(map(_slot, self._rows))
        return [slot for slot in range(below) if slot not in taken]

    def _read(self, alike: list[list[Request]]) -> None:
        """Read several prompts at once, each into the slots of all rows of all requests that begin with it."""
        requests = [same[0] for same in alike]
        width = max(len(request.prompt_ids) for request in requests)
        padded = [[*request.prompt_ids, *[0] * (width - len(request.prompt_ids))] for request in requests]
        pairs = [(row.slot, place) for place, same in enumerate(alike) for request in same for row in request.rows]
        whole = self._batch.whole
        prompts = Prompts(
            ids_PT=whole(padded),
            lengths_P=whole([len(request.prompt_ids) for request in requests]),
            gate_PK=self._batch.gate(whole([request.agent for request in requests])),
            slots_N=whole([slot for slot, _ in pairs]),
            prompts_N=whole([place for _, place in pairs]),
        )
        with lengths_vary(self._batch.device):
            logits_PV = self._batch.network.read(prompts, self._batch.cache)
        for same, logits in zip(alike, logits_PV, strict=True):
            kept = logits.clone()
            for request in same:
                request.last_logits = kept
            self.statistics.prompt_tokens += len(same[0].prompt_ids)

    def _draw_first(self, rows: list[Row]) -> None:
        logits: list[Tensor] = []
        for row in rows:
            assert row.request.last_logits is not None
            logits.append(row.request.last_logits)
        filtered = any(map(_filtered, rows))
        self._drawn.append((rows, self._batch.begin(rows, torch.stack(logits), filtered=filtered)))

    def _close_gaps(self) -> None:
        """Move rows into idle slots nearer the front, if a step over fewer slots is cheaper and nobody wants them."""
        room = self._batch.size_for(len(self._rows))
        if self._waiting or self._batch.size_for(self._extent) <= room:
            return
        beyond = [row for row in self._rows if row.slot >= room]
        gaps = self._free(room)[: len(beyond)]
        lengths = [min(row.length + 1 + self._limits.lag, self.context) for row in beyond]
        self._batch.move([row.slot for row in beyond], gaps, lengths=lengths)
        for row, slot in zip(beyond, gaps, strict=True):
            row.slot = slot
        self._rows.sort(key=_slot)

    def _fail(self, error: Exception) -> None:
        for request in {*self._waiting, *(row.request for row in self._rows)}:
            if not request.cancelled:
                request.result.set_exception(error)
        self._waiting.clear()
        self._rows.clear()
        self._drawn.clear()


def _alike(requests: list[Request]) -> list[list[Request]]:
    """Put requests with the same prompt to the same agent together, such as a vote's, whose prompt is read once."""
    found: dict[tuple[int, tuple[int, ...]], list[Request]] = {}
    for request in requests:
        found.setdefault((request.agent, request.prompt_ids), []).append(request)
    return list(found.values())


def _chunks(alike: list[list[Request]], *, tokens: int) -> list[list[list[Request]]]:
    """Cut prompts into batches of at most so many tokens, padding included; prompts of like length together."""
    chunks: list[list[list[Request]]] = []
    for same in sorted(alike, key=lambda same: len(same[0].prompt_ids)):
        # Sorted, so the newest is the longest, and decides the padded width.
        if chunks and (len(chunks[-1]) + 1) * len(same[0].prompt_ids) <= tokens:
            chunks[-1].append(same)
        else:
            chunks.append([same])
    return chunks
