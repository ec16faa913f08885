"""Engines: `await engine.sample(agent, prompt_ids, sampling, n=…)`, whatever does the sampling."""

from mada.models.engines.engine import (
    Completion,
    Engine,
    EngineStatistics,
    Live,
    PacedEngine,
    Sampling,
    ScriptedEngine,
    ScriptedRequest,
    Stop,
    fill,
)

__all__ = [
    "Completion",
    "Engine",
    "EngineStatistics",
    "Live",
    "PacedEngine",
    "Sampling",
    "ScriptedEngine",
    "ScriptedRequest",
    "Stop",
    "fill",
]
