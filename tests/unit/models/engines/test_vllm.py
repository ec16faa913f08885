"""The engine on vLLM with a fake backend: adapter versions and files, groups, sleep, cancelling, statistics."""

import asyncio
import gc
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from factories import fill_adapters
from mada.errors import AdapterError, EngineError
from mada.models.adapters import AdapterStack, Lora, load_adapter, save_adapter
from mada.models.engines import Completion, PacedEngine, Sampling
from mada.models.engines import vllm as vllm_engine
from mada.models.engines.vllm import AdapterFiles, VllmEngine
from mada.models.engines.vllm_backend import AdapterVersion, VllmOutput
from mada.seeds import seed_for

SAMPLING = Sampling(max_tokens=20, stop_tokens=(3,), seed=5)


def run(coroutine):
    """Run a coroutine with a time-out: a broken engine waits forever."""
    return asyncio.run(asyncio.wait_for(coroutine, timeout=10))


class FakeBackend:
    """Answers with the seed and the adapter it was asked with; `gate` holds answers back."""

    vocabulary = 61

    def __init__(self, *, reason="stop", failure=None):
        self.reason, self.failure = reason, failure
        self.gate = asyncio.Event()
        self.gate.set()
        self.log = []
        self.loaded = {}
        self.most_loaded = 0
        self.cancelled = 0
        self.asked = []

    async def generate(self, prompt_ids, sampling, *, seed, limit, version, live):
        self.asked.append((version.name if version else None, tuple(prompt_ids), seed, limit))
        if version is not None:
            assert self.loaded[version.number].folder.is_dir(), "vLLM may want to read it again"
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure:
            raise self.failure
        return VllmOutput((seed % 50, 3), (-1.0, -0.5), self.reason, 4)

    async def load(self, version):
        self.log.append(f"load {version.name}")
        self.loaded[version.number] = version
        self.most_loaded = max(self.most_loaded, len(self.loaded))

    async def unload(self, version):
        self.log.append(f"unload {version.name}")
        del self.loaded[version.number]

    async def sleep(self):
        self.log.append("sleep")

    async def wake_up(self):
        self.log.append("wake up")

    async def close(self):
        self.log.append("close")


@pytest.fixture
def stack(tiny_model, fill):
    stack = AdapterStack.attach(tiny_model(), ["one", "two"], Lora(rank=4, alpha=8))
    fill(stack)
    return stack


@pytest.fixture
def make(stack, tmp_path):
    """An engine on a fake, awake, with the stack's adapters handed over once."""

    async def make(backend, *, can_sleep=True):
        files = AdapterFiles(stack, base_name="base", memory=tmp_path)
        engine = VllmEngine(backend, context=32, rows=8, files=files, stack=stack, can_sleep=can_sleep)
        await engine.wake_up()
        return engine

    return make


async def running(backend, count):
    while len(backend.asked) < count:
        await asyncio.sleep(0)


def test_every_completion_of_a_group_has_its_own_seed(make):
    async def use():
        backend = FakeBackend()
        engine: PacedEngine = await make(backend)
        assert engine.slots == 8
        found = await engine.sample("one", [1, 2], SAMPLING, n=3)
        seeds = [seed_for(5, "vllm", index) for index in range(3)]
        assert backend.asked == [("one@1", (1, 2), seed, 20) for seed in seeds]
        assert found == [Completion((seed % 50, 3), (-1.0, -0.5), "end") for seed in seeds]

    run(use())


def test_the_bare_base_has_no_adapter(make):
    async def use():
        backend = FakeBackend(reason="length")
        engine = await make(backend)
        [completion] = await engine.sample(None, [1] * 25, SAMPLING)
        assert completion.stop == "length"
        assert backend.asked == [(None, (1,) * 25, seed_for(5, "vllm", 0), 7)]  # what the context leaves

    run(use())


