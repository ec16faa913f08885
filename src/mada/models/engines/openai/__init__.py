"""The engine of a server that speaks OpenAI's completion protocol: vLLM, SGLang, llama.cpp and others."""

from mada.models.engines.openai.engine import OpenAIEngine
from mada.models.engines.openai.retrying import Backoff

__all__ = ["Backoff", "OpenAIEngine"]
