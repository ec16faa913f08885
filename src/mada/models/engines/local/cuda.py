"""Sampling on a CUDA device: the Llama block in few launches, and steps replayed as CUDA graphs.

A step of a compact model is a few hundred small kernels, and launching them one by one from Python takes longer than
running them. A CUDA graph launches all of them at once, for a fixed number of rows: steps are captured for several
sizes, and a step with fewer rows than its size also computes idle slots.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from mada.models.adapters import AdapterStack
from mada.models.engines.local import kernels
from mada.models.engines.local.batch import Batch, SampledTokens
from mada.models.engines.local.llama import Block, FusedLinear, LlamaNetwork
from mada.models.engines.local.network import KVCache
from mada.models.engines.local.sampling import SamplingTensors, random_keys
from mada.models.forward import logits_of

# Batch sizes that are captured: close together where a step is bound by launches, wider where by arithmetic.
_CAPTURE_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
_CAPTURE_STEP = 128
_LENGTH_STEP = 256
_WARM_UPS = 2
# Moving rows together needs memory for a copy of their keys: 50 to 500 MiB for models of 0.5 to 8 billion weights.
_MOVE_TOKENS = 8192


class CudaLlamaNetwork(LlamaNetwork):
    """A Llama-like model whose decoding step is a dozen kernels a block, and reads only filled cache positions."""

    reads_own_lengths = True

    def __init__(self, model: PreTrainedModel, stack: AdapterStack | None, *, context: int) -> None:
        super().__init__(model, stack, context=context)
        self.silu = isinstance(self.activation, nn.SiLU | SiLUActivation)
        self.cos_CD, self.sin_CD = self.cos_CD.contiguous(), self.sin_CD.contiguous()

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: KVCache, *, longest: int
    ) -> Tensor:
        """Append one token to each of the first N slots."""
        x = self.embed(tokens_N)
        gate = None if gate_NK is None else self._gate(gate_NK)
        delta: Tensor | None = None
        for index, block in enumerate(self.blocks):
            normed = kernels.add_norm(x, delta, block.attention_norm.weight, self.epsilon)
            attended = self._attend(block, index, _project(block.qkv, normed, gate), lengths_N, cache)
            normed = kernels.add_norm(x, _project(block.out, attended, gate), block.mlp_norm.weight, self.epsilon)
            pair = _project(block.gate_up, normed, gate)
            delta = _project(block.down, self._activate(pair), gate)
        return logits_of(self.model, kernels.add_norm(x, delta, self.norm.weight, self.epsilon))

    def _attend(self, block: Block, index: int, qkv: Tensor, lengths_N: Tensor, cache: KVCache) -> Tensor:
        layer = cache.keys_LSHCD[index], cache.values_LSHCD[index]
        queries = kernels.rotate_and_store(
            qkv,
            *layer,
            lengths_N,
            cos_CD=self.cos_CD,
            sin_CD=self.sin_CD,
            query_heads=self.heads * self.queries,
            query_norm=None if block.query_norm is None else block.query_norm.weight,
            key_norm=None if block.key_norm is None else block.key_norm.weight,
            epsilon=self.epsilon,
            rotary=block.rotary,
        )
        return kernels.attend(queries, *layer, lengths_N, scale=self.scale, window=block.window)

    def _output_and_mlp(self, block: Block, x: Tensor, attended: Tensor, gate: Tensor | None) -> Tensor:
        normed = kernels.add_norm(x, block.out(attended, gate), block.mlp_norm.weight, self.epsilon)
        return x.add_(block.down(self._activate(block.gate_up(normed, gate)), gate))

    def _activate(self, pair: Tensor) -> Tensor:
        if self.silu:
            return kernels.silu_mul(pair)
        gated, up = pair.chunk(2, dim=-1)
        return self.activation(gated) * up


def _project(layer: FusedLinear, x: Tensor, gate_NKR: Tensor | None) -> Tensor:
    if gate_NKR is None or not layer.adapted or not kernels.can_expand(layer.ends):
        return layer(x, gate_NKR)
    y = functional.linear(x, layer.weight, layer.bias)
    kernels.expand(y, layer.shrink(x), gate_NKR, layer.B_KRO.flatten(0, 1), layer.ends)
    return y


class GraphBatch(Batch):
    """A batch whose steps are captured once for each size, and replayed."""

    move_tokens = _MOVE_TOKENS

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._graphs: dict[tuple[int, int, bool], torch.cuda.CUDAGraph] = {}
        self._pool: object = None

    def padded_size(self, count: int) -> int:
        """Return the captured size that steps over the first `count` slots replay."""
        return min(_size(count), self.cache.slots)

    def step(self, count: int, *, longest: int, filtered: bool) -> SampledTokens:
        """Draw the next token of the first `count` slots; the tokens of idle slots mean nothing."""
        size = self.padded_size(count)
        # Captured lengths count only for networks that look at whole slices of the cache.
        own = getattr(self.network, "reads_own_lengths", False)
        length = self.cache.context if own else min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, self.cache.context)
        graph = self._graphs.get((size, length, filtered))
        if graph is None:
            graph = self._graphs[size, length, filtered] = self._capture(size, longest=length, filtered=filtered)
        graph.replay()
        return self.copy_to_host(self.tokens_S[:count], self.log_probs_S[:count])

    def sample(self, logits_NV: Tensor, settings: SamplingTensors, *, filtered: bool) -> tuple[Tensor, Tensor]:
        """Draw one token per row; without filters, in one pass over the logits."""
        if filtered:
            return super().sample(logits_NV, settings, filtered=filtered)
        return kernels.sample_tokens(logits_NV, settings.temperature_N, random_keys(settings.seed_N, settings.count_N))

    def copy_to_host(self, tokens_N: Tensor, log_probs_N: Tensor) -> SampledTokens:
        """Start copying sampled tokens to the host, without waiting."""
        host = [torch.empty(len(each), dtype=each.dtype, pin_memory=True) for each in (tokens_N, log_probs_N)]
        for target, source in zip(host, (tokens_N, log_probs_N), strict=True):
            target.copy_(source, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
        return _PendingTokens(host[0], host[1], ready)

    def _capture(self, size: int, *, longest: int, filtered: bool) -> torch.cuda.CUDAGraph:
        # A step run to warm up moves the rows on; they are put back. What it wrote to the cache lies beyond every row's
        # end, where the real steps write again.
        before = [tensor.clone() for tensor in self._tensors()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self.forward(size, longest=longest, filtered=filtered)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):  # type: ignore[arg-type]
            self.forward(size, longest=longest, filtered=filtered)
        self._pool = graph.pool()
        for tensor, kept in zip(self._tensors(), before, strict=True):
            tensor.copy_(kept)
        return graph


def _size(count: int) -> int:
    """Return the smallest captured size that holds so many rows."""
    return next((size for size in _CAPTURE_SIZES if size >= count), -(-count // _CAPTURE_STEP) * _CAPTURE_STEP)


@dataclass(frozen=True, slots=True)
class _PendingTokens:
    tokens_N: Tensor
    log_probs_N: Tensor
    ready: torch.cuda.Event

    def fetch(self) -> tuple[list[int], list[float]]:
        self.ready.synchronize()
        return self.tokens_N.tolist(), self.log_probs_N.tolist()
