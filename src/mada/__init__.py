"""mada: multi-agent debate-aware reinforcement learning for compact language models."""

__version__ = "0.1.0"
