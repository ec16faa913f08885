"""All agents' adapters on one frozen base: which rows are whose, and each agent's own tensors."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from mada.digest import digest_of
from mada.errors import AdapterError
from mada.models.adapters.layer import Lora, Routing, RoutingState, StackedLinear, target_layers
from mada.models.forward import no_cudnn_attention


class AdapterStack:
    """One LoRA adapter per agent on every target layer of a frozen base.

        stack = AdapterStack.attach(model, ["generator-1", "generator-2"], Lora())
        with stack.routed(["generator-1", "generator-2", None]):
            logits = model(input_ids).logits  # the third row is the bare base

    Outside of `routed` the model is the bare base, which gives the reference log-probabilities.
    """

    def __init__(self, model: nn.Module, agents: Mapping[str, Lora], layers: Mapping[str, StackedLinear]) -> None:
        self.model = model
        self.agents = tuple(agents)
        self.lora = dict(agents)
        self.layers = dict(layers)
        first = next(iter(self.layers.values()))
        self.routing_state = first.routing_state
        self.rank = first.rank
        """The largest rank an agent's adapter may have here."""
        self.recomputes = False
        """Whether activations are recomputed while learning."""
        self.scale_K = torch.tensor([lora.scale for lora in agents.values()], device=first.A_KRI.device)
        self._versions = dict.fromkeys(self.agents, 0)
        self._index = {agent: index for index, agent in enumerate(self.agents)}

    @classmethod
    def attach(
        cls, model: nn.Module, agents: Sequence[str] | Mapping[str, Lora], lora: Lora | None = None, *, seed: int = 0
    ) -> Self:
        """Freeze the model and give every agent a fresh adapter: A random from seed and name, B zero.

        Pass a mapping to give agents different ranks and scales; all must have the same target layers and dropout.
        """
        shapes = dict(agents) if isinstance(agents, Mapping) else dict.fromkeys(agents, lora or Lora())
        if not shapes:
            raise ValueError("a stack of adapters needs at least one agent")
        if len(shapes) < len(agents):
            raise ValueError(f"agents' names must differ, got {', '.join(agents)}")
        if any(isinstance(module, StackedLinear) for module in model.modules()):
            raise ValueError("this model has a stack of adapters already; load the base again for another")
        name, first = next(iter(shapes.items()))
        for other, shape in shapes.items():
            if (shape.targets, shape.dropout) != (first.targets, first.dropout):
                raise AdapterError(f"{other} has other lora targets or dropout than {name}; they must agree")
        targets = list(target_layers(model, first.targets))
        model.requires_grad_(False)
        routing_state = RoutingState()
        rank = max(shape.rank for shape in shapes.values())
        layers: dict[str, StackedLinear] = {}
        for path, base in targets:
            layer = StackedLinear(
                base, agents=len(shapes), rank=rank, dropout=first.dropout, routing_state=routing_state
            )
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
            layers[path] = layer
        stack = cls(model, shapes, layers)
        for agent in stack.agents:
            # Seeded by name, so that an agent starts the same whichever other agents there are.
            stack.reset(agent, seed=int(digest_of({"seed": seed, "agent": agent})[:15], 16))
        return stack

    def index(self, agent: str | None) -> int:
        """Return an agent's index in the stack, −1 for `None`, the bare base."""
        if agent is None:
            return -1
        if agent not in self._index:
            raise AdapterError(f"no agent {agent!r} here; the agents are {', '.join(self.agents)}")
        return self._index[agent]

    def version(self, agent: str) -> int:
        """Return how often an agent's adapter has changed since it was attached.

        Completions carry the version that sampled them, so that a stale sampler is noticed.
        """
        self.index(agent)
        return self._versions[agent]

    def bump_version(self, agents: Iterable[str]) -> None:
        """Count a change of these agents' adapters; call it after writing to `parameters`."""
        for agent in agents:
            self._versions[agent] += 1

    def routing(self, agents_N: Sequence[str | None]) -> Routing:
        """Return the routing of a batch whose rows belong to these agents."""
        return Routing.of([self.index(agent) for agent in agents_N], self.scale_K)

    @contextmanager
    def routed(self, agents_N: Sequence[str | None] | Routing, *, learning: bool = False) -> Generator[None]:
        """Apply these agents' adapters to the rows of a batch inside the block; `learning` turns dropout on."""
        routing = agents_N if isinstance(agents_N, Routing) else self.routing(agents_N)
        with self.routing_state.set(routing, learning=learning):
            yield

    def disabled(self) -> AbstractContextManager[None]:
        """Use the bare base inside the block, also within `routed`."""
        return self.routing_state.set(None)

    @property
    def supports_checkpointing(self) -> bool:
        """Whether the model has blocks whose activations can be recomputed."""
        return bool(self._blocks())

    def enable_checkpointing(self) -> None:
        """Turn on gradient checkpointing: while learning, activations are recomputed in the backward pass.

        Each checkpoint keeps its routing, so a backward pass outside of `routed` computes the same gradients.
        transformers' own switch works only in training mode, which would turn the base's dropout on and the engine's
        cache off; this one depends on `routed(..., learning=True)`.
        """
        blocks = self._blocks()
        if not blocks:
            raise AdapterError(
                f"{type(self.model).__name__} has no blocks to recompute: leave training.gradient_checkpointing false"
            )
        if not self.recomputes:
            self.recomputes = True
            for block in blocks:
                block.forward = self._recomputing(block.forward)

    def _blocks(self) -> list[GradientCheckpointingLayer]:
        return [module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)]

    def _recomputing(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (self.routing_state.learning and torch.is_grad_enabled()):
                return forward(*args, **kwargs)
            if kwargs.get("past_key_values") is not None:
                raise ValueError("a recomputed block would fill the cache twice; learn with use_cache=False")
            return checkpoint(forward, *args, use_reentrant=False, context_fn=self._checkpoint_contexts, **kwargs)

        return call

    def _checkpoint_contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        routing, learning = self.routing_state.routing, self.routing_state.learning
        return self.routing_state.set(routing, learning=learning), self._recomputing_as(routing, learning=learning)

    @contextmanager
    def _recomputing_as(self, routing: Routing | None, *, learning: bool) -> Generator[None]:
        """Recompute as in the forward pass: the same adapters, and the same attention kernels."""
        with no_cudnn_attention(self.scale_K.device), self.routing_state.set(routing, learning=learning):
            yield

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return every stacked parameter by name; the first axis of each is the agent."""
        kinds = ("A_KRI", "B_KRO")
        return {f"{path}.{kind}": getattr(layer, kind) for path, layer in self.layers.items() for kind in kinds}

    @torch.no_grad()
    def reset(self, agent: str, *, seed: int) -> None:
        """Give an agent a fresh adapter: A uniform in ±1/√in as in PEFT, B zero, so that it changes nothing."""
        generator = torch.Generator().manual_seed(seed)
        index, rank = self.index(agent), self.lora[agent].rank
        self._zero(index)
        for layer in self.layers.values():
            bound = 1 / math.sqrt(layer.in_features)
            drawn = torch.rand(rank, layer.in_features, generator=generator) * (2 * bound) - bound
            layer.A_KRI[index, :rank] = drawn.to(layer.A_KRI)
        self.bump_version([agent])

    def resize(self, agent: str, *, rank: int, alpha: float) -> None:
        """Give an agent a rank and a scale of its own, within the stack's rank; its adapter becomes all zeros.

        A routing prepared earlier keeps the old scale.
        """
        index = self.index(agent)
        if rank > self.rank:
            raise AdapterError(
                f"{agent} cannot have rank {rank} in a stack of rank {self.rank}; attach the stack with rank {rank}"
            )
        self.lora[agent] = replace(self.lora[agent], rank=rank, alpha=alpha)
        self.scale_K[index] = self.lora[agent].scale
        self._zero(index)
        self.bump_version([agent])

    @torch.no_grad()
    def _zero(self, index: int) -> None:
        for layer in self.layers.values():
            layer.A_KRI[index] = 0
            layer.B_KRO[index] = 0

    def tensors(self, agent: str) -> dict[str, Tensor]:
        """Return an agent's own tensors, `{path}.lora_A.weight` [rank, in] and `{path}.lora_B.weight` [out, rank].

        They are views of the stacked parameters, without the padding.
        """
        index, rank = self.index(agent), self.lora[agent].rank
        own: dict[str, Tensor] = {}
        for path, layer in self.layers.items():
            own[f"{path}.lora_A.weight"] = layer.A_KRI.detach()[index, :rank]
            own[f"{path}.lora_B.weight"] = layer.B_KRO.detach()[index, :rank].T
        return own

    def assign(self, agent: str, tensors: Mapping[str, Tensor]) -> None:
        """Give an agent these tensors, named as in `tensors`; if one does not fit, nothing changes."""
        own = self.tensors(agent)
        missing, unknown = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
        if missing or unknown:
            first = f"it lacks {missing[0]}" if missing else f"it has {unknown[0]}, which the base has not"
            raise AdapterError(
                f"the adapter for {agent} does not fit this base: {first} "
                f"({len(missing)} tensors missing, {len(unknown)} unknown); use the base it was trained on"
            )
        for name, mine in own.items():
            if mine.shape != tensors[name].shape:
                raise AdapterError(
                    f"the adapter for {agent} does not fit this base: {name} has shape {list(tensors[name].shape)}, "
                    f"wanted {list(mine.shape)}; use the base and the rank it was trained with"
                )
        with torch.no_grad():
            for name, mine in own.items():
                mine.copy_(tensors[name])
        self.bump_version([agent])

    def trainable_parameters(self, agent: str) -> int:
        """Count an agent's trainable parameters, padding left out."""
        return sum(tensor.numel() for tensor in self.tensors(agent).values())
