# pyright: basic
"""AdamW over all agents at once. Axes: K agent, P parameter of an agent (all its tensors, flattened end to end).

    m ← β₁m + (1 − β₁)g        θ ← (1 − ηλ)θ − η · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
    v ← β₂v + (1 − β₂)g²

AdamW is elementwise and the gradient's norm is taken per agent, so one step for all is exactly a step for each. What
an agent has of its own is its count t and its part in the step: an agent that skips a step keeps parameters,
moments and count, as if the step had not been.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from mada.errors import LearningError


class StackedAdamW:
    """AdamW on stacked parameters, whose first axis is the agent.

        loss.backward(); optimizer.take_gradients()  # once per micro-batch
        norms_K = optimizer.gradient_norms()
        optimizer.step(learning_rate=1e-6, active_K=[True, True, False])

    Moments are float32, and so is the sum of micro-batches' gradients, whatever the parameters are. Parameters of a
    narrower type have a float32 master, without which steps of 1e-6 would vanish in rounding. Parameters are written
    in place, so the sampler sees every step. Writes by others (loading an adapter) are kept: where a parameter
    is not its master rounded, the parameter counts.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        max_gradient_norm: float | None = None,
    ) -> None:
        self._parameters = list(parameters.values())
        self._betas = betas
        self._epsilon = epsilon
        self._weight_decay = weight_decay
        self._max_gradient_norm = max_gradient_norm
        self._counts_K = [0] * len(self._parameters[0])
        values_KP = self._flat(self._parameters)
        self._m_KP = torch.zeros_like(values_KP, dtype=torch.float32)
        self._v_KP = torch.zeros_like(self._m_KP)
        self._master_KP = None if values_KP.dtype == torch.float32 else values_KP.float()
        self._gradient_KP: Tensor | None = None

    def take_gradients(self) -> None:
        """Move the parameters' gradients into the sum that the next step uses."""
        taken_KP = self._flat([_gradient(parameter) for parameter in self._parameters]).float()
        self._gradient_KP = taken_KP if self._gradient_KP is None else self._gradient_KP.add_(taken_KP)
        self._clear_parameters()

    def drop_gradients(self) -> None:
        """Forget the gradients taken so far, and those still at the parameters."""
        self._gradient_KP = None
        self._clear_parameters()

    def gradient_norms(self) -> Tensor:
        """Return the norm of each agent's gradient, over all its parameters, before any clipping."""
        if self._gradient_KP is None:
            return self._m_KP.new_zeros(len(self._counts_K))
        return torch.linalg.vector_norm(self._gradient_KP, dim=1)

    @torch.no_grad()
    def step(self, *, learning_rate: float, active_K: Sequence[bool]) -> None:
        """Move the active agents by the gradients taken, and forget these."""
        if self._gradient_KP is None or not any(active_K):
            self.drop_gradients()
            return
        self._counts_K = [count + active for count, active in zip(self._counts_K, active_K, strict=True)]
        (beta1, beta2), rate = self._betas, learning_rate
        # An agent that skips the step gets the coefficients of a step that changes nothing.
        mix1_K1 = self._column([1 - beta1 if active else 0.0 for active in active_K])
        mix2_K1 = self._column([1 - beta2 if active else 0.0 for active in active_K])
        shrink_K1 = self._column([1 - rate * self._weight_decay if active else 1.0 for active in active_K])
        counted = list(zip(self._counts_K, active_K, strict=True))
        stride_K1 = self._column([rate / (1 - beta1**count) if active else 0.0 for count, active in counted])
        root_K1 = self._column([(1 - beta2**count) ** 0.5 if active else 1.0 for count, active in counted])

        gradient_KP = self._gradient_KP
        if self._max_gradient_norm is not None:
            # The 1e-6 is torch.nn.utils.clip_grad_norm_'s.
            gradient_KP.mul_((self._max_gradient_norm / (self.gradient_norms() + 1e-6)).clamp(max=1.0)[:, None])
        values_KP = self._values()
        values_KP.mul_(shrink_K1)
        self._m_KP.lerp_(gradient_KP, mix1_K1)
        self._v_KP.lerp_(gradient_KP.square_(), mix2_K1)
        divisor_KP = torch.sqrt(self._v_KP).div_(root_K1).add_(self._epsilon)
        values_KP.sub_(torch.div(self._m_KP, divisor_KP, out=divisor_KP).mul_(stride_K1))
        self._write(values_KP)
        self.drop_gradients()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as plain tensors: counts, moments, and masters where there are any. They are not copies."""
        state = {"counts_K": torch.tensor(self._counts_K), "m_KP": self._m_KP, "v_KP": self._v_KP}
        return state if self._master_KP is None else {**state, "master_KP": self._master_KP}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state that `state_dict` gave for the same agents on the same base."""
        own = self.state_dict()
        for name, mine in own.items():
            shape = list(state[name].shape) if name in state else "missing"
            if shape != list(mine.shape):
                raise LearningError(
                    f"the optimizer state does not fit these agents: {name} is {shape}, wanted {list(mine.shape)}; "
                    "continue with the agents, base and dtype of the checkpoint, or start a new run"
                )
        self._counts_K = [int(count) for count in state["counts_K"]]
        for name in own.keys() - {"counts_K"}:
            own[name].copy_(state[name])

    def _values(self) -> Tensor:
        """Return the parameters in float32: the masters, where nobody else has written the parameters since."""
        values_KP = self._flat(self._parameters)
        if self._master_KP is None:
            return values_KP
        return torch.where(values_KP == self._master_KP.to(values_KP.dtype), self._master_KP, values_KP.float())

    def _write(self, values_KP: Tensor) -> None:
        if self._master_KP is not None:
            self._master_KP.copy_(values_KP)
        parts = values_KP.split([parameter[0].numel() for parameter in self._parameters], dim=1)
        shaped = [part.view_as(parameter) for part, parameter in zip(parts, self._parameters, strict=True)]
        torch._foreach_copy_(self._parameters, shaped)  # type: ignore[attr-defined, arg-type]

    def _flat(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([tensor.detach().flatten(1) for tensor in tensors], dim=1)

    def _column(self, values_K: Sequence[float]) -> Tensor:
        return torch.tensor(values_K, dtype=torch.float32, device=self._m_KP.device)[:, None]

    def _clear_parameters(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
}


def learning_rate_share(schedule: str, step: int, *, total_steps: int, warmup_ratio: float) -> float:
    """Return the share of the highest learning rate that a step uses."""
    warmup = math.ceil(total_steps * warmup_ratio)
    if step < warmup:
        return step / warmup
    progress = (step - warmup) / max(1, total_steps - warmup)
    return SCHEDULES[schedule](min(1.0, progress))
