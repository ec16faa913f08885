"""The training loop: sample, credit, update, validate now and then, and keep the best adapters (T1–T7)."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from mada.atomic import remove_temporaries
from mada.errors import LearningError
from mada.events import (
    BestStep,
    CheckpointWritten,
    Events,
    StepFinished,
    StepProgress,
    StepRollouts,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
)
from mada.learning.advantages import credit_groups
from mada.learning.checkpoints import (
    BestAdapter,
    Checkpoints,
    check_same_training,
    is_better,
    remove_unreferenced,
    restore_adapters,
    save_best,
)
from mada.learning.learner import Learner
from mada.learning.metrics import (
    TrainingRecords,
    accuracy_of,
    agent_step,
    group_credits,
    readable_groups,
    truncated_share,
)
from mada.learning.rollouts import Group, GroupRequest, prompts_of_step, sample_groups, steps_to_take
from mada.learning.task import TrainingTask, check_task, identity
from mada.models.adapters import AdapterStack
from mada.models.engines import Engine, Sampling
from mada.recipe.schema import TrainingSettings
from mada.runs.folder import accessible
from mada.runs.lock import lock_folder
from mada.runs.records import AgentStep, GroupCredit, ValidationStep
from mada.seeds import seed_for


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What training leaves: the steps taken, and each agent's best adapter in the folder."""

    folder: Path
    steps: int
    best: Mapping[str, BestAdapter]

    def adapter(self, agent: str) -> Path:
        """Return the PEFT folder of an agent's best adapter."""
        return self.folder / self.best[agent].folder


