"""The engine of a server that speaks OpenAI's completion protocol: vLLM, SGLang, llama.cpp and others.

The `openai` package would not make this shorter: it checks no field of a reply, does not repeat odd ones, waits at most
eight seconds between attempts, and bounds neither the whole wait nor the size of a reply.
"""

from mada.models.engines.openai.client import Backoff
from mada.models.engines.openai.engine import OpenAIEngine

__all__ = ["Backoff", "OpenAIEngine"]
