import asyncio
import json
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mada.errors import AdapterError, LearningError, RunError
from mada.events import (
    CheckpointWritten,
    Event,
    Events,
    StepFinished,
    StepRollouts,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
)
from mada.learning.advantages import Credit
from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import load_adapter
from mada.models.engines import Completion, ScriptedEngine, ScriptedRequest
from mada.models.engines.local import LocalEngine
from mada.recipe.schema import TrainingSettings
from mada.runs.lock import lock_folder
from mada.seeds import rng, seed_for

AGENTS = ("a", "b")
SETTINGS = TrainingSettings(
    batch_size=4, group_size=2, learning_rate=1e-2, steps=4, validate_every=2, checkpoint_every=1, max_new_tokens=5
)
PROMPTS = {agent: [TrainingPrompt(f"{agent}{place}", (1, place + 2)) for place in range(5)] for agent in AGENTS}
VALIDATION = [TrainingPrompt(f"v{place}", (3, place + 2)) for place in range(4)]


def tiny_stack(agents: Sequence[str] = AGENTS, *, seed: int = 5) -> AdapterStack:
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        initializer_range=0.2,
    )
    return AdapterStack.attach(Qwen2ForCausalLM(config).eval(), agents, Lora(rank=2, alpha=4.0, dropout=0.0), seed=seed)


def drawn(request: ScriptedRequest) -> Completion:
    """Replies by the request's seed and place alone, without log-probabilities to compare."""
    generator = rng(request.sampling.seed, request.index)
    length = int(generator.integers(1, 6))
    ids = tuple(int(token) for token in generator.integers(0, 16, size=length))
    return Completion(ids, (), "length" if length == 5 else "end")


async def upper_half(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
    shares = [sum(token > 7 for token in one.token_ids) / len(one.token_ids) for one in completions]
    return [Reward(share, share > 0.5, {"upper": share}) for share in shares]


KINDS = {
    TrainingStarted: "started",
    StepFinished: "step",
    ValidationFinished: "validation",
    CheckpointWritten: "checkpoint",
    TrainingFinished: "finished",
}


class Setup:
    """A trainer on a fresh stack with a scripted engine; keywords replace any part."""

    def __init__(self, folder: Path, **parts: Any) -> None:
        self.events: list[Event] = []
        self.stack = parts.get("stack") or tiny_stack()
        self.engine = parts.get("engine") or ScriptedEngine(drawn)
        self.task = parts.get("task") or TrainingTask(PROMPTS, parts.get("scorer", upper_half), VALIDATION)
        self.trainer = Trainer(
            self.stack,
            self.engine,
            self.task,
            settings=parts.get("settings", SETTINGS),
            folder=folder,
            base_name="tiny",
            seed=parts.get("seed", 9),
            events=Events(self.events.append),
            clock=parts.get("clock", time.monotonic),
        )

    def train(self):
        return asyncio.run(self.trainer.train())

    @property
    def seen(self) -> list[tuple[str, Any]]:
        """The events but for progress, each with its step."""
        return [(KINDS[type(one)], getattr(one, "step", None)) for one in self.events if type(one) in KINDS]

    @property
    def resumed_from(self) -> str:
        """The checkpoint that training resumed from."""
        first = self.events[0]
        assert isinstance(first, TrainingStarted)
        assert first.checkpoint is not None
        return first.checkpoint.name


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.endswith("per_second")} for row in found]


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".safetensors", ".json")
    }


