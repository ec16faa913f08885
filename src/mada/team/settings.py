"""How a team debates: rounds, prompts, and how its agents sample."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mada.debate.prompts import Prompts
from mada.errors import ModelError
from mada.models.engines import Sampling

if TYPE_CHECKING:
    from mada.models.loading import ChatModel
    from mada.recipe import Recipe

MOST_NEW_TOKENS = 32768  # the paper's (I3)


@dataclass(frozen=True, slots=True)
class DebateSettings:
    """What all seats of a team have in common; the defaults are the paper's (I3).

    `window` is the longest row, reply included: `None` is the model's own. `max_new_tokens` is where a reply is cut
    off: `None` is the paper's, but at most half of the window, so that there is room for what others said.
    """

    rounds: int = 2
    prompts: Prompts = field(default_factory=Prompts)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    max_new_tokens: int | None = None
    window: int | None = None

    @classmethod
    def of(cls, recipe: "Recipe") -> Self:
        """Take what a recipe says about debates."""
        return cls(
            rounds=recipe.team.rounds,
            prompts=Prompts(**recipe.prompts.model_dump()),
            temperature=recipe.inference.temperature,
            top_p=recipe.inference.top_p,
            top_k=recipe.inference.top_k,
            max_new_tokens=recipe.inference.max_new_tokens,
            window=recipe.model.window,
        )

    def window_of(self, model: "ChatModel") -> int:
        """Return the longest row that a model may have here."""
        window = self.window or model.window
        if not window:
            raise ModelError(f"{model.name} does not say how long its window is; give the team a window")
        return int(window)

    def sampling_of(self, model: "ChatModel") -> Sampling:
        """Return how agents on a model sample."""
        most = min(MOST_NEW_TOKENS, max(1, self.window_of(model) // 2))
        return Sampling(
            max_tokens=most if self.max_new_tokens is None else self.max_new_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            stop_tokens=model.stop_tokens,
        )
