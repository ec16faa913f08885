"""Engines: `await engine.sample(agent, prompt_ids, sampling, n=…)`, whatever does the sampling."""

from mada.models.engines.engine import (
    Completion,
    Engine,
    EngineStatistics,
    PacedEngine,
    Sampling,
    ScriptedEngine,
    ScriptedRequest,
    Stop,
)

__all__ = [
    "Completion",
    "Engine",
    "EngineStatistics",
    "PacedEngine",
    "Sampling",
    "ScriptedEngine",
    "ScriptedRequest",
    "Stop",
]
