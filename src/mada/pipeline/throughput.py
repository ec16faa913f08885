"""How fast mada was where it was measured, and how much memory it took there: what estimates are made of.

Every number is one of docs/performance.md, by the section and the row named beside it, or follows from such numbers as
its comment says. Other models are reckoned from these by their size (`Shape`), which is no measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Shape:
    """What the cost of one token of a model depends on."""

    parameters: int
    """Those that a token is multiplied with: an input embedding counts only where it is the head too."""
    layers: int
    hidden: int
    inner: int
    cache_bytes: int
    """Keys and values of one token."""
    width: int
    """Bytes of a number."""

    def products(self, length: float) -> float:
        """Return the multiplications of a token in a sequence of this length, as benchmarks/gpu/learn.py counts them.

        A token attends to half of a causal sequence on average, in two products.
        """
        return self.parameters + self.layers * self.hidden * length

    @property
    def activations(self) -> int:
        """What activations are in proportion to. It takes the H200's bytes per token to the CPU's within 1 %."""
        return self.layers * (2 * self.hidden + self.inner) * self.width


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was measured on a device with one model of a known shape. Seconds are per token."""

    shape: Shape
    fixed: Mapping[int, float]
    """Tokens per second by the number of rows, all replies of one length."""
    ragged: Mapping[int, float]
    """The same with replies of different lengths, the longest about twice the mean, until the last row has ended."""
    prompt: int
    """Tokens of the prompts whose reading is part of these rates."""
    position: int
    """Places that a row's attention looked at in a step, on average."""
    cache_bytes_per_second: float | None
    """How fast attention reads keys and values; None where the length of rows hardly counts."""
    learning: float
    """Forward and backward."""
    recomputing: float
    """The same with activations computed again."""
    forward: float
    """Forward without gradients: the reference, and long prompts."""
    length: int
    """Tokens of the sequences that were learnt from."""
    activation_bytes: float
    """Memory of one token in a micro-batch, logits and gradients of activations included."""
    recomputed_bytes: float
    """The same with activations computed again."""

    def step_seconds(self, rows: int, *, spread: bool) -> float:
        """Return how long one token for every row takes, between measured numbers of rows by a straight line."""
        steps = {count: count / rate for count, rate in (self.ragged if spread else self.fixed).items()}
        known = sorted(steps)
        if len(known) == 1:  # a CPU, where a step costs in proportion to its rows
            return rows * steps[known[0]] / known[0]
        if rows <= known[0]:  # a GPU with so few rows is bound by its number of kernels
            return steps[known[0]]
        upper = next((count for count in known[1:] if count >= rows), known[-1])
        lower = known[known.index(upper) - 1]
        slope = (steps[upper] - steps[lower]) / (upper - lower)
        return steps[lower] + slope * (rows - lower)

    def slower(self, shape: Shape) -> float:
        """Return how much longer a sampling step of another model takes: by its parameters, or at least its layers.

        A small model is bound by the number of its kernels, which follows its layers.
        """
        return max(shape.parameters / self.shape.parameters, shape.layers / self.shape.layers)

    def slower_learning(self, shape: Shape, *, length: float) -> float:
        """Return how much longer a token of another model in sequences of another length takes to learn from."""
        return shape.products(length) / self.shape.products(self.length)


# "Learning on a GPU": tokens per second of `mada, three agents in one batch`, `mada, activations recomputed` and
# `mada, whole update with reference, canary and AdamW`; what the last has more than the first is a forward pass.
_LEARN, _RECOMPUTED, _WHOLE = 44_540, 26_952, 32_811
# The same table's peak memory, in micro-batches of 16,384 tokens (benchmarks/gpu/learn.py); the weights in bfloat16
# and the state of three adapters (16 bytes a parameter) were part of it.
_TOKENS, _PARAMETERS, _ADAPTERS = 16_384, 1_543_714_304, 3 * 18_464_768
_PEAK, _PEAK_RECOMPUTED, _HELD = 48 * GIB, 7 * GIB, 2 * _PARAMETERS + 16 * _ADAPTERS
_CACHE_BYTES = 2 * 28 * 2 * 128 * 2  # keys and values, layers, heads, head size, bfloat16

H200 = Throughput(
    shape=Shape(_PARAMETERS, layers=28, hidden=1536, inner=8960, cache_bytes=_CACHE_BYTES, width=2),
    # "Sampling on a GPU", first table, column `mada`
    fixed={16: 5_678, 48: 15_244, 192: 44_816, 512: 69_909},
    ragged={16: 3_949, 48: 9_944, 192: 29_993, 512: 49_591},
    prompt=128,
    position=128 + 512 // 2,
    # "What bounds a step": with 512 rows attention is 24 % of 7.3 ms, and reads all that is in the cache
    cache_bytes_per_second=512 * (128 + 512 // 2) * _CACHE_BYTES / (0.24 * 7.3e-3),
    learning=1 / _LEARN,
    recomputing=1 / _RECOMPUTED,
    forward=1 / _WHOLE - 1 / _LEARN,
    length=1024,
    activation_bytes=(_PEAK - _HELD) / _TOKENS,
    recomputed_bytes=(_PEAK_RECOMPUTED - _HELD) / _TOKENS,
)

# "On a CPU": one GRPO step of three agents takes 1.77 s, of which 42 % learning and 11 % the reference, and lets peak
# memory grow by 455 MiB. Its 48 sequences have 128 tokens, half of them the prompt (benchmarks/grpo_step.py).
_STEP, _STEP_TOKENS = 1.77, 48 * 128

CPU = Throughput(
    shape=Shape(2_363_008, layers=5, hidden=192, inner=512, cache_bytes=2 * 5 * 2 * 32 * 4, width=4),
    # "On a CPU", rows `sampling, three adapters mixed` and `sampling, ragged`; 48 rows (benchmarks/sampling.py)
    fixed={48: 4_275},
    ragged={48: 3_189},
    prompt=64,
    position=64 + 64 // 2,
    cache_bytes_per_second=None,
    learning=0.42 * _STEP / _STEP_TOKENS,
    # Not measured on a CPU: the H200's ratios, in time and in memory
    recomputing=0.42 * _STEP / _STEP_TOKENS * _LEARN / _RECOMPUTED,
    forward=0.11 * _STEP / _STEP_TOKENS,
    length=128,
    activation_bytes=455 * 2**20 / _STEP_TOKENS,
    recomputed_bytes=455 * 2**20 / _STEP_TOKENS * H200.recomputed_bytes / H200.activation_bytes,
)
