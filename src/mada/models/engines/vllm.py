"""The engine that samples with vLLM: requests, versions of adapters, and sleep while a learner works.

vLLM takes an adapter only from a folder, so a learner's tensors become PEFT files under /dev/shm, which is memory, or
in the temporary folder where that is too small, as in many containers.
"""

import asyncio
import logging
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Self

import torch

from mada.concurrency import gather_or_cancel
from mada.errors import AdapterError, EngineError
from mada.models.adapters import AdapterStack, read_lora, save_adapter
from mada.models.engines.engine import Completion, EngineStatistics, Live, Sampling, check_request
from mada.models.engines.vllm_backend import AdapterVersion, VllmBackend, VllmSettings, memory_share
from mada.models.loading import DTYPES, resolve_model
from mada.models.memory import GIB
from mada.seeds import seed_for

_log = logging.getLogger(__name__)
_SHARED_MEMORY = Path("/dev/shm")
# A learner's memory for every number of an adapter: gradient, float32 master and two moments, four bytes each; and what
# it needs before vLLM has freed its memory.
_LEARNER_BYTES = 16
_LEARNER_SLACK = 2 * GIB


class VllmEngine:
    """Samples with vLLM on a CUDA device: many adapters in one batch, a paged cache, shared prompts.

        engine = await VllmEngine.start("Qwen/Qwen2.5-1.5B-Instruct", stack=stack, context=4608)
        completions = await engine.sample("generator-1", prompt_ids, Sampling(max_tokens=512), n=8)

    vLLM runs in a process of its own (AsyncLLM always does), which Python starts by importing the main module again: a
    script must do its work under `if __name__ == "__main__":`, as `mada` does. The engine belongs to the event loop it
    was started in.

    A group of `n` is `n` requests with seeds made from the request's seed and the index in the group: vLLM's own `n`
    counts seeds up, so that neighbouring seeds would share samples, and refuses temperature 0. The prompt is read once
    all the same: its blocks of 16 tokens are found in the prefix cache.

    `Completion.log_probs` are those at the request's temperature. With top-p or top-k they are those after the filter,
    unlike what `Completion` promises, because vLLM returns no others: with top-p they are too large by up to
    −log(top_p). A learner should sample without either.

    `statistics` counts prompt tokens that were read, not those found in the prefix cache; steps are not known.
    """

    def __init__(
        self,
        backend: VllmBackend,
        *,
        context: int,
        rows: int,
        files: "AdapterFiles | None" = None,
        stack: AdapterStack | None = None,
        can_sleep: bool = False,
    ) -> None:
        self._backend = backend
        self._context, self._rows = context, rows
        self._files, self._stack = files, stack
        self._can_sleep, self._sleeping, self._closed = can_sleep, False, False
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[list[Completion]]] = set()
        self._awake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._current: dict[str, AdapterVersion] = {}
        self._retired: list[AdapterVersion] = []
        self._users: Counter[AdapterVersion | None] = Counter()
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
        says whether `sleep` frees the memory; by default it does for an engine with a stack. `eager` starts sooner and
        samples more slowly. The event loop is blocked until the model is loaded.
        """
        if stack is not None and adapters:
            raise EngineError("got both a stack and folders of adapters; save the stack's and give all as folders")
        if context < 2 or rows < 1:
            raise EngineError(f"got a context of {context} and {rows} rows; wanted at least 2 tokens and 1 row")
        if not torch.cuda.is_available():
            raise EngineError("vLLM needs a CUDA device, and there is none here; use the local engine")
        folders = {agent: Path(folder).resolve() for agent, folder in (adapters or {}).items()}
        agents = stack.agents if stack else tuple(folders)
        can_sleep = stack is not None if sleep is None else sleep
        settings = VllmSettings(
            model=resolve_model(str(model)),
            revision=revision,
            dtype=_dtype(dtype, stack, has_agents=bool(agents)),
            context=context,
            rows=rows,
            memory=_free_share(stack, reserve) if memory is None else memory,
            seed=seed,
            agents=len(agents),
            rank=stack.rank if stack else max((read_lora(folder).rank for folder in folders.values()), default=1),
            can_sleep=can_sleep,
            eager=eager,
        )
        # Before the process: this can fail, and cleans up by itself.
        files = AdapterFiles(stack, base_name=str(model)) if stack else None
        backend = await VllmBackend.start(settings)
        engine = cls(backend, context=context, rows=rows, files=files, stack=stack, can_sleep=can_sleep)
        try:
            for number, (agent, folder) in enumerate(folders.items(), start=1):
                await engine._load(agent, AdapterVersion(agent, number, folder))
            await engine.wake_up()
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
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`."""
        self._check_open()
        if asyncio.get_running_loop() is not self._loop:
            raise EngineError("this engine was started in another event loop; use it in the one that started it")
        prompt = tuple(prompt_ids)
        check_request(prompt, n, vocabulary=self._backend.vocabulary, context=self._context)
        if agent is not None and agent not in self._current:
            agents = ", ".join(self._current)
            hint = f"the agents are {agents}" if agents else "start it with a stack or adapters"
            raise AdapterError(f"there is no agent {agent!r} in this engine; {hint}")
        # A task, so that `close` can cancel it; a caller that is cancelled cancels it too.
        task = asyncio.ensure_future(self._sample(agent, prompt, sampling, live or [None] * n))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def sleep(self) -> None:
        """Finish running requests, then free the GPU's memory; requests wait until `wake_up`."""
        self._check_open()
        self._awake.clear()
        await self._idle.wait()
        self._check_open()
        if self._can_sleep and not self._sleeping:
            await self._backend.sleep()
            self._sleeping = True

    async def wake_up(self) -> None:
        """Take the memory again, and load the adapters of a stack as they are now."""
        self._check_open()
        if self._sleeping:
            # Memory that torch caches in this process would be missing in vLLM's.
            torch.cuda.empty_cache()
            await self._backend.wake_up()
            self._sleeping = False
        if self._stack is not None and self._files is not None:
            for agent in self._stack.agents:
                await self._load(agent, self._files.write(agent))
        self._awake.set()

    async def close(self) -> None:
        """Cancel what is still waiting, end vLLM's process, and remove the adapters' files."""
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
            if self._files is not None:
                self._files.close()

    async def _sample(
        self, agent: str | None, prompt: tuple[int, ...], sampling: Sampling, live: Sequence[Live | None]
    ) -> list[Completion]:
        await self._awake.wait()
        version = None if agent is None else self._current[agent]
        self._count_time()
        self._users[version] += 1
        self._idle.clear()
        try:
            return await gather_or_cancel(
                [self._complete(version, prompt, sampling, index, one) for index, one in enumerate(live)]
            )
        finally:
            self._count_time()
            self._users[version] -= 1
            if not self._users.total():
                self._idle.set()
            await self._unload_unused()

    async def _complete(
        self,
        version: AdapterVersion | None,
        prompt: tuple[int, ...],
        sampling: Sampling,
        index: int,
        live: Live | None,
    ) -> Completion:
        limit = min(sampling.max_tokens, self._context - len(prompt))
        seed = seed_for(sampling.seed, "vllm", index)
        output = await self._backend.generate(prompt, sampling, seed=seed, limit=limit, version=version, live=live)
        if output.finish_reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended a request with {output.finish_reason!r}, not at a stop token or its length")
        self._statistics.prompt_tokens += output.prompt_tokens
        self._statistics.generated_tokens += len(output.token_ids)
        stop = "end" if output.finish_reason == "stop" else "length"
        return Completion(output.token_ids, output.log_probs, stop, version.adapter_version if version else None)

    async def _load(self, agent: str, version: AdapterVersion) -> None:
        """Use a version for an agent's requests from now on; the previous one is unloaded once nothing uses it."""
        await self._backend.load(version)
        if agent in self._current:
            self._retired.append(self._current[agent])
        self._current[agent] = version
        await self._unload_unused()

    async def _unload_unused(self) -> None:
        unused = [version for version in self._retired if not self._users[version]]
        self._retired = [version for version in self._retired if version not in unused]
        for version in unused:
            del self._users[version]
            if not self._closed:
                await self._backend.unload(version)
            if self._files is not None:
                self._files.remove(version)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("this engine is closed; start another")

    def _count_time(self) -> None:
        """Count the time since the last call if requests were running; called before that changes."""
        now = time.monotonic()
        if not self._idle.is_set():
            self._statistics.seconds += now - self._counted
        self._counted = now


