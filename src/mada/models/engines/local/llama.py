"""The usual decoder block of compact models, for sampling: RMS norm, grouped-query attention with rotary positions,
gated feed-forward, residuals.

Qwen2, Qwen3, Llama, SmolLM, Mistral and their descendants share it. The weights are the Hugging Face model's own
tensors; unlike in its forward pass, layers with one input are one product, and a step has few operations. Axes: N row
or token, H key-value head, Q query heads per key-value head, D head size, L position; of `FusedLinear`: G layer of the
group, K agent, R rank, I in, O out of all layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from mada.models.adapters import AdapterStack, StackedLinear
from mada.models.engines.local.network import KVCache, PromptBatch
from mada.models.forward import layer_windows, logits_of, trunk
from mada.models.memory import CacheShape

MODEL_TYPES = frozenset({"qwen2", "qwen3", "llama", "mistral", "smollm3"})


class FusedLinear:
    """Linear layers of one input as one product, such as queries, keys and values, with their stacked adapters.

    Side by side, the layers are one product for the weights, one for all A, and one per layer for B. Their own
    parameters become views of the joined tensors: nothing is copied, and the engine reads what the optimizer writes.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        bases = [_base_of(layer) for layer in layers]
        self.weight = _join([base.weight for base in bases], dim=0)
        # Biases are small and frozen: a copy.
        biases: list[Tensor | None] = [base.bias for base in bases]
        zeros = [torch.zeros_like(base.weight[:, 0]) for base in bases]
        given = [zero if bias is None else bias.detach() for bias, zero in zip(biases, zeros, strict=True)]
        self.bias = torch.cat(given) if any(bias is not None for bias in biases) else None
        self.ends = list(accumulate(base.out_features for base in bases))
        stacked = [layer for layer in layers if isinstance(layer, StackedLinear)]
        self.adapted = len(stacked) == len(layers)
        if self.adapted:
            self.A_IGKR = _join_inputs_first([layer.A_KRI for layer in stacked])
            self.B_KRO = _join([layer.B_KRO for layer in stacked], dim=2)

    @staticmethod
    def supports(layers: Sequence[nn.Module]) -> bool:
        """Whether these layers can be fused: linear layers, all with adapters or none."""
        return {type(layer) for layer in layers} in ({nn.Linear}, {StackedLinear})

    def __call__(self, x: Tensor, gate_NKR: Tensor | None) -> Tensor:
        """Apply the weights and, with a gate, each row's own adapter; return the layers' outputs side by side."""
        y = functional.linear(x, self.weight, self.bias)
        if gate_NKR is None or not self.adapted:
            return y
        z_NGKR = self.shrink(x).view(len(x), len(self.ends), -1) * gate_NKR[:, None]
        start = 0
        for index, end in enumerate(self.ends):
            y[:, start:end].addmm_(z_NGKR[:, index], self.B_KRO[..., start:end].flatten(0, 1))
            start = end
        return y

    def shrink(self, x: Tensor) -> Tensor:
        """Return x times A of all agents, for each of the layers, [N, G·K·R]."""
        return torch.mm(x, self.A_IGKR.flatten(1))


def _base_of(layer: nn.Module) -> nn.Linear:
    base = layer.base if isinstance(layer, StackedLinear) else layer
    assert isinstance(base, nn.Linear)
    return base


def _join(parameters: Sequence[Tensor], *, dim: int) -> Tensor:
    """Concatenate parameters, and make them views of the result."""
    if len(parameters) == 1:
        return parameters[0].detach()
    joined = torch.cat([parameter.detach() for parameter in parameters], dim=dim)
    for parameter, part in zip(parameters, joined.split([one.shape[dim] for one in parameters], dim=dim), strict=True):
        parameter.data = part
    return joined