def test_after_an_update_new_versions_answer_and_old_ones_are_gone(make, stack):
    async def use():
        backend = FakeBackend()
        engine = await make(backend)
        before = backend.loaded[1].folder
        await engine.sleep()
        with torch.no_grad():
            stack.tensors("one")["model.layers.0.self_attn.q_proj.lora_A.weight"].add_(1)
        await engine.wake_up()
        await engine.sample("one", [1], SAMPLING)
        assert backend.log == [
            *("load one@1", "load two@1", "sleep", "wake up"),
            *("load one@2", "unload one@1", "load two@2", "unload two@1"),
        ]
        assert backend.asked[-1][0] == "one@2"
        assert backend.most_loaded == 3  # which is what vLLM has room for
        assert not before.exists()

    run(use())


def test_completions_carry_the_version_that_was_loaded_last(make, stack):
    async def use():
        engine = await make(FakeBackend())
        loaded = stack.version("one")
        stack.bump_version(["one"])
        [stale] = await engine.sample("one", [1], SAMPLING)
        await engine.wake_up()
        [fresh] = await engine.sample("one", [1], SAMPLING)
        assert (stale.adapter_version, fresh.adapter_version) == (loaded, loaded + 1)

    run(use())


def test_a_version_in_use_stays_until_nothing_uses_it(make):
    async def use():
        backend = FakeBackend()
        engine = await make(backend, can_sleep=False)
        backend.gate.clear()
        first = asyncio.ensure_future(engine.sample("one", [1], SAMPLING, n=2))
        await running(backend, 2)
        await engine.wake_up()
        assert sorted(version.name for version in backend.loaded.values()) == ["one@1", "one@2", "two@2"]
        second = asyncio.ensure_future(engine.sample("one", [1], SAMPLING))
        await running(backend, 3)
        assert backend.asked[-1][0] == "one@2"
        backend.gate.set()
        await asyncio.gather(first, second)
        assert sorted(version.name for version in backend.loaded.values()) == ["one@2", "two@2"]

    run(use())


def test_sleep_waits_for_running_requests_and_delays_new_ones(make):
    async def use():
        backend = FakeBackend()
        engine = await make(backend)
        backend.gate.clear()
        early = asyncio.ensure_future(engine.sample("one", [1], SAMPLING))
        await running(backend, 1)
        sleeping = asyncio.ensure_future(engine.sleep())
        late = asyncio.ensure_future(engine.sample("two", [1], SAMPLING))
        for _ in range(10):
            await asyncio.sleep(0)
        assert "sleep" not in backend.log
        backend.gate.set()
        await sleeping
        assert early.done()
        assert backend.log[-1] == "sleep"
        assert len(backend.asked) == 1
        await engine.wake_up()
        await late
        assert backend.asked[-1][0] == "two@2"

    run(use())


def test_an_engine_that_keeps_its_memory_only_loads_adapters(make):
    async def use():
        backend = FakeBackend()
        engine = await make(backend, can_sleep=False)
        await engine.sleep()
        await engine.sleep()
        await engine.wake_up()
        assert "sleep" not in backend.log
        assert "wake up" not in backend.log

    run(use())