class AdapterFiles:
    """Writes versions of a stack's adapters for vLLM, and removes those that are no longer used."""

    def __init__(self, stack: AdapterStack, *, base_name: str, memory: Path = _SHARED_MEMORY) -> None:
        self._stack = stack
        self._base_name = base_name
        self._numbers = count(1)
        self._updates: Counter[str] = Counter()
        # Room for a version of every agent, and as much again while new ones are loaded.
        size = sum(parameter.numel() * parameter.element_size() for parameter in stack.parameters().values())
        self.folder = _make_folder(memory, wanted=2 * size)
        # Also when an exception ends the program before `close`; only a killed process leaves files.
        self._removal = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, agent: str) -> AdapterVersion:
        """Write an agent's adapter as it is now."""
        self._updates[agent] += 1
        number = next(self._numbers)
        # An agent's name may be a path, so the folder is named by number.
        folder = self.folder / str(number)
        save_adapter(self._stack, agent, folder, base_name=self._base_name)
        return AdapterVersion(f"{agent}@{self._updates[agent]}", number, folder, self._stack.version(agent))

    def remove(self, version: AdapterVersion) -> None:
        """Remove a version's files."""
        shutil.rmtree(version.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all files."""
        self._removal()


def _make_folder(memory: Path, *, wanted: int) -> Path:
    try:
        free = shutil.disk_usage(memory).free
        if free >= wanted:
            return Path(tempfile.mkdtemp(prefix="mada-adapters-", dir=memory))
        reason = f"it has {free / 2**20:,.0f} MiB left, wanted {wanted / 2**20:,.0f} MiB"
    except OSError as error:
        reason = str(error)
    folder = Path(tempfile.mkdtemp(prefix="mada-adapters-"))
    _log.info("%s cannot be used (%s): vLLM reads adapters from %s", memory, reason, folder)
    return folder


def _free_share(stack: AdapterStack | None, reserve: int | None) -> float:
    if reserve is None:
        numbers = sum(parameter.numel() for parameter in stack.parameters().values()) if stack else 0
        reserve = _LEARNER_BYTES * numbers + _LEARNER_SLACK if stack else 0
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return memory_share(free, total, reserve=reserve)


def _dtype(dtype: str, stack: AdapterStack | None, *, has_agents: bool) -> str:
    """Return vLLM's dtype: the learner's own where vLLM supports adapters in it, so that both compute alike."""
    if dtype not in ("auto", *DTYPES):
        raise EngineError(f"got the dtype {dtype!r}, wanted one of auto, {', '.join(DTYPES)}")
    if dtype == "float32" and has_agents:
        raise EngineError("vLLM runs adapters in bfloat16 and float16, not float32; choose one or use the local engine")
    if dtype != "auto" or stack is None:
        return dtype
    own = next(iter(stack.parameters().values())).dtype
    return {torch.bfloat16: "bfloat16", torch.float16: "float16"}.get(own, "bfloat16")
