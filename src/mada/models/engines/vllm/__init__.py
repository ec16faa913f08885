"""The engine that samples with vLLM, in a process of its own beside this one (extra `vllm`)."""

from mada.models.engines.vllm.engine import VllmEngine

__all__ = ["VllmEngine"]