def _join_inputs_first(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Stack all A with the input as first axis, for one product, and make them views of the result.

    On a CPU, a product with few columns is several times faster in this layout.
    """
    joined = torch.stack([parameter.detach().permute(2, 0, 1) for parameter in parameters], dim=1)
    for index, parameter in enumerate(parameters):
        parameter.data = joined[:, index].permute(1, 2, 0)
    return joined


@dataclass(frozen=True, slots=True)
class Block:
    """One decoder layer's parts."""

    qkv: FusedLinear
    out: FusedLinear
    gate_up: FusedLinear
    down: FusedLinear
    attention_norm: Any
    mlp_norm: Any
    query_norm: Any | None
    key_norm: Any | None
    rotary: bool
    window: int | None


class LlamaNetwork:
    """A Llama-like model that writes keys and values straight into the engine's cache."""

    def __init__(self, model: PreTrainedModel, stack: AdapterStack | None, *, context: int) -> None:
        self.model = model
        self.rank = max((layer.rank for layer in stack.layers.values()), default=0) if stack else 0
        inner: Any = trunk(model)
        first = inner.layers[0].self_attn
        config = model.config
        self.shape = CacheShape.of(config, model.dtype)
        self.heads = self.shape.heads
        self.queries: int = config.num_attention_heads // self.heads
        self.head_size: int = first.head_dim
        self.scale: float = first.scaling
        self.activation = inner.layers[0].mlp.act_fn
        self.epsilon: float = config.rms_norm_eps
        self.embed, self.norm = inner.embed_tokens, inner.norm
        windows = layer_windows(config)
        self.blocks = [_block(layer, window) for layer, window in zip(inner.layers, windows, strict=True)]
        positions = torch.arange(context, device=model.device)[None]
        cos, sin = inner.rotary_emb(self.embed.weight[:1, None], positions)
        self.cos_CD, self.sin_CD = cos[0], sin[0]

    @staticmethod
    def supports(model: PreTrainedModel) -> bool:
        """Whether a model has this block."""
        rope = getattr(model.config, "rope_parameters", None) or {}
        if model.config.model_type not in MODEL_TYPES or rope.get("rope_type") in ("dynamic", "longrope"):
            return False
        return all(
            FusedLinear.supports([layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj])
            and FusedLinear.supports([layer.mlp.gate_proj, layer.mlp.up_proj])
            for layer in trunk(model).layers  # type: ignore[union-attr]
        )

    def prefill(self, prompts: PromptBatch, cache: KVCache) -> Tensor:
        """Fill the cache with prompts; return the logits after each prompt's last token."""
        count, width = prompts.ids_PT.shape
        x = self.embed(prompts.ids_PT.flatten())
        cos, sin = self.cos_CD[:width].repeat(count, 1)[:, None], self.sin_CD[:width].repeat(count, 1)[:, None]
        gate = None if prompts.gate_PK is None else self._gate(prompts.gate_PK).repeat_interleave(width, dim=0)
        masks: dict[int | None, Tensor | None] = {None: None}
        for index, block in enumerate(self.blocks):
            q, k, v = self._qkv_heads(block, block.qkv(self._norm(x, block.attention_norm), gate), cos, sin)
            q, k, v = (part.view(count, width, -1, self.head_size).transpose(1, 2) for part in (q, k, v))
            cache.fill(index, k, v, slots_N=prompts.slots_N, prompts_N=prompts.prompts_N)
            window = block.window if block.window is not None and block.window < width else None
            if window not in masks:
                masks[window] = _sliding_mask(width, window, x.device)
            attended = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=masks[window], is_causal=window is None, scale=self.scale, enable_gqa=True
            )
            x = self._output_and_mlp(block, x, attended.transpose(1, 2).reshape(count * width, -1), gate)
        last = torch.arange(count, device=x.device) * width + prompts.lengths_P - 1
        return logits_of(self.model, self.norm(x[last]))

    def decode(
        self, tokens_N: Tensor, lengths_N: Tensor, gate_NK: Tensor | None, cache: KVCache, *, longest: int
    ) -> Tensor:
        """Append one token to each of the first N slots."""
        count = len(tokens_N)
        x = self.embed(tokens_N)
        cos, sin = self.cos_CD[lengths_N][:, None], self.sin_CD[lengths_N][:, None]
        gate = None if gate_NK is None else self._gate(gate_NK)
        rows_N = torch.arange(count, device=x.device)
        masks: dict[int | None, Tensor] = {}
        for index, block in enumerate(self.blocks):
            q, k, v = self._qkv_heads(block, block.qkv(self._norm(x, block.attention_norm), gate), cos, sin)
            keys, values = cache.keys_LSHCD[index], cache.values_LSHCD[index]
            keys[rows_N, :, lengths_N] = k
            values[rows_N, :, lengths_N] = v
            if block.window not in masks:
                masks[block.window] = self._decode_mask(lengths_N, longest, block.window)
            # The query heads that share a key-value head are its "positions", so no key is repeated.
            each_q = q.reshape(count * self.heads, self.queries, -1)
            scores = torch.bmm(each_q, keys[:count, :, :longest].flatten(0, 1).transpose(1, 2))
            shares = scores.mul_(self.scale).add_(masks[block.window]).softmax(dim=-1)
            attended = torch.bmm(shares, values[:count, :, :longest].flatten(0, 1))
            x = self._output_and_mlp(block, x, attended.reshape(count, -1), gate)
        return logits_of(self.model, self.norm(x))

    def _decode_mask(self, lengths_N: Tensor, longest: int, window: int | None) -> Tensor:
        """Return the additive mask of a row's new token, [N·H, 1, L]: it attends to itself and what came before."""
        back_NL = lengths_N[:, None] - torch.arange(longest, device=lengths_N.device)
        hidden_NL = back_NL < 0
        if window is not None:
            hidden_NL |= back_NL >= window
        mask = torch.zeros(hidden_NL.shape, dtype=self.shape.dtype, device=lengths_N.device)
        mask.masked_fill_(hidden_NL, torch.finfo(mask.dtype).min)
        return mask.repeat_interleave(self.heads, dim=0)[:, None]

    def _gate(self, gate_NK: Tensor) -> Tensor:
        return gate_NK.to(self.model.dtype).repeat_interleave(self.rank, dim=1)

    def _norm(self, x: Tensor, norm: Any) -> Tensor:
        return functional.rms_norm(x, norm.weight.shape, norm.weight, self.epsilon)

    def _qkv_heads(self, block: Block, qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split the fused product into heads, [N, heads, D] each, with rotary positions applied to queries and keys."""
        heads_ND = qkv.view(len(qkv), -1, self.head_size)
        q, k, v = heads_ND.split([self.heads * self.queries, self.heads, self.heads], dim=1)
        if block.query_norm is not None and block.key_norm is not None:
            q, k = self._norm(q, block.query_norm), self._norm(k, block.key_norm)
        if block.rotary:
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        return q, k, v

    def _output_and_mlp(self, block: Block, x: Tensor, attended: Tensor, gate: Tensor | None) -> Tensor:
        x = x + block.out(attended, gate)
        gated, up = block.gate_up(self._norm(x, block.mlp_norm), gate).chunk(2, dim=-1)
        return x + block.down(self.activation(gated) * up, gate)


def _block(layer: Any, window: int | None) -> Block:
    attention, mlp = layer.self_attn, layer.mlp
    return Block(
        qkv=FusedLinear([attention.q_proj, attention.k_proj, attention.v_proj]),
        out=FusedLinear([attention.o_proj]),
        gate_up=FusedLinear([mlp.gate_proj, mlp.up_proj]),
        down=FusedLinear([mlp.down_proj]),
        attention_norm=layer.input_layernorm,
        mlp_norm=layer.post_attention_layernorm,
        query_norm=getattr(attention, "q_norm", None),
        key_norm=getattr(attention, "k_norm", None),
        rotary=bool(getattr(attention, "use_rope", True)),
        window=window,
    )


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def _sliding_mask(width: int, window: int | None, device: torch.device) -> Tensor | None:
    if window is None:
        return None
    position = torch.arange(width, device=device)
    back = position[:, None] - position
    return (back >= 0) & (back < window)
