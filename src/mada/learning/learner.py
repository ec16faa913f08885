"""The learner: from credited completions to updated adapters, all agents in one batch. Axes: K agent.

    reference log-probs (adapters off) → micro-batches: forward, loss, backward → checks → one AdamW step for all

The checks come before anything is written: a loss or a gradient that is not a number, or log-probabilities that are
not the sampler's (the canary), stop training with weights and moments as they were. Memory that runs out does not
stop it: the pass is done again in smaller micro-batches, which changes nothing but rounding and dropout masks.

Departure from TRL: completions with `learn=False` (groups without spread, skipped truncated ones) get no pass at all,
so they add no KL gradient either; they still count in their agent's means.
"""

import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

import torch
from torch import Tensor

from mada.errors import LearningError
from mada.learning.batches import CreditedCompletion, MicroBatch, micro_batches
from mada.learning.loss import AGGREGATIONS, Route, can_share_prompts
from mada.learning.optimizer import StackedAdamW, learning_rate_share
from mada.learning.passes import (
    Canary,
    Example,
    LearningPass,
    UpdateReport,
    agent_report,
    canary_of,
    forward_pass,
    learning_pass,
    loss_of,
)
from mada.models.adapters import AdapterStack
from mada.models.forward import fuse_norms
from mada.recipe.schema import TrainingSettings
from mada.seeds import seed_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# A CPU is busy with far fewer tokens; more keep groups, which share their prompts, together. An H200 with a 1.5B model
# gains up to 16,384 (half as many leave it waiting for Python, twice as many only pad more); they take 50 GB of
# activations, or 7 GB with gradient checkpointing. A recipe can say otherwise, and running out of memory halves them.
CPU_MICRO_BATCH_TOKENS = 8192
CUDA_MICRO_BATCH_TOKENS = 16384
# How much the canary may grow beyond its level at a session's first step. Rounding varies from step to step, less than
# twofold in bfloat16 (about 0.02 nats); in float32 (about 3e-7) it is the floor that counts, a share of the tolerance.
CANARY_GROWTH = 4.0
CANARY_FLOOR = 1e-4
# Completions of each agent that the canary looks at while dropout is on: a wrong weight shows in any of them.
PROBED_COMPLETIONS = 2

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Learner:
    """GRPO on a stack of adapters.

        learner = Learner(stack, settings, total_steps=100)
        report = learner.update(completions, step=0)

    The same completions, step and state give the same update, whatever random numbers others drew in between.
    """

    def __init__(self, stack: AdapterStack, settings: TrainingSettings, *, total_steps: int, seed: int = 0) -> None:
        self.stack = stack
        self.settings = settings
        self.total_steps = total_steps
        self.seed = seed
        self._device = stack.scale_K.device
        by_device = CUDA_MICRO_BATCH_TOKENS if self._device.type == "cuda" else CPU_MICRO_BATCH_TOKENS
        self.micro_batch_tokens = settings.micro_batch_tokens or by_device
        self._times_out_of_memory = 0
        self._canary_levels: dict[str, float] = {}
        self._can_share_prompts = can_share_prompts(cast("PreTrainedModel", stack.model))
        self.optimizer = StackedAdamW(
            stack.parameters(),
            betas=(settings.adam_beta1, settings.adam_beta2),
            epsilon=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            max_gradient_norm=settings.max_gradient_norm,
        )
        if self._device.type == "cuda":
            fuse_norms(stack.model)
        if settings.gradient_checkpointing:
            stack.enable_checkpointing()

    def update(self, completions: Sequence[CreditedCompletion], *, step: int) -> UpdateReport:
        """Update every agent with its completions of one step, and return a report."""
        self.stack.model.eval()
        seconds = {"reference": 0.0, "learning": 0.0, "optimizer": 0.0}
        ran_out_before = self._times_out_of_memory
        rate = self.learning_rate(step)
        examples = self._examples(completions)
        if self.settings.kl_coefficient and examples:
            with self._timed(seconds, "reference"):
                found = zip(examples, self._forward(examples, lambda _: self.stack.disabled()), strict=True)
                examples = [replace(example, reference_T=reference_T) for example, reference_T in found]
        canaries: dict[str, Canary] = {}
        passes: list[LearningPass] = []
        norms_UK: list[list[float]] = []
        for update in range(self.settings.updates_per_rollout if examples else 0):
            with self._timed(seconds, "learning"):
                passes.append(self._gradients(examples, step=step, update=update))
                if update == 0:
                    canaries = self._canaries(examples, passes[0])
            with self._timed(seconds, "optimizer"):
                norms_UK.append([float(norm) for norm in self.optimizer.gradient_norms().cpu()])
                self._check(examples, passes[-1], norms_UK[-1], canaries, step=step)
                learning = {example.completion.agent for example in examples}
                self.optimizer.step(learning_rate=rate, active_K=[agent in learning for agent in self.stack.agents])
                self.stack.bump_version(learning)
            if update == 0:
                found = zip(examples, passes[0].log_probs, strict=True)
                examples = [replace(example, old_T=log_probs_T) for example, log_probs_T in found]
        agents = {
            agent: agent_report(
                examples,
                passes,
                agent=agent,
                learning_rate=rate,
                gradient_norms=[norms_K[self.stack.index(agent)] for norms_K in norms_UK],
                canary=canaries.get(agent),
            )
            for agent in dict.fromkeys(completion.agent for completion in completions)
        }
        ran_out = self._times_out_of_memory - ran_out_before
        return UpdateReport(agents, sum(len(one.batches) for one in passes), ran_out, seconds)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        settings = self.settings
        return settings.learning_rate * learning_rate_share(
            settings.schedule, step, total_steps=self.total_steps, warmup_ratio=settings.warmup_ratio
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return what another learner needs, beside the adapters, to resume exactly from here. They are not copies."""
        return {
            **self.optimizer.state_dict(),
            "micro_batch_tokens": torch.tensor(self.micro_batch_tokens),
            "recomputes": torch.tensor(self.stack.recomputes),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state that `state_dict` gave."""
        self.optimizer.load_state_dict(state)
        self.micro_batch_tokens = min(self.micro_batch_tokens, int(state["micro_batch_tokens"]))
        if state.get("recomputes"):  # not in states written before there was such a thing
            self.stack.enable_checkpointing()

    def _examples(self, completions: Sequence[CreditedCompletion]) -> list[Example]:
        """Return the completions to learn from, their tokens weighted by all of the agent's completions."""
        lengths: dict[str, list[int]] = {}
        for completion in completions:
            self.stack.index(completion.agent)  # refuses an agent that is not there
            lengths.setdefault(completion.agent, []).append(len(completion.completion_ids))
        aggregation = AGGREGATIONS[self.settings.loss_aggregation]
        weights = {agent: iter(aggregation(own, self.settings.max_new_tokens)) for agent, own in lengths.items()}
        examples = [Example(completion, next(weights[completion.agent])) for completion in completions]
        return [example for example in examples if example.completion.learn]

    def _forward(self, examples: Sequence[Example], route: Route) -> list[Tensor]:
        def run(batches: list[MicroBatch]) -> list[Tensor]:
            return forward_pass(self.stack, batches, temperature=self.settings.temperature, route=route)

        return self._run_within_memory(examples, run)

    def _gradients(self, examples: Sequence[Example], *, step: int, update: int) -> LearningPass:
        def seed_of(micro_batch: int) -> int:
            return seed_for(self.seed, "dropout", step, update, micro_batch)

        def run(batches: list[MicroBatch]) -> LearningPass:
            self.optimizer.drop_gradients()
            return learning_pass(
                self.stack, examples, batches, settings=self.settings, optimizer=self.optimizer, seed_of=seed_of
            )

        return self._run_within_memory(examples, run)

    def _run_within_memory(self, examples: Sequence[Example], run: Callable[[list[MicroBatch]], Result]) -> Result:
        """Run a pass over micro-batches, and again with smaller ones while memory runs out."""
        completions = [example.completion for example in examples]
        while True:
            batches = micro_batches(
                completions,
                agents=self.stack.agents,
                max_tokens=self.micro_batch_tokens,
                # A block that is computed again in the backward pass cannot hand its keys on.
                share_prompts=self._can_share_prompts and not self.stack.recomputes,
            )
            try:
                return run(batches)
            except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
                if not _out_of_memory(error):
                    raise
            # Outside of the handler, whose traceback would keep the tensors of the failed pass alive.
            self._use_less_memory(batches)

    def _use_less_memory(self, batches: Sequence[MicroBatch]) -> None:
        """Free what can be freed; halve the micro-batches, or recompute where the largest is one sequence already."""
        self.optimizer.drop_gradients()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        self._times_out_of_memory += 1
        largest = max(batches, key=lambda batch: batch.size)
        if len(largest.completions) > 1:
            self.micro_batch_tokens = max(1, min(self.micro_batch_tokens, largest.size) // 2)
            log.warning(
                "out of memory on %s with micro-batches of %d tokens; going on with %d (set "
                "training.micro_batch_tokens to start there)",
                *(self._device, largest.size, self.micro_batch_tokens),
            )
        elif self.stack.supports_checkpointing and not self.stack.recomputes:
            self.stack.enable_checkpointing()
            log.warning(
                "out of memory on %s with a single sequence of %d tokens; going on with activations that are computed "
                "again in the backward pass, which is slower (set training.gradient_checkpointing = true to start "
                "there)",
                *(self._device, largest.size),
            )
        else:
            recomputing = "are" if self.stack.recomputes else "cannot be"
            raise LearningError(
                f"a single sequence of {largest.size} tokens does not fit into the memory of {self._device}, and its "
                f"activations {recomputing} recomputed; lower training.max_new_tokens, or use a larger device"
            )

    def _canaries(self, examples: Sequence[Example], first: LearningPass) -> dict[str, Canary]:
        """Compare the engine's log-probabilities with the learner's, per agent.

        Without dropout the first learning pass has the numbers; with it, a few completions are passed once more.
        """
        pairs = [(example.completion, one.log_probs_T) for example, one in zip(examples, first.tokens, strict=True)]
        if any(lora.dropout for lora in self.stack.lora.values()):
            sampled = [example for example in examples if example.completion.engine_log_probs is not None]
            own = {agent: [one for one in sampled if one.completion.agent == agent] for agent in self.stack.agents}
            probed = [example for some in own.values() for example in some[:PROBED_COMPLETIONS]]
            found = zip(probed, self._forward(probed, self.stack.routed), strict=True)
            pairs = [(example.completion, log_probs_T.cpu().numpy()) for example, log_probs_T in found]
        canaries = {agent: canary_of([pair for pair in pairs if pair[0].agent == agent]) for agent in self.stack.agents}
        return {agent: canary for agent, canary in canaries.items() if canary is not None}

    def _check(
        self,
        examples: Sequence[Example],
        done: LearningPass,
        norms_K: Sequence[float],
        canaries: Mapping[str, Canary],
        *,
        step: int,
    ) -> None:
        """Raise for an update that would do harm, and drop its gradients."""
        pairs = list(zip(examples, done.tokens, strict=True))
        for agent, norm in zip(self.stack.agents, norms_K, strict=True):
            loss = loss_of([tokens for example, tokens in pairs if example.completion.agent == agent])
            odd = [
                f"{name} is {one}" for name, one in (("loss", loss), ("gradient norm", norm)) if not math.isfinite(one)
            ]
            strange = self._strange_canary(agent, canaries[agent]) if agent in canaries else None
            if not odd and strange is None:
                continue
            self.optimizer.drop_gradients()
            where = f"{agent}, step {step + 1}"  # people count steps from 1
            if odd:
                raise LearningError(
                    f"{where}: the {odd[0]}; nothing was changed by this update. Lower training.learning_rate, "
                    "set training.max_gradient_norm, and look at the step's completions and rewards"
                )
            raise LearningError(
                f"{where}: the learner's log-probabilities differ from the engine's by {canaries[agent].mean:.4g} nats "
                f"per token, {strange}. What was sampled is not what learns: the engine has other weights, another "
                "base or another temperature, or computes too coarsely. This update changed nothing. Check the "
                "engine's base, adapter and dtype, then rerun to resume from the last checkpoint; raise the tolerance "
                "only knowing why"
            )

    def _strange_canary(self, agent: str, canary: Canary) -> str | None:
        """Say why a canary is too large: beyond the tolerance, or far beyond the agent's first one in this session."""
        tolerance, level = self.settings.canary_tolerance, self._canary_levels.setdefault(agent, canary.mean)
        if not canary.mean <= tolerance:
            return f"more than training.canary_tolerance = {tolerance:g}"
        if canary.mean > max(CANARY_GROWTH * level, CANARY_FLOOR * tolerance):
            return f"and by {level:.3g} at the first update of this session"
        return None

    @contextmanager
    def _timed(self, seconds: dict[str, float], part: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        seconds[part] += time.perf_counter() - start


def _out_of_memory(error: BaseException) -> bool:
    """Tell memory that ran out from other failures; a CPU's allocator and cuBLAS have no exception of their own."""
    known = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in known)