def test_cancelling_cancels_the_whole_group(make):
    async def use():
        backend = FakeBackend()
        engine = await make(backend)
        backend.gate.clear()
        task = asyncio.ensure_future(engine.sample("one", [1], SAMPLING, n=4))
        await running(backend, 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert backend.cancelled == 4
        await engine.sleep()  # nothing is under way any more

    run(use())


def test_a_failure_reaches_the_caller_and_ends_the_group(make):
    async def use():
        backend = FakeBackend(failure=EngineError("vLLM's process has ended"))
        engine = await make(backend)
        with pytest.raises(EngineError, match="process has ended"):
            await engine.sample("one", [1], SAMPLING, n=2)
        await engine.sleep()

    run(use())


def test_an_aborted_request_is_an_error(make):
    async def use():
        engine = await make(FakeBackend(reason="abort"))
        with pytest.raises(EngineError, match="'abort'"):
            await engine.sample("one", [1], SAMPLING)

    run(use())


def test_closing_cancels_what_waits_and_removes_the_files(make, tmp_path):
    async def use():
        backend = FakeBackend()
        engine = await make(backend)
        backend.gate.clear()
        early = asyncio.ensure_future(engine.sample("one", [1], SAMPLING))
        await running(backend, 1)
        sleeping = asyncio.ensure_future(engine.sleep())
        await asyncio.sleep(0)
        delayed = asyncio.ensure_future(engine.sample("one", [1], SAMPLING))
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        await asyncio.gather(early, delayed, sleeping, return_exceptions=True)
        assert early.cancelled()
        assert delayed.cancelled()
        assert "sleep" not in backend.log
        assert backend.log.count("close") == 1
        assert list(tmp_path.iterdir()) == []
        for call in (engine.sample("one", [1], SAMPLING), engine.sleep(), engine.wake_up()):
            with pytest.raises(EngineError, match="closed"):
                await call

    run(use())


def test_statistics_count_tokens_and_busy_time(make, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(vllm_engine, "time", SimpleNamespace(monotonic=lambda: now[0]))  # not the event loop's clock

    async def use():
        backend = FakeBackend()
        engine = await make(backend)
        now[0] += 50  # idle
        backend.gate.clear()
        task = asyncio.ensure_future(engine.sample("one", [1], SAMPLING, n=3))
        await running(backend, 3)
        now[0] += 2
        assert engine.statistics.seconds == 2
        other = asyncio.ensure_future(engine.sample("two", [1], SAMPLING))
        await running(backend, 4)
        now[0] += 3
        backend.gate.set()
        await asyncio.gather(task, other)
        now[0] += 70  # idle
        found = engine.statistics
        assert (found.prompt_tokens, found.generated_tokens, found.seconds) == (16, 8, 5)

    run(use())


@pytest.mark.parametrize(
    ("agent", "prompt", "error", "message"),
    [
        ("three", [1], AdapterError, "no agent 'three'.*one, two"),
        ("one", [], EngineError, "empty"),
        ("one", [4, 61], EngineError, "token 61"),
        ("one", [1] * 32, EngineError, "context is 32"),
    ],
)
def test_invalid_requests_are_refused(make, agent, prompt, error, message):
    async def use():
        engine = await make(FakeBackend())
        with pytest.raises(error, match=message):
            await engine.sample(agent, prompt, SAMPLING)

    run(use())


def test_another_event_loop_is_refused(make):
    engine = run(make(FakeBackend()))

    async def use():
        with pytest.raises(EngineError, match="another event loop"):
            await engine.sample("one", [1], SAMPLING)

    run(use())


# Files of adapters


@pytest.fixture
def files(stack, tmp_path):
    return AdapterFiles(stack, base_name="the-base", memory=tmp_path)


def test_a_version_is_the_adapter_when_it_was_written(files, stack, tiny_model):
    wanted = {name: tensor.clone() for name, tensor in stack.tensors("two").items()}
    version = files.write("two")
    fill_adapters(stack, seed=9)
    again = AdapterStack.attach(tiny_model(), ["x"], stack.lora["two"])
    load_adapter(again, "x", version.folder, any_base=True)
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in again.tensors("x").items())


def test_names_and_numbers_are_never_used_twice(files):
    versions = [files.write(agent) for agent in ("one", "two", "one", "one")]
    assert [version.name for version in versions] == ["one@1", "two@1", "one@2", "one@3"]
    assert [version.number for version in versions] == [1, 2, 3, 4]
    files.remove(versions[0])
    assert {folder.name for folder in files.folder.iterdir()} == {version.folder.name for version in versions[1:]}


@pytest.mark.parametrize("how", ["close", "collect"])
def test_no_files_are_left(how, stack, tmp_path):
    mine = AdapterFiles(stack, base_name="the-base", memory=tmp_path)
    mine.write("one")
    folder = mine.folder
    if how == "close":
        mine.close()
        mine.close()
    del mine
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("reason", ["missing", "small"])
def test_without_shared_memory_the_temporary_folder_is_used(stack, tmp_path, monkeypatch, reason):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    memory = tmp_path / "memory"
    if reason == "small":
        memory.mkdir()
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    files = AdapterFiles(stack, base_name="the-base", memory=memory)
    assert files.folder.parent == tmp_path
    assert files.write("one").folder.is_dir()
    files.close()


class TestStart:
    """The settings that vLLM is started with."""

    @pytest.fixture
    def started(self, monkeypatch):
        """Start an engine on a fake and close it; return what the fake was asked and its settings."""
        given = []

        async def start(settings):
            given.append((settings, backend := FakeBackend()))
            return backend

        monkeypatch.setattr(vllm_engine.VllmBackend, "start", start)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 * 2**30, 140 * 2**30))

        def start_and_close(**arguments):
            async def use():
                engine = await VllmEngine.start("base", context=32, rows=8, **arguments)
                await engine.close()

            run(use())
            settings, backend = given[0]
            assert backend.log.pop() == "close"
            return backend.log, settings

        return start_and_close

    def test_with_a_stack_it_sleeps_and_leaves_room_for_a_learner(self, started, stack):
        log, settings = started(stack=stack)
        numbers = sum(parameter.numel() for parameter in stack.parameters().values())
        assert settings.memory == pytest.approx((95 * 2**30 - 16 * numbers) / (140 * 2**30))
        assert (settings.agents, settings.rank, settings.can_sleep, settings.dtype) == (2, 4, True, "bfloat16")
        assert log == ["load one@1", "load two@1"]

    def test_with_folders_each_is_loaded_once(self, started, stack, tmp_path):
        for agent in stack.agents:
            save_adapter(stack, agent, tmp_path / agent, base_name="base")
        log, settings = started(adapters={"x": tmp_path / "one", "y": tmp_path / "two"}, memory=0.25)
        assert log == ["load x", "load y"]
        assert (settings.agents, settings.rank, settings.can_sleep, settings.memory) == (2, 4, False, 0.25)
        assert settings.dtype == "auto"

    def test_with_neither_there_is_only_the_base(self, started, monkeypatch):
        monkeypatch.setattr(vllm_engine, "resolve_model", lambda name: f"/models/{name}")
        log, settings = started()
        assert log == []
        assert settings.model == "/models/base"
        assert (settings.agents, settings.memory) == (0, pytest.approx(97 / 140))

    def test_the_dtype_is_the_learners(self, started, stack):
        stack.model.to(torch.float16)
        assert started(stack=stack)[1].dtype == "float16"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"dtype": "int8"}, "int8"),
            ({"dtype": "float32", "adapters": {"x": Path("x")}}, "not float32"),
            ({"reserve": 98 * 2**30}, "98.0 GiB are reserved"),
            ({"stack": True, "adapters": {"x": Path("x")}}, "both a stack and folders"),
        ],
    )
    def test_invalid_arguments(self, started, stack, arguments, message):
        with pytest.raises(EngineError, match=message):
            started(**(arguments | ({"stack": stack} if "stack" in arguments else {})))

    def test_without_cuda_it_does_not_start(self, started, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(EngineError, match=r"CUDA.*local engine"):
            started()

    def test_an_adapter_that_does_not_load_leaves_no_process(self, started, stack, monkeypatch):
        closed = []

        async def fail(self, version: AdapterVersion):
            raise EngineError("vLLM cannot load it")

        async def close(self):
            closed.append(True)

        monkeypatch.setattr(FakeBackend, "load", fail)
        monkeypatch.setattr(FakeBackend, "close", close)
        with pytest.raises(EngineError, match="cannot load"):
            started(stack=stack)
        assert closed == [True]
