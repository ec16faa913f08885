"""All agents' adapters on one frozen base: who is there, which rows are whose, and each agent's own tensors."""

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
from mada.models.adapters.lora import Lora, target_layers
from mada.models.adapters.routing import Routing, Switchboard
from mada.models.adapters.stacked import StackedLinear
from mada.models.attention import lengths_vary


class AdapterStack:
    """One LoRA adapter per agent on every target layer of a frozen base.

        stack = AdapterStack.attach(model, ["generator-1", "generator-2"], Lora())
        with stack.routed(["generator-1", "generator-2", None]):
            logits = model(input_ids).logits  # the third row is the bare base

    Outside of `routed` the model is the bare base, which is how reference log-probabilities are made.
    """

    def __init__(self, model: nn.Module, agents: Mapping[str, Lora], layers: Mapping[str, StackedLinear]) -> None:
        self.model = model
        self.agents = tuple(agents)
        self.lora = dict(agents)
        self.layers = dict(layers)
        self.switchboard = next(iter(self.layers.values()))._switchboard  # pyright: ignore[reportPrivateUsage]
        self._recomputes = False
        self._versions = dict.fromkeys(self.agents, 0)
        self._index = {agent: place for place, agent in enumerate(self.agents)}
        device = next(iter(self.layers.values())).A_KRI.device
        self.scale_K = torch.tensor([lora.scale for lora in agents.values()], device=device)

    @classmethod
    def attach(
        cls, model: nn.Module, agents: Sequence[str] | Mapping[str, Lora], lora: Lora | None = None, *, seed: int = 0
    ) -> Self:
        """Freeze the model and give every agent a blank adapter: A random from seed and name, B zero.

        Agents with adapters of their own shape are given as a mapping; all must sit on the same layers.
        """
        shapes = dict(agents) if isinstance(agents, Mapping) else dict.fromkeys(agents, lora or Lora())
        if not shapes:
            raise ValueError("a stack of adapters needs at least one agent")
        if not isinstance(agents, Mapping) and len(shapes) < len(agents):
            raise ValueError(f"agents' names must differ, got {', '.join(agents)}")
        if any(isinstance(module, StackedLinear) for module in model.modules()):
            raise ValueError("this model has a stack of adapters already; load the base again for another")
        first = next(iter(shapes.values()))
        odd = [
            name for name, shape in shapes.items() if (shape.targets, shape.dropout) != (first.targets, first.dropout)
        ]
        if odd:
            raise AdapterError(f"{odd[0]} has other lora targets or dropout than {next(iter(shapes))}; they must agree")
        targets = list(target_layers(model, first.targets))
        model.requires_grad_(False)
        switchboard = Switchboard()
        rank = max(shape.rank for shape in shapes.values())
        layers: dict[str, StackedLinear] = {}
        for path, base in targets:
            layer = StackedLinear(base, agents=len(shapes), rank=rank, dropout=first.dropout, switchboard=switchboard)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
            layers[path] = layer
        stack = cls(model, shapes, layers)
        for agent in stack.agents:
            # By name, so that an agent begins the same whoever else is there.
            stack.reset(agent, seed=int(digest_of({"seed": seed, "agent": agent})[:15], 16))
        return stack

    @property
    def rank(self) -> int:
        """The largest rank an agent's adapter may have here."""
        return next(iter(self.layers.values())).rank

    def index(self, agent: str | None) -> int:
        """Return an agent's place in the stack, −1 for `None`, the bare base."""
        if agent is None:
            return -1
        if agent not in self._index:
            raise AdapterError(f"there is no agent {agent!r} here; the agents are {', '.join(self.agents)}")
        return self._index[agent]

    def version(self, agent: str) -> int:
        """Return how often an agent's adapter has changed since it was attached.

        An engine says with each completion which version sampled it, so that a sampler left behind is noticed.
        """
        self.index(agent)
        return self._versions[agent]

    def count_change(self, agents: Iterable[str]) -> None:
        """Count a change of these agents' adapters; whoever writes to `parameters` has to call it."""
        for agent in agents:
            self._versions[agent] += 1

    def routing(self, agents_N: Sequence[str | None]) -> Routing:
        """Prepare the routing of a batch whose rows belong to these agents."""
        return Routing.of([self.index(agent) for agent in agents_N], self.scale_K)

    @contextmanager
    def routed(self, agents_N: Sequence[str | None] | Routing, *, learning: bool = False) -> Generator[None]:
        """Have the model's rows belong to these agents inside the block; `learning` turns adapter dropout on."""
        routing = agents_N if isinstance(agents_N, Routing) else self.routing(agents_N)
        with self.switchboard.set(routing, learning=learning):
            yield

    def switched_off(self) -> AbstractContextManager[None]:
        """Have the model be the bare base inside the block, whatever is around it."""
        return self.switchboard.set(None)

    def enable_checkpointing(self) -> None:
        """While learning, recompute activations in the backward pass instead of keeping them.

        The routing travels with each checkpoint, so a backward pass outside of `routed` computes the same gradients.
        transformers' own switch works only in training mode, which would turn the base's dropout on and the engine's
        cache off; this one looks at `routed(..., learning=True)`.
        """
        blocks = self._blocks()
        if not blocks:
            raise AdapterError(
                f"{type(self.model).__name__} has no blocks to recompute: leave training.gradient_checkpointing false"
            )
        if self._recomputes:
            return
        self._recomputes = True
        for block in blocks:
            block.forward = self._recomputing(block.forward)

    @property
    def recomputes(self) -> bool:
        """Whether activations are recomputed while learning."""
        return self._recomputes

    @property
    def can_recompute(self) -> bool:
        """Whether the model has blocks whose activations can be recomputed."""
        return bool(self._blocks())

    def _blocks(self) -> list[GradientCheckpointingLayer]:
        return [module for module in self.model.modules() if isinstance(module, GradientCheckpointingLayer)]

    def _recomputing(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not (self.switchboard.learning and torch.is_grad_enabled()):
                return forward(*args, **kwargs)
            if kwargs.get("past_key_values") is not None:
                raise ValueError("a recomputed block would fill the cache twice; learn with use_cache=False")
            return checkpoint(forward, *args, use_reentrant=False, context_fn=self._checkpoint_contexts, **kwargs)

        return call

    def _checkpoint_contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        routing, learning = self.switchboard.routing, self.switchboard.learning
        return self.switchboard.set(routing, learning=learning), self._recomputing_as(routing, learning=learning)

    @contextmanager
    def _recomputing_as(self, routing: Routing | None, *, learning: bool) -> Generator[None]:
        """Recompute as in the forward pass: the same adapters, and the attention kernels that learning may take."""
        with lengths_vary(self.scale_K.device), self.switchboard.set(routing, learning=learning):
            yield

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return every stacked parameter by name; the first axis of each is the agent."""
        named = ((f"{path}.{kind}", layer, kind) for path, layer in self.layers.items() for kind in ("A_KRI", "B_KRO"))
        return {name: getattr(layer, kind) for name, layer, kind in named}

    def reset(self, agent: str, *, seed: int) -> None:
        """Give an agent a blank adapter: A uniform in ±1/√in as in PEFT, B zero, so that it speaks like the base."""
        generator = torch.Generator().manual_seed(seed)
        place, rank = self.index(agent), self.lora[agent].rank
        with torch.no_grad():
            for layer in self.layers.values():
                bound = 1 / math.sqrt(layer.in_features)
                drawn = torch.rand(rank, layer.in_features, generator=generator) * (2 * bound) - bound
                layer.A_KRI[place] = 0
                layer.A_KRI[place, :rank] = drawn.to(layer.A_KRI)
                layer.B_KRO[place] = 0
        self.count_change([agent])

    def resize(self, agent: str, *, rank: int, alpha: float) -> None:
        """Give an agent a rank and a scale of its own, within the stack's rank; its adapter is all zeros afterwards.

        A routing prepared before has the scale of before.
        """
        place, most = self.index(agent), self.rank
        if rank > most:
            raise AdapterError(
                f"{agent} cannot have rank {rank} in a stack of rank {most}; attach the stack with rank {rank} or more"
            )
        self.lora[agent] = replace(self.lora[agent], rank=rank, alpha=alpha)
        self.scale_K[place] = self.lora[agent].scale
        with torch.no_grad():
            for layer in self.layers.values():
                layer.A_KRI[place] = 0
                layer.B_KRO[place] = 0
        self.count_change([agent])

    def tensors(self, agent: str) -> dict[str, Tensor]:
        """Return an agent's own tensors, `{path}.lora_A.weight` [rank, in] and `{path}.lora_B.weight` [out, rank].

        They are views of the stacked parameters, without the padding.
        """
        place, rank = self.index(agent), self.lora[agent].rank
        own: dict[str, Tensor] = {}
        for path, layer in self.layers.items():
            own[f"{path}.lora_A.weight"] = layer.A_KRI.detach()[place, :rank]
            own[f"{path}.lora_B.weight"] = layer.B_KRO.detach()[place, :rank].T
        return own

    def assign(self, agent: str, tensors: Mapping[str, Tensor]) -> None:
        """Give an agent these tensors, named as `tensors` names them. All or nothing: shapes are checked first."""
        own = self.tensors(agent)
        missing, strange = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
        if missing or strange:
            first = f"it lacks {missing[0]}" if missing else f"it has {strange[0]}, which the base has not"
            raise AdapterError(
                f"the adapter for {agent} does not fit this base: {first} "
                f"({len(missing)} tensors missing, {len(strange)} unknown); use the base it was trained on"
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
        self.count_change([agent])

    def trainable_parameters(self, agent: str) -> int:
        """Count an agent's trainable parameters, padding left out."""
        return sum(tensor.numel() for tensor in self.tensors(agent).values())
