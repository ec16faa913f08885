"""mada: multi-agent debate-aware reinforcement learning for compact language models.

    import mada

    with mada.Team.load("runs/quickstart") as team:
        print(team.debate_sync("Calculate 64 + 57 - 38.").verdict)

run, evaluate   what `mada run` and `mada evaluate` do, as functions
Recipe          what a run does; `mada.recipe.load_recipe` reads a file
Team            agents that debate: of a run, of a model, or of anything with `answer`
Debate          what was said round by round, and the verdict
Problem         a question with its reference answer
Grader          replies against reference answers
Trainer         GRPO of several adapters at once, on prompts and a scoring function of any kind
AdapterStack    many LoRA adapters on one frozen base
LocalEngine     samples for all of them in one batch

Everything else is private by convention: it may move between versions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mada.api import evaluate, run
    from mada.debate.transcript import Debate
    from mada.grading import Grader
    from mada.learning.trainer import Trainer
    from mada.models.adapters import AdapterStack
    from mada.models.engines.local import LocalEngine
    from mada.problems import Problem
    from mada.recipe import Recipe
    from mada.team import Team

__version__ = "0.1.0"
__all__ = [
    "AdapterStack",
    "Debate",
    "Grader",
    "LocalEngine",
    "Problem",
    "Recipe",
    "Team",
    "Trainer",
    "__version__",
    "evaluate",
    "run",
]

_MODULES = {
    "AdapterStack": "mada.models.adapters",
    "Debate": "mada.debate.transcript",
    "Grader": "mada.grading",
    "LocalEngine": "mada.models.engines.local",
    "Problem": "mada.problems",
    "Recipe": "mada.recipe",
    "Team": "mada.team",
    "Trainer": "mada.learning.trainer",
    "evaluate": "mada.api",
    "run": "mada.api",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for: some need PyTorch, and `mada --help` must not wait for that."""
    if name not in _MODULES:
        raise AttributeError(f"module 'mada' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