def test_a_training_samples_learns_validates_and_keeps_checkpoints(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    blank = {name: parameter.clone() for name, parameter in setup.stack.parameters().items()}
    result = setup.train()
    assert setup.seen == [
        ("started", None),
        *(("validation", 0), ("checkpoint", 0)),
        *(("step", 1), ("checkpoint", 1)),
        *(("step", 2), ("validation", 2), ("checkpoint", 2)),
        *(("step", 3), ("checkpoint", 3)),
        *(("step", 4), ("validation", 4), ("checkpoint", 4)),
        ("finished", None),
    ]
    assert [(row["step"], row["agent"]) for row in rows(tmp_path, "metrics")] == [
        (step, agent) for step in (1, 2, 3, 4) for agent in AGENTS
    ]
    assert [row["step"] for row in rows(tmp_path, "validation")] == [0, 0, 2, 2, 4, 4]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000003", "step-000004"]
    assert any(not torch.equal(blank[name], now) for name, now in setup.stack.parameters().items())
    assert (result.steps, set(result.best)) == (4, {"a", "b"})
    load_adapter(tiny_stack(["x"]), "x", result.adapter("a"))


class Reader:
    """Asks for the rollouts of every second step."""

    def __init__(self) -> None:
        self.seen: list[StepRollouts] = []
        self.asked = 0

    def wants(self, kind: type[Event]) -> bool:
        self.asked += 1
        return kind is StepRollouts and self.asked % 2 == 1

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepRollouts):
            self.seen.append(event)


def test_rollouts_are_read_by_those_who_ask_and_change_nothing(tmp_path: Path) -> None:
    reader = Reader()
    task = TrainingTask(PROMPTS, upper_half, VALIDATION, decode=lambda ids: " ".join(map(str, ids)))
    read = Setup(tmp_path / "read", task=task)
    read.trainer._events.subscribe(reader)
    read.train()
    assert [one.step for one in reader.seen] == [1, 3]
    assert [one.agent for one in reader.seen[0].groups] == ["a", "b"]
    assert all(len(one.rollouts) == 2 for one in reader.seen[0].groups)
    Setup(tmp_path / "unread").train()
    assert files(tmp_path / "read") == files(tmp_path / "unread")
    assert rows(tmp_path / "read", "metrics") == rows(tmp_path / "unread", "metrics")


