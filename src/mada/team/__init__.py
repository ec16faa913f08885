"""A team: generators and critics in their seats, the base they share, and debates held with them."""

from mada.team.agent import EngineAgent
from mada.team.team import Team

__all__ = ["EngineAgent", "Team"]
