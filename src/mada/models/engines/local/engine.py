"""The engine in this process: one batch that all waiting requests share, refilled as rows end."""

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
from mada.models.engines.engine import Completion, EngineStatistics, Live, Sampling, check_request
from mada.models.engines.local.batch import Batch, SampledTokens
from mada.models.engines.local.network import PromptBatch
from mada.models.engines.local.requests import Request, RequestQueue, Row
from mada.models.engines.local.setup import Limits, make_batch
from mada.models.forward import no_cudnn_attention

_slot = attrgetter("slot")
_length = attrgetter("length")
_filtered = attrgetter("filtered")


class LocalEngine:
    """Samples from a model in this process, on a CPU or a CUDA device, with the very tensors that a learner updates.

        engine = LocalEngine(model, stack, context=2048)
        completions = await engine.sample("generator-1", prompt_ids, Sampling(max_tokens=512), n=8)

    All requests share one batch, whatever their agents. A prompt is read once for its whole group, and the slot of a
    finished row is refilled at once. The event loop runs between steps, so callers go on while the engine works.

    `context` is the longest row, prompt included; `kv_memory` (bytes) and `rows` bound the batch. Without `kv_memory`
    the batch takes what a learner on the same device can spare, or more if the engine is `alone` there.
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
        self._queue = RequestQueue()
        # The rows in progress, by slot. The two flags are set when a row ends or a request is cancelled, so that other
        # steps need not go through all rows.
        self._rows: list[Row] = []
        self._has_finished = False
        self._has_cancelled = False
        # Sampled tokens that the host has not read, and the row of each; `None` where a slot was idle.
        self._unread: deque[tuple[Sequence[Row | None], SampledTokens]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.statistics = EngineStatistics()

    @property
    def slots(self) -> int:
        """How many rows the batch can hold."""
        return self._batch.cache.slots

    @property
    def context(self) -> int:
        """The longest row, prompt included."""
        return self._limits.context

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`."""
        request = self._request(agent, prompt_ids, sampling, n, live)
        self._queue.append(request)
        # A task belongs to one event loop; after `asyncio.run` has ended, the next loop needs its own.
        if self._task is None or self._task.done() or self._task.get_loop() is not request.result.get_loop():
            self._task = asyncio.create_task(self._run())
        try:
            return await request.result
        except asyncio.CancelledError:
            self._has_cancelled = True
            raise

    @property
    def rows_in_use(self) -> int:
        """How many rows are being sampled now."""
        return len(self._rows)

    async def sleep(self) -> None:
        """Keep everything: the cache is small beside what a learner needs, and CUDA graphs refer to it."""

    async def wake_up(self) -> None:
        """Do nothing: the adapters are the very tensors that the optimizer has written."""

    async def close(self) -> None:
        """Cancel what is still waiting."""
        self._has_cancelled = True
        for request in self._requests():
            request.result.cancel()
        if self._task is not None and not self._task.done():
            await self._task

    def _request(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        n: int,
        live: Sequence[Live] | None,
    ) -> Request:
        prompt = tuple(prompt_ids)
        check_request(prompt, n, vocabulary=self._vocabulary, context=self.context)
        if agent is not None and self._stack is None:
            raise EngineError(f"this engine has no adapters, so no agent {agent!r}; give it a stack, or ask None")
        index = self._stack.index(agent) if self._stack else -1
        result: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        limit = min(sampling.max_tokens, self.context - len(prompt))
        # The version now: if the adapter changes before the last token, the completion counts as the older version's.
        version = self._stack.version(agent) if self._stack and agent is not None else None
        return Request(index, prompt, sampling, n, limit, result, version, live or ())

    def _requests(self) -> set[Request]:
        return {*self._queue, *(row.request for row in self._rows)}

    async def _run(self) -> None:
        """Step until no request is left."""
        # An event loop that has ended may have left requests behind that nobody waits for.
        self._has_cancelled = True
        try:
            while self._rows or self._queue or self._unread:
                started = time.monotonic()
                with torch.inference_mode():
                    self._iterate()
                self.statistics.seconds += time.monotonic() - started
                await asyncio.sleep(0)
        except Exception as error:
            for request in self._requests():
                if not request.cancelled:
                    request.result.set_exception(error)
            self._queue.clear()
            self._rows.clear()
            self._unread.clear()

    def _iterate(self) -> None:
        if self._has_cancelled:
            self._has_cancelled = False
            self._queue.drop_cancelled()
            for row in self._rows:
                row.done = row.done or row.request.cancelled
            self._has_finished = True
        if self._has_finished:
            self._free_finished()
        self._admit()
        self._compact()
        if self._rows:
            self._step()
        # With steps ahead, the device is already at the next step while the host reads this one's tokens.
        while len(self._unread) > (self._limits.steps_ahead if self._rows else 0):
            self._read(*self._unread.popleft())

    def _step(self) -> None:
        """Sample the next token of every row; idle slots between them are computed too, and ignored."""
        # Rows may move before their tokens are read.
        slots: list[Row | None] = [None] * self._extent
        for row in self._rows:
            slots[row.slot] = row
        # A new row has a first token that the host has not read yet.
        longest = min(max(map(_length, self._rows)) + 1 + self._limits.steps_ahead, self.context)
        sampled = self._batch.step(len(slots), longest=longest, filtered=any(map(_filtered, self._rows)))
        self.statistics.steps += 1
        self.statistics.rows_stepped += len(self._rows)
        self._unread.append((slots, sampled))

    @property
    def _extent(self) -> int:
        """How many slots a step must compute to reach every row."""
        return self._rows[-1].slot + 1 if self._rows else 0

    def _read(self, slots: Sequence[Row | None], sampled: SampledTokens) -> None:
        tokens, log_probs = sampled.fetch()
        for row, token, log_prob in zip(slots, tokens, log_probs, strict=True):
            if row is None or row.done:
                continue
            self.statistics.generated_tokens += 1
            completion = row.append(token, log_prob)
            if completion is not None:
                self._has_finished = True
                request = row.request
                request.rows.remove(row)
                request.finished[row.index] = completion
                if len(request.finished) == request.count and not request.cancelled:
                    request.result.set_result([request.finished[index] for index in range(request.count)])

    def _free_finished(self) -> None:
        self._has_finished = False
        idle = [row.slot for row in self._rows if row.done]
        if idle:
            self._rows = [row for row in self._rows if not row.done]
            self._batch.clear(idle)

    def _admit(self) -> None:
        """Start rows of the requests that have waited longest in the free slots."""
        waiting = self._queue.completions
        # Prefill delays all rows, so where it is expensive several slots are collected first.
        if not waiting or (self._rows and self.slots - len(self._rows) < min(waiting, self._limits.admit_at_least)):
            return
        free = self._free_slots(self.slots)
        new_requests: list[Request] = []
        new_rows: list[Row] = []
        while self._queue and free:
            request = self._queue.first
            living = request.rows[0] if request.rows else None
            rows = self._queue.start_rows(free)
            del free[: len(rows)]
            new_rows += rows
            self._rows += rows
            if living is None:
                new_requests.append(request)
            else:
                slots = self._batch.integers([row.slot for row in rows])
                self._batch.cache.copy(living.slot, slots, length=len(request.prompt_ids))
        self._rows.sort(key=_slot)
        self._batch.add(new_rows)
        for chunk in _chunks(_group_by_prompt(new_requests), tokens=self._limits.prefill_tokens):
            self._prefill(chunk)
        self._sample_first(new_rows)

    def _free_slots(self, below: int) -> list[int]:
        taken = set(map(_slot, self._rows))
        return [slot for slot in range(below) if slot not in taken]

    def _prefill(self, groups: list[list[Request]]) -> None:
        """Read several prompts at once, each into the slots of all rows of all requests that start with it."""
        requests = [group[0] for group in groups]
        width = max(len(request.prompt_ids) for request in requests)
        padded = [[*request.prompt_ids, *[0] * (width - len(request.prompt_ids))] for request in requests]
        pairs = [(row.slot, index) for index, group in enumerate(groups) for request in group for row in request.rows]
        integers = self._batch.integers
        prompts = PromptBatch(
            ids_PT=integers(padded),
            lengths_P=integers([len(request.prompt_ids) for request in requests]),
            gate_PK=self._batch.gate(integers([request.agent for request in requests])),
            slots_N=integers([slot for slot, _ in pairs]),
            prompts_N=integers([index for _, index in pairs]),
        )
        with no_cudnn_attention(self._batch.device):
            logits_PV = self._batch.network.prefill(prompts, self._batch.cache)
        for group, logits in zip(groups, logits_PV, strict=True):
            kept = logits.clone()
            for request in group:
                request.last_logits = kept
            self.statistics.prompt_tokens += len(group[0].prompt_ids)

    def _sample_first(self, rows: list[Row]) -> None:
        logits: list[Tensor] = []
        for row in rows:
            assert row.request.last_logits is not None
            logits.append(row.request.last_logits)
        filtered = any(map(_filtered, rows))
        self._unread.append((rows, self._batch.sample_first(rows, torch.stack(logits), filtered=filtered)))

    def _compact(self) -> None:
        """Move rows into idle slots nearer the front, if that makes a step cheaper and no request waits for them."""
        size = self._batch.padded_size(len(self._rows))
        if self._queue or self._batch.padded_size(self._extent) <= size:
            return
        beyond = [row for row in self._rows if row.slot >= size]
        free = self._free_slots(size)[: len(beyond)]
        lengths = [min(row.length + 1 + self._limits.steps_ahead, self.context) for row in beyond]
        self._batch.move([row.slot for row in beyond], free, lengths=lengths)
        for row, slot in zip(beyond, free, strict=True):
            row.slot = slot
        self._rows.sort(key=_slot)


def _group_by_prompt(requests: list[Request]) -> list[list[Request]]:
    """Group requests with the same prompt to the same agent, such as a vote's: their prompt is read once."""
    groups: dict[tuple[int, tuple[int, ...]], list[Request]] = {}
    for request in requests:
        groups.setdefault((request.agent, request.prompt_ids), []).append(request)
    return list(groups.values())


def _chunks(groups: list[list[Request]], *, tokens: int) -> list[list[list[Request]]]:
    """Split prompts into batches of at most so many tokens, padding included; prompts of similar length together."""
    chunks: list[list[list[Request]]] = []
    for group in sorted(groups, key=lambda group: len(group[0].prompt_ids)):
        # Sorted, so the newest is the longest, and decides the padded width.
        if chunks and (len(chunks[-1]) + 1) * len(group[0].prompt_ids) <= tokens:
            chunks[-1].append(group)
        else:
            chunks.append([group])
    return chunks
