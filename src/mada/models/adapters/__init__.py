"""Adapters: many agents on one frozen base, computed in one batch.

`AdapterStack.attach(model, agents, lora)` puts one LoRA adapter per agent on every target layer; `routed(rows)` says
which row of a batch belongs to which agent. Files are PEFT's own (`save_adapter`, `load_adapter`).
"""

from mada.models.adapters.layer import Lora, Routing, StackedLinear
from mada.models.adapters.peft_files import count_adapter_parameters, is_blank, load_adapter, read_lora, save_adapter
from mada.models.adapters.stack import AdapterStack

__all__ = [
    "AdapterStack",
    "Lora",
    "Routing",
    "StackedLinear",
    "count_adapter_parameters",
    "is_blank",
    "load_adapter",
    "read_lora",
    "save_adapter",
]