def test_every_agent_is_asked_its_own_prompts_with_seeds_by_path(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.train()
    asked = [request for request in setup.engine.requests if request.prompt_ids[0] == 1]
    assert len(asked) == 4 * 2 * 4, "steps × agents × batch"
    names = {
        seed_for(9, "rollout", agent, step, prompt.id): (agent, prompt)
        for agent in AGENTS
        for step in range(1, 5)
        for prompt in PROMPTS[agent]
    }
    for request in asked:
        agent, prompt = names[request.sampling.seed]
        assert (request.agent, request.prompt_ids) == (agent, prompt.prompt_ids)
        assert (request.sampling.temperature, request.sampling.max_tokens) == (0.7, 5)
    assert len({request.sampling.seed for request in asked}) == 4 * 2 * 2, "one per group"


def test_validation_asks_the_same_with_the_same_seeds_every_time(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.train()
    asked = [request for request in setup.engine.requests if request.prompt_ids[0] == 3]
    looks = [asked[start : start + 8] for start in range(0, 24, 8)]
    assert looks[0] == looks[1] == looks[2]
    assert [(request.agent, request.index) for request in looks[0]] == [("a", 0)] * 4 + [("b", 0)] * 4
    assert [request.sampling.seed for request in looks[0]] == [
        seed_for(9, "validation", one.id) for one in VALIDATION
    ] * 2


def test_agents_may_be_shown_the_same_validation_problems_in_different_ways(tmp_path: Path) -> None:
    turned = [replace(one, prompt_ids=(4, one.prompt_ids[1])) for one in VALIDATION]
    setup = Setup(tmp_path, task=TrainingTask(PROMPTS, upper_half, {"a": VALIDATION, "b": turned}))
    setup.train()
    asked = {(request.agent, request.prompt_ids[0]) for request in setup.engine.requests if request.prompt_ids[0] > 1}
    assert asked == {("a", 3), ("b", 4)}
    assert [row["step"] for row in rows(tmp_path, "validation")] == [0, 0, 2, 2, 4, 4]


def accuracies_of(*looks: dict[str, float]):
    """A scorer whose verdicts on the validation set follow a list, look by look."""
    calls = [0]

    async def score(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        if not prompt.id.startswith("v"):
            return await upper_half(prompt, completions)
        look, place = divmod(calls[0], 2 * len(VALIDATION))
        calls[0] += 1
        agent, number = AGENTS[place // len(VALIDATION)], place % len(VALIDATION)
        return [Reward(0.0, number < looks[look][agent] * len(VALIDATION))]

    return score


def test_the_best_adapter_is_the_earliest_of_the_best(tmp_path: Path) -> None:
    setup = Setup(tmp_path, scorer=accuracies_of({"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.75}, {"a": 0.5, "b": 0.5}))
    result = setup.train()
    assert [(best.step, best.accuracy, best.folder) for best in result.best.values()] == [
        (2, 0.5, "best/a/step-000002"),
        (0, 0.75, "best/b/step-000000"),
    ]
    marks = [(row["step"], row["agent"]) for row in rows(tmp_path, "validation") if row["is_best"]]
    assert marks == [(0, "a"), (0, "b"), (2, "a")]
    kept = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "best").glob("*/*"))
    assert kept == ["best/a/step-000002", "best/b/step-000000"], "no kept checkpoint refers to a's first"
    blank = tiny_stack(["b"], seed=5)
    other = tiny_stack(["b"], seed=0)
    load_adapter(other, "b", result.adapter("b"))
    assert all(torch.equal(other.tensors("b")[name], own) for name, own in blank.tensors("b").items())


@pytest.mark.parametrize("moment", range(1, 60, 6))
def test_a_cancelled_training_goes_on_and_ends_like_one_left_alone(tmp_path: Path, moment: int) -> None:
    settings = SETTINGS.model_copy(update={"checkpoint_every": 3})
    Setup(tmp_path / "alone", settings=settings).train()

    async def cancelled() -> None:
        calls = [0]

        def script(request: ScriptedRequest) -> Completion:
            calls[0] += 1
            if calls[0] == moment:
                task.cancel()
            return drawn(request)

        task = asyncio.create_task(
            Setup(tmp_path / "stopped", settings=settings, engine=ScriptedEngine(script)).trainer.train()
        )
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    Setup(tmp_path / "stopped", settings=settings).train()
    assert files(tmp_path / "stopped") == files(tmp_path / "alone")
    for name in ("metrics", "validation"):
        assert rows(tmp_path / "stopped", name) == rows(tmp_path / "alone", name)


def test_control_c_ends_it_at_once_and_costs_the_step_under_way_alone(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"checkpoint_every": 50, "validate_every": 50})

    async def interrupted(request: ScriptedRequest) -> Completion:
        if len(rows(tmp_path, "metrics")) == 2 * 3:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        return drawn(request)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Setup(tmp_path, engine=ScriptedEngine(interrupted), settings=settings).train()
    assert time.monotonic() - started < 30
    setup = Setup(tmp_path, settings=settings)
    setup.train()
    assert setup.resumed_from == "step-000003"


class Clock:
    """A clock that moves only when a group is scored: two prompts for each of two agents are a step."""

    def __init__(self, *, minutes_a_step: float) -> None:
        self.now = 1000.0
        self._seconds_a_group = 60 * minutes_a_step / 4

    def __call__(self) -> float:
        return self.now

    async def score(self, prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        if not prompt.id.startswith("v"):
            self.now += self._seconds_a_group
        return await upper_half(prompt, completions)


def by_the_clock(folder: Path, *, minutes_a_step: float, script: Any = drawn, **settings: Any) -> Setup:
    clock = Clock(minutes_a_step=minutes_a_step)
    rare = SETTINGS.model_copy(update={"steps": 9, "validate_every": 9, "checkpoint_every": 100, **settings})
    return Setup(folder, settings=rare, scorer=clock.score, clock=clock, engine=ScriptedEngine(script))


def checkpoints(setup: Setup) -> list[int]:
    return [step for kind, step in setup.seen if kind == "checkpoint"]


@pytest.mark.parametrize(
    ("minutes_a_step", "limit", "at"),
    [
        (4.0, 10.0, [0, 3, 6, 9]),  # 12 minutes are the first that are more than 10
        (5.0, 10.0, [0, 3, 6, 9]),  # 10 minutes are not more than 10
        (11.0, 10.0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (4.0, 0.5, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (1.0, 10.0, [0, 9]),
        (1000.0, None, [0, 9]),
    ],
)
def test_checkpoints_are_written_by_the_clock_too(tmp_path: Path, minutes_a_step, limit, at) -> None:
    setup = by_the_clock(tmp_path, minutes_a_step=minutes_a_step, checkpoint_minutes=limit)
    setup.train()
    assert checkpoints(setup) == at


def test_the_clock_starts_again_at_every_checkpoint_whatever_it_was_written_for(tmp_path: Path) -> None:
    setup = by_the_clock(tmp_path, minutes_a_step=4.0, checkpoint_every=4)
    setup.train()
    assert checkpoints(setup) == [0, 3, 4, 7, 8, 9]


def test_a_training_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = Setup(tmp_path).train()
    before = files(tmp_path)
    again = Setup(tmp_path)
    assert again.train() == first
    assert (again.engine.requests, files(tmp_path)) == ([], before)


def test_other_settings_data_and_seeds_are_refused_by_name(tmp_path: Path) -> None:
    Setup(tmp_path).train()
    other = SETTINGS.model_copy(update={"learning_rate": 1e-3})
    with pytest.raises(LearningError, match=r"settings\.learning_rate  0\.01  →  0\.001"):
        Setup(tmp_path, settings=other).train()
    with pytest.raises(LearningError, match="seed  9  →  10"):
        Setup(tmp_path, seed=10).train()
    task = TrainingTask({**PROMPTS, "b": PROMPTS["b"][:4]}, upper_half, VALIDATION)
    with pytest.raises(LearningError, match=r"agents\.b\.prompts "):
        Setup(tmp_path, task=task).train()
    Setup(tmp_path, settings=SETTINGS.model_copy(update={"keep_checkpoints": 5, "micro_batch_tokens": 64})).train()


def test_without_a_validation_set_the_last_adapters_are_kept(tmp_path: Path) -> None:
    setup = Setup(tmp_path, task=TrainingTask(PROMPTS, upper_half))
    result = setup.train()
    assert [(best.step, best.accuracy) for best in result.best.values()] == [(4, None), (4, None)]
    other = tiny_stack(["b"], seed=0)
    load_adapter(other, "b", result.adapter("b"))
    assert all(torch.equal(other.tensors("b")[name], own) for name, own in setup.stack.tensors("b").items())
    assert rows(tmp_path, "validation") == []


def test_a_scorer_that_knows_no_right_or_wrong_cannot_validate(tmp_path: Path) -> None:
    async def score(prompt: TrainingPrompt, completions: Sequence[Completion]) -> list[Reward]:
        return [Reward(1.0) for _ in completions]

    with pytest.raises(LearningError, match=r"none of a's replies to the validation set .* set Reward\.correct"):
        Setup(tmp_path, scorer=score).train()


def test_a_prompt_that_comes_twice_in_a_step_brings_other_samples(tmp_path: Path) -> None:
    task = TrainingTask({"a": PROMPTS["a"][:1]}, upper_half)
    setup = Setup(tmp_path, task=task, settings=SETTINGS.model_copy(update={"steps": 1}))
    setup.train()
    seeds = [request.sampling.seed for request in setup.engine.requests]
    assert seeds == [seed_for(9, "rollout", "a", 1, "a0")] * 2 + [seed_for(9, "rollout", "a", 1, "a0", 1)] * 2


@pytest.mark.parametrize(
    ("task", "settings", "error", "message"),
    [
        (TrainingTask({}, upper_half), SETTINGS, LearningError, "no agent has prompts"),
        (TrainingTask({"a": []}, upper_half), SETTINGS, LearningError, "a has no prompts; give every agent its own"),
        (TrainingTask({"z": PROMPTS["a"]}, upper_half), SETTINGS, AdapterError, "no agent 'z'"),
        (
            TrainingTask({"a": PROMPTS["a"] * 2}, upper_half),
            SETTINGS,
            LearningError,
            "a has two prompts with the id 'a0'",
        ),
        (
            TrainingTask({"a": [TrainingPrompt("x", ())]}, upper_half),
            SETTINGS,
            LearningError,
            "prompt 'x' of a has no tokens",
        ),
        (
            TrainingTask(PROMPTS, upper_half),
            SETTINGS.model_copy(update={"batch_size": 5}),
            LearningError,
            "a batch of 5 completions does not hold whole groups of 2",
        ),
        (
            TrainingTask(PROMPTS, upper_half, credit=Credit("counterfactual")),
            SETTINGS,
            LearningError,
            "these prompts do not go with the advantage 'counterfactual'",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_begins(tmp_path: Path, task, settings, error, message) -> None:
    with pytest.raises(error, match=message):
        Setup(tmp_path / "new", task=task, settings=settings)
    assert not (tmp_path / "new").exists()


def test_a_name_that_cannot_be_a_folders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LearningError, match=r"'\.\./a' cannot name an agent"):
        Setup(tmp_path, stack=tiny_stack(["../a"]), task=TrainingTask({"../a": PROMPTS["a"]}, upper_half))


def test_the_example_in_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "training.md").read_text()
    [example] = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "asyncio.run" in one]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/training.md", "exec"), {"__name__": "example"})
    assert (tmp_path / "runs" / "upper-half" / "checkpoints" / "step-000020").is_dir()


class Unversioned:
    """An engine whose completions do not say which version of the adapter sampled them."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def sample(self, *args: Any, **keywords: Any) -> list[Completion]:
        return [replace(one, adapter_version=None) for one in await self._engine.sample(*args, **keywords)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def frozen_engine() -> LocalEngine:
    """An engine on a copy of the adapters as they are at step 0, which no update reaches."""
    stack = tiny_stack()
    return LocalEngine(cast("Any", stack.model), stack, rows=8)


SLOW = SETTINGS.model_copy(update={"learning_rate": 1e-6, "warmup_ratio": 0.0, "schedule": "constant", "steps": 8})


@pytest.mark.parametrize("rate", [1e-4, 1e-6])
def test_an_engine_that_is_never_updated_stops_the_training_at_the_second_step(tmp_path: Path, rate: float) -> None:
    setup = Setup(tmp_path, engine=frozen_engine(), settings=SLOW.model_copy(update={"learning_rate": rate}))
    with pytest.raises(LearningError, match=r"step 2: .* version 1 .* version 2"):
        setup.train()
    assert ("step", 1) in setup.seen
    assert ("step", 2) not in setup.seen


@pytest.mark.parametrize(("rate", "last"), [(1e-4, 1), (1e-5, 1), (1e-6, 3)])
def test_the_canary_notices_a_frozen_engine_that_does_not_say_its_version(
    tmp_path: Path, rate: float, last: int
) -> None:
    settings = SLOW.model_copy(update={"learning_rate": rate})
    setup = Setup(tmp_path, engine=Unversioned(frozen_engine()), settings=settings)
    with pytest.raises(LearningError, match="first update of this session"):
        setup.train()
    assert [step for name, step in setup.seen if name == "step"] == list(range(1, last + 1))


def test_two_trainings_never_share_a_folder(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    with pytest.raises(RunError, match="is in use by process"):
        Setup(tmp_path).train()
    lock.release()
    Setup(tmp_path).train()
