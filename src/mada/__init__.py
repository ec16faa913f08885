"""mada: multi-agent debate-aware reinforcement learning for compact language models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mada.team import Team

__version__ = "0.1.0"
__all__ = ["Team", "__version__"]


def __getattr__(name: str) -> object:
    """Load `Team` when it is first asked for: it needs PyTorch, and `mada --help` must not wait for that."""
    if name == "Team":
        from mada.team import Team

        return Team
    raise AttributeError(f"module 'mada' has no attribute {name!r}")
