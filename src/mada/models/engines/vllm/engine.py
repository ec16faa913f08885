"""The engine that samples with vLLM: who asks for what, which version of an adapter answers, and when it rests."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import torch

from mada.concurrency import all_or_none
from mada.errors import AdapterError, EngineError
from mada.models.adapters import AdapterStack, read_lora
from mada.models.engines.engine import Completion, EngineStatistics, Sampling
from mada.models.engines.vllm.backend import GIB, VllmBackend, share_of_memory
from mada.models.engines.vllm.handover import Handover, Version
from mada.models.engines.vllm.interface import Backend, Settings
from mada.models.loading import DTYPES, resolve_model
from mada.seeds import seed_for

# What a learner keeps for every number of an adapter: gradient, float32 master and two moments, four bytes each; and
# what it needs for a moment before vLLM has given its memory back.
_LEARNER_BYTES = 16
_LEARNER_SLACK = 2 * GIB


class VllmEngine:
    """Samples with vLLM on a CUDA device: many adapters in one batch, paged keys and values, prompts shared.

        engine = await VllmEngine.start("Qwen/Qwen2.5-1.5B-Instruct", stack=stack, context=4608)
        completions = await engine.sample("generator-1", prompt_ids, Sampling(max_tokens=512), n=8)

    vLLM runs in a process of its own (AsyncLLM knows no other way), which Python starts by importing the main module
    anew: a script must begin its work under `if __name__ == "__main__":`, as `mada` does. The engine belongs to the
    event loop it was started in.

    A group of `n` is `n` requests with seeds of their own, made from the request's seed and the place in the group;
    vLLM's own `n` counts seeds up, so that neighbouring seeds would share samples, and refuses temperature 0. The
    prompt is read once all the same: its blocks of 16 tokens are found in the prefix cache.

    `Completion.log_probs` are those at the request's temperature. With top-p or top-k they are those after the filter,
    unlike what `Completion` promises, because vLLM shows no others: with top-p they are too large by up to −log(top_p).
    A learner should be given samples without either.

    `statistics` counts prompt tokens that were read, not those found in the prefix cache; steps are not known.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        context: int,
        rows: int,
        handover: Handover | None = None,
        stack: AdapterStack | None = None,
        sleeps: bool = False,
    ) -> None:
        self._backend = backend
        self._context, self._rows = context, rows
        self._handover, self._stack = handover, stack
        self._sleeps, self._asleep, self._closed = sleeps, False, False
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[list[Completion]]] = set()
        self._awake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._current: dict[str, Version] = {}
        self._retired: list[Version] = []
        self._users: Counter[Version | None] = Counter()
        self._statistics = EngineStatistics()
        self._counted = time.monotonic()

    @classmethod
    async def start(
        cls,
        model: str | Path,
        *,
        stack: AdapterStack | None = None,
        adapters: Mapping[str, Path] | None = None,
        revision: str | None = None,
        dtype: str = "auto",
        context: int,
        rows: int = 256,
        memory: float | None = None,
        reserve: int | None = None,
        sleep: bool | None = None,
        eager: bool = False,
        seed: int = 0,
    ) -> Self:
        """Start vLLM with a model by Hub id, folder or name, and with the adapters of a stack or of folders, or none.

        `context` is the longest row, prompt included; `rows` is how many are sampled at the same time. `memory` is
        vLLM's share of the GPU's memory; without it, all that is free now, less `reserve` bytes for a learner. `sleep`
        makes `rest` give the memory back, which is what an engine with a stack does unless told otherwise. `eager`
        starts sooner and samples more slowly. The event loop stands still until the model is loaded.
        """
        if stack is not None and adapters:
            raise EngineError(
                "got a stack and folders of adapters, wanted one of the two; save the stack's and give all"
            )
        if context < 2 or rows < 1:
            raise EngineError(f"got a context of {context} and {rows} rows; wanted at least 2 tokens and 1 row")
        if not torch.cuda.is_available():
            raise EngineError("vLLM needs a CUDA device, and there is none here; use the local engine")
        folders = {agent: Path(folder).resolve() for agent, folder in (adapters or {}).items()}
        agents = stack.agents if stack else tuple(folders)
        sleeps = stack is not None if sleep is None else sleep
        settings = Settings(
            model=resolve_model(str(model)),
            revision=revision,
            dtype=_dtype(dtype, stack, has_agents=bool(agents)),
            context=context,
            rows=rows,
            memory=_free_share(stack, reserve) if memory is None else memory,
            seed=seed,
            agents=len(agents),
            rank=stack.rank if stack else max((read_lora(folder).rank for folder in folders.values()), default=1),
            sleeps=sleeps,
            eager=eager,
        )
        # First, for it can fail, and it clears up by itself, unlike a process.
        handover = Handover(stack, base_name=str(model)) if stack else None
        backend = await VllmBackend.start(settings)
        engine = cls(backend, context=context, rows=rows, handover=handover, stack=stack, sleeps=sleeps)
        try:
            for number, (agent, folder) in enumerate(folders.items(), start=1):
                await engine._load(agent, Version(agent, number, folder))
            await engine.resume()
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def slots(self) -> int:
        """How many completions are sampled at the same time."""
        return self._rows

    @property
    def context(self) -> int:
        """The longest row, prompt included."""
        return self._context

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far."""
        self._count_time()
        return self._statistics

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`."""
        prompt = tuple(prompt_ids)
        self._check(agent, prompt, n)
        # A task, so that `close` can cancel it; a caller that is cancelled cancels it too.
        task = asyncio.ensure_future(self._sample(agent, prompt, sampling, n))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def rest(self) -> None:
        """Wait for what is under way, then give the GPU's memory back; who asks meanwhile waits for `resume`."""
        self._refuse_closed()
        self._awake.clear()
        await self._idle.wait()
        self._refuse_closed()
        if self._sleeps and not self._asleep:
            await self._backend.sleep()
            self._asleep = True

    async def resume(self) -> None:
        """Take the memory again, and load the adapters of a stack as they are now."""
        self._refuse_closed()
        if self._asleep:
            # What torch keeps here for later would be missing there.
            torch.cuda.empty_cache()
            await self._backend.wake_up()
            self._asleep = False
        if self._stack is not None and self._handover is not None:
            for agent in self._stack.agents:
                await self._load(agent, self._handover.write(agent))
        self._awake.set()

    async def close(self) -> None:
        """Cancel what is still waiting, end vLLM's process, and remove the files that adapters were handed over in."""
        if self._closed:
            return
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._backend.close()
        finally:
            if self._handover is not None:
                self._handover.close()

    async def _sample(self, agent: str | None, prompt: tuple[int, ...], sampling: Sampling, n: int) -> list[Completion]:
        await self._awake.wait()
        version = None if agent is None else self._current[agent]
        self._count_time()
        self._users[version] += 1
        self._idle.clear()
        try:
            members = [self._complete(version, prompt, sampling, place) for place in range(n)]
            return await all_or_none(members)
        finally:
            self._count_time()
            self._users[version] -= 1
            if not self._users.total():
                self._idle.set()
            await self._unload_unused()

    async def _complete(
        self, version: Version | None, prompt: tuple[int, ...], sampling: Sampling, place: int
    ) -> Completion:
        limit = min(sampling.max_tokens, self._context - len(prompt))
        seed = seed_for(sampling.seed, "vllm", place)
        found = await self._backend.generate(prompt, sampling, seed=seed, limit=limit, version=version)
        if found.reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended a request with {found.reason!r} instead of a stop token or its length")
        self._statistics.prompt_tokens += found.prompt_tokens
        self._statistics.generated_tokens += len(found.token_ids)
        adapter_version = None if version is None else version.adapter_version
        stop = "end" if found.reason == "stop" else "length"
        return Completion(found.token_ids, found.log_probs, stop, adapter_version)

    async def _load(self, agent: str, version: Version) -> None:
        """Have a version answer for an agent from here on; the one before goes once nothing uses it."""
        await self._backend.load(version)
        before = self._current.get(agent)
        self._current[agent] = version
        if before is not None:
            self._retired.append(before)
        await self._unload_unused()

    async def _unload_unused(self) -> None:
        unused = [version for version in self._retired if not self._users[version]]
        self._retired = [version for version in self._retired if version not in unused]
        for version in unused:
            del self._users[version]
            if not self._closed:
                await self._backend.unload(version)
            if self._handover is not None:
                self._handover.remove(version)

    def _check(self, agent: str | None, prompt: tuple[int, ...], n: int) -> None:
        self._refuse_closed()
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this engine was started in another event loop; use it inside the one that started it")
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        if agent is not None and agent not in self._current:
            known = (
                f"the agents are {', '.join(self._current)}" if self._current else "start it with a stack or adapters"
            )
            raise AdapterError(f"there is no agent {agent!r} in this engine; {known}")
        if not prompt:
            raise EngineError("the prompt is empty; a model needs at least one token to continue")
        vocabulary = self._backend.vocabulary
        if not 0 <= min(prompt) <= max(prompt) < vocabulary:
            odd = next(token for token in prompt if not 0 <= token < vocabulary)
            raise EngineError(f"the prompt holds token {odd}, and the model knows 0 to {vocabulary - 1}")
        if len(prompt) >= self._context:
            raise EngineError(
                f"the prompt has {len(prompt):,} tokens and the engine's context is {self._context:,}, so there is no "
                "room for a reply; shorten the prompt, or raise the context"
            )

    def _refuse_closed(self) -> None:
        if self._closed:
            raise EngineError("this engine is closed; start another")

    def _count_time(self) -> None:
        """Count the time since the last look, if something was under way; called before that changes."""
        now = time.monotonic()
        if not self._idle.is_set():
            self._statistics.seconds += now - self._counted
        self._counted = now


def _free_share(stack: AdapterStack | None, reserve: int | None) -> float:
    if reserve is None:
        numbers = sum(parameter.numel() for parameter in stack.parameters().values()) if stack else 0
        reserve = _LEARNER_BYTES * numbers + _LEARNER_SLACK if stack else 0
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return share_of_memory(free, total, reserve=reserve)


def _dtype(dtype: str, stack: AdapterStack | None, *, has_agents: bool) -> str:
    """Settle the number format: the learner's own, so that both compute alike, if vLLM has adapters in that."""
    if dtype not in ("auto", *DTYPES):
        raise EngineError(f"got the number format {dtype!r}, wanted one of auto, {', '.join(DTYPES)}")
    if dtype == "float32" and has_agents:
        raise EngineError("vLLM's adapters know bfloat16 and float16, not float32; choose one, or use the local engine")
    if dtype != "auto" or stack is None:
        return dtype
    named = {form: name for name, form in DTYPES.items()}
    own = named.get(next(iter(stack.parameters().values())).dtype, "float32")
    return "bfloat16" if own == "float32" else own
