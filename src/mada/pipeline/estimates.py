"""How long a recipe takes and how much memory, as far as that can be known before a reply is written.

How long replies will be decides it, and no recipe knows. So everything is reckoned twice: for replies that fill a
quarter of their limit on average, of different lengths (the longest about twice the mean, as in the measurements), and
for replies that all fill it. Counted are sampling, reading of long prompts and learning from every completion; not
counted are loading, grading and reports.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mada.learning.batches import SHARE_FROM
from mada.learning.learner import CPU_MICRO_BATCH_TOKENS, CUDA_MICRO_BATCH_TOKENS
from mada.models.memory import DEFAULT_ROWS
from mada.pipeline.calls import Calls
from mada.pipeline.machine import Machine
from mada.pipeline.throughput import Shape
from mada.recipe.training import TrainingSettings

QUARTER, ALL = 0.25, 1.0
SHARES = (QUARTER, ALL)
LONGEST_QUESTION = 1024
"""Tokens of the longest question that rows are taken to need room for."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A model in its place: what time and memory depend on beside the calls."""

    machine: Machine
    shape: Shape
    window: int
    base_bytes: int
    training_bytes: int
    """Adapters of one role, their gradients and the optimizer's state, in equal parts of four."""
    wanted_rows: int | None

    def row(self, calls: Calls) -> int:
        """Tokens that a row of mada's own engine has room for."""
        return calls.row(question=LONGEST_QUESTION, window=self.window)

    def slot(self, calls: Calls) -> int:
        """Bytes of keys and values of one row, all of which are reserved."""
        return self.row(calls) * self.shape.cache_bytes

    def cache_budget(self, calls: Calls) -> int:
        """Return the bytes for the keys and values of all rows."""
        return self.machine.cache_budget(held=self.base_bytes + self.training_bytes // 4, alone=calls.alone)

    def rows(self, calls: Calls) -> int:
        """Rows that the engine has; 0 when not one fits."""
        return min(
            self.wanted_rows or DEFAULT_ROWS[self.machine.kind], self.cache_budget(calls) // max(1, self.slot(calls))
        )

    def prompt(self, calls: Calls, share: float) -> float:
        """Return the length of a prompt; questions are taken to be as long as those that were measured with."""
        return calls.prompt(share, question=self.machine.throughput.prompt, window=self.window)


def sampling_seconds(calls: Calls, setting: Setting, *, share: float) -> float:
    """Return how long the completions take to sample."""
    measured, shape = setting.machine.throughput, setting.shape
    rows = max(1, min(setting.rows(calls), calls.at_once))
    prompt, reply = setting.prompt(calls, share), calls.reply(share)
    step = measured.step_seconds(rows, spread=share < 1) * measured.slower(shape)
    if measured.cache_bytes_per_second:
        further = max(0.0, prompt + reply / 2 - measured.position)
        step += rows * further * shape.cache_bytes / measured.cache_bytes_per_second
    unread = max(0.0, prompt - measured.prompt) * measured.slower_learning(shape, length=prompt)
    reading = calls.completions / calls.share_prompt * unread * measured.forward
    return calls.completions * reply / rows * step + reading


def learning_seconds(calls: Calls, setting: Setting, settings: TrainingSettings, *, share: float) -> float:
    """Return how long it takes to learn from the completions, if all of them teach something."""
    measured = setting.machine.throughput
    prompt, reply = setting.prompt(calls, share), calls.reply(share)
    length = prompt + reply
    tokens, once = calls.completions * length, calls.completions * (reply + prompt / calls.share_prompt)
    if not settings.gradient_checkpointing and once <= (1 - SHARE_FROM) * tokens:
        tokens = once  # the learner passes prompts once then
    each = measured.recomputing if settings.gradient_checkpointing else measured.learning
    passes = settings.updates_per_rollout * each + (measured.forward if settings.kl_coefficient else 0.0)
    return tokens * passes * measured.slower_learning(setting.shape, length=length)


def seconds_of(calls: Iterable[Calls], setting: Setting, settings: TrainingSettings, *, share: float) -> float:
    """Return how long a stage takes."""
    return sum(
        sampling_seconds(one, setting, share=share)
        + (learning_seconds(one, setting, settings, share=share) if one.learnt else 0.0)
        for one in calls
    )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The largest forward and backward pass of a role: its tokens, those of the longest sequence, and its memory."""

    tokens: int
    longest: int
    bytes: int


def micro_batch_of(calls: Calls, setting: Setting, settings: TrainingSettings, *, share: float) -> MicroBatch:
    """Return the largest micro-batch of a role's training: a sequence longer than the limit has one to itself."""
    by_device = CUDA_MICRO_BATCH_TOKENS if setting.machine.is_gpu else CPU_MICRO_BATCH_TOKENS
    longest = round(setting.prompt(calls, share) + calls.reply(share))
    tokens = min(max(settings.micro_batch_tokens or by_device, longest), calls.at_once * longest)
    return MicroBatch(tokens, longest, round(tokens * bytes_a_token(setting, settings)))


def bytes_a_token(setting: Setting, settings: TrainingSettings) -> float:
    """Return the memory that a token of a micro-batch takes."""
    measured = setting.machine.throughput
    each = measured.recomputed_bytes if settings.gradient_checkpointing else measured.activation_bytes
    return each * setting.shape.activations / measured.shape.activations


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory at its highest, in the training that takes most if all replies fill their limit; pairs by `SHARES`."""

    rows: int
    row: int
    """Tokens that each row has room for."""
    cache_bytes: int
    micro_batches: tuple[MicroBatch, MicroBatch]
    together: tuple[int, int]


def memory_of(setting: Setting, trainings: Iterable[tuple[Calls, TrainingSettings]]) -> MemoryEstimate:
    """Add up what is held at the same time: the engine keeps its cache while the learner works."""
    return max((_memory_of_role(setting, *role) for role in trainings), key=lambda one: one.together[1])


def _memory_of_role(setting: Setting, calls: Calls, settings: TrainingSettings) -> MemoryEstimate:
    low, high = (micro_batch_of(calls, setting, settings, share=share) for share in SHARES)
    rows = setting.rows(calls)
    cache = rows * setting.slot(calls)
    held = setting.base_bytes + setting.training_bytes + cache
    return MemoryEstimate(rows, setting.row(calls), cache, (low, high), (held + low.bytes, held + high.bytes))


def paged_rows(calls: Calls, setting: Setting) -> int:
    """Return how many rows of average length the same memory would hold in pages, as vLLM has them."""
    length = setting.prompt(calls, QUARTER) + calls.reply(QUARTER)
    return int(setting.cache_budget(calls) / (length * setting.shape.cache_bytes))
