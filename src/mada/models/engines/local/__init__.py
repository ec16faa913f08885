"""The engine in this process: one batch over slots, mixed adapters in every step."""

from mada.models.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