class Trainer:
    """Trains all agents of a task together, in one folder, from the start or from where it was interrupted.

        trainer = Trainer(stack, engine, task, settings=TrainingSettings(), folder=Path("generators"), base_name=name)
        result = await trainer.train()

    The stack's adapters must be those training began with: blank ones, on the first call. Afterwards they are the last
    ones; the best are in files. `clock` gives seconds: by it, and by nothing else here, checkpoints may come earlier
    than their number of steps.
    """

    def __init__(
        self,
        stack: AdapterStack,
        engine: Engine,
        task: TrainingTask,
        *,
        settings: TrainingSettings,
        folder: Path,
        base_name: str,
        seed: int = 0,
        events: Events | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_task(task, stack, settings)
        self.agents = tuple(agent for agent in stack.agents if agent in task.prompts)
        self.total_steps = steps_to_take(settings, task.prompts)
        self.folder = folder
        self.learner = Learner(stack, settings, total_steps=self.total_steps, seed=seed)
        self._stack, self._engine, self._task, self._settings = stack, engine, task, settings
        self._seed, self._base_name, self._events = seed, base_name, events or Events()
        self._sampling = Sampling(
            settings.max_new_tokens, settings.temperature, top_p=settings.top_p, stop_tokens=task.stop_tokens
        )
        self._checkpoints = Checkpoints(folder, keep=settings.keep_checkpoints)
        self._clock, self._checkpoint_time = clock, clock()
        self._checkpoint_step = self._updated_step = 0
        self._best: dict[str, BestAdapter] = {}
        self._identity = identity(task, stack, settings, seed=seed, steps=self.total_steps, base_name=base_name)

    async def train(self) -> TrainingResult:
        """Train to the last step and return the best adapters; resume where an earlier session stopped.

        Cancelling (or Ctrl-C) stops it at its next await and loses at most the current step.
        """
        with accessible(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.callback(lock_folder(self.folder).release)  # two trainings in one folder would both be lost
            records = opened.enter_context(TrainingRecords(self.folder))
            done = self._resume(records)
            self._checkpoint_step = done or 0
            self._checkpoint_time = self._clock()  # what came before this session is in a checkpoint already
            await self._engine.wake_up()  # the adapters may be those of a checkpoint
            if done is None:
                await self._validate(0, records)
                self._checkpoint(0, records)
            for step in range((done or 0) + 1, self.total_steps + 1):
                try:
                    await self._take_step(step, records)
                except asyncio.CancelledError:
                    self._checkpoint_before(step, records)
                    raise
                is_due = step % self._settings.validate_every == 0 or step == self.total_steps
                if is_due:
                    await self._validate(step, records)
                if is_due or step % self._settings.checkpoint_every == 0 or self._is_checkpoint_overdue():
                    self._checkpoint(step, records)
        self._events.emit(TrainingFinished(self.folder.name))
        return TrainingResult(self.folder, self.total_steps, dict(self._best))

    async def _take_step(self, step: int, records: TrainingRecords) -> None:
        """Take one step: sample a group per prompt and agent, credit every completion, update the adapters."""
        started = time.perf_counter()
        size = self._settings.group_size
        groups = await self._sample(self._rollouts(step), step=step, size=size, phase="sampling")
        sampled = time.perf_counter()
        credited = credit_groups(groups, self._task.credit, truncated=self._settings.truncated)
        self._events.emit(StepProgress("learning", 0, 1))
        completions = [completion for group in credited for completion in group.for_learner()]
        await self._engine.sleep()
        self._updated_step = step
        report = self.learner.update(completions, step=step - 1)
        await self._engine.wake_up()
        rollout, learn = sampled - started, time.perf_counter() - sampled
        seconds = {"rollout_seconds": rollout, "learn_seconds": learn}
        own = {agent: [one for one in credited if one.group.agent == agent] for agent in self.agents}
        agents = {agent: agent_step(step, agent, own[agent], report.agents[agent], **seconds) for agent in self.agents}
        records.add(AgentStep, agents.values())
        records.add(GroupCredit, group_credits(step, credited, deviation=self._task.credit.deviation))
        self._events.emit(StepFinished(step, self.total_steps, agents, rollout, learn))
        if self._task.decode is not None and self._events.wants(StepRollouts):
            self._events.emit(StepRollouts(self.folder.name, step, readable_groups(credited, self._task.decode)))

    async def _sample(
        self, requests: Sequence[GroupRequest], *, step: int, size: int, phase: Literal["sampling", "validating"]
    ) -> list[Group]:
        def progress(done: int, of: int) -> None:
            self._events.emit(StepProgress(phase, done, of))

        progress(0, len(requests))
        groups = await sample_groups(
            self._engine, requests, self._task.scorer, sampling=self._sampling, size=size, progress=progress
        )
        _check_versions(groups, self._stack, where=f"{phase} in step {step}")
        return groups

    def _rollouts(self, step: int) -> list[GroupRequest]:
        requests: list[GroupRequest] = []
        for agent in self.agents:
            count = self._settings.prompts_per_step
            prompts = prompts_of_step(self._task.prompts[agent], step, agent=agent, count=count, seed=self._seed)
            for index, prompt in enumerate(prompts):
                before = [earlier.id for earlier in prompts[:index]]
                # A prompt that comes twice in a step, where epochs meet, must not bring the same samples twice.
                again = [times] if (times := before.count(prompt.id)) else []
                seed = seed_for(self._seed, "rollout", agent, step, prompt.id, *again)
                requests.append(GroupRequest(agent, prompt, seed))
        return requests

    async def _validate(self, step: int, records: TrainingRecords) -> None:
        """Have all agents answer the validation set, and keep the adapters that are better than any before (T4)."""
        if not self._task.validation:
            if step == self.total_steps:
                for agent in self.agents:
                    self._save_best(agent, step=step, accuracy=None)
            return
        started = time.perf_counter()
        # The same random numbers for every agent at every step: what differs is the adapters' doing.
        requests = [
            GroupRequest(agent, prompt, seed_for(self._seed, "validation", prompt.id))
            for agent in self.agents
            for prompt in self._task.validation_of(agent)
        ]
        groups = await self._sample(requests, step=step, size=1, phase="validating")
        agents = {
            agent: self._validate_agent(agent, step, [own for own in groups if own.agent == agent])
            for agent in self.agents
        }
        records.add(ValidationStep, agents.values())
        self._events.emit(ValidationFinished(step, self.total_steps, agents, time.perf_counter() - started))

    def _validate_agent(self, agent: str, step: int, groups: Sequence[Group]) -> ValidationStep:
        accuracy = accuracy_of(groups)
        if accuracy is None:
            raise LearningError(
                f"the scorer says of none of {agent}'s replies to the validation set whether it is correct; the best "
                "adapter is chosen by accuracy, so have it set Reward.correct, or leave out the validation set"
            )
        is_best = is_better(accuracy, self._best.get(agent))
        if is_best:
            self._save_best(agent, step=step, accuracy=accuracy)
        lengths = [len(drawn.token_ids) for group in groups for drawn in group.completions]
        return ValidationStep(step, agent, accuracy, fmean(lengths), truncated_share(groups), is_best)

    def _save_best(self, agent: str, *, step: int, accuracy: float | None) -> None:
        self._best[agent] = save_best(
            self._stack, agent, step=step, accuracy=accuracy, folder=self.folder, base_name=self._base_name
        )

    def _is_checkpoint_overdue(self) -> bool:
        minutes = self._settings.checkpoint_minutes
        return minutes is not None and self._clock() - self._checkpoint_time > 60 * minutes

    def _checkpoint_before(self, step: int, records: TrainingRecords) -> None:
        """Save the steps before the one that was cancelled, unless they are saved or it has changed the adapters."""
        if self._checkpoint_step < step - 1 and self._updated_step < step:
            self._checkpoint(step - 1, records)

    def _checkpoint(self, step: int, records: TrainingRecords) -> None:
        records.sync()
        path = self._checkpoints.write(
            step,
            adapters=self._stack.parameters(),
            optimizer=self.learner.state_dict(),
            best=self._best,
            training=self._identity,
        )
        self._checkpoint_time, self._checkpoint_step = self._clock(), step
        running = {adapter.folder for adapter in self._best.values()}
        remove_unreferenced(self.folder, referenced=self._checkpoints.referenced() | running)
        self._events.emit(CheckpointWritten(step, path))

    def _resume(self, records: TrainingRecords) -> int | None:
        """Restore the newest complete checkpoint and return its step; None when there is none."""
        remove_temporaries(self.folder)
        checkpoint = self._checkpoints.newest()
        done = None if checkpoint is None else checkpoint.state.step
        self._best = {}
        if checkpoint is not None:
            check_same_training(checkpoint.state.training, self._identity, folder=self.folder)
            restore_adapters(self._stack, checkpoint.adapters)
            self.learner.load_state_dict(checkpoint.optimizer)
            self._best = dict(checkpoint.state.best)
        records.drop_after(done)
        self._events.emit(
            TrainingStarted(
                self.folder.name,
                self.agents,
                first_step=(done or 0) + 1,
                total_steps=self.total_steps,
                settings=self._settings.model_dump(),
                best={agent: BestStep(best.step, best.accuracy) for agent, best in self._best.items()},
                checkpoint=checkpoint and checkpoint.path,
            )
        )
        return done


def _check_versions(groups: Sequence[Group], stack: AdapterStack, *, where: str) -> None:
    """Raise when an engine sampled with adapters that are not the learner's; not all engines say with which."""
    for group in groups:
        current = stack.version(group.agent)
        sampled = {one.adapter_version for one in group.completions} - {None, current}
        if sampled:
            raise LearningError(
                f"{where}: the engine sampled {group.agent} with version {sampled.pop()} of its adapter, and the "
                f"learner has version {current}: the engine did not get the last update. Nothing was learnt from "
                "these samples. Rerun to resume from the last checkpoint; if it happens again, use engine.kind=local"
            )
