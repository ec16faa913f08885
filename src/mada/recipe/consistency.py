"""What must hold between fields of a recipe that are each valid alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mada.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class Conflict:
    """Fields that do not go together; the first key is the one that the message is about."""

    keys: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.keys[0]}: {self.message}"


class ConflictError(ValueError):
    """All conflicts of one recipe; a ValueError, which pydantic carries to whoever asked for validation."""

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        super().__init__("; ".join(map(str, conflicts)))
        self.conflicts = conflicts


def find_conflicts(recipe: "Recipe") -> Iterator[Conflict]:
    """Yield every pair of settings that cannot both be meant."""
    yield from _groups(recipe)
    yield from _roles(recipe)
    yield from _room(recipe)


def _groups(recipe: "Recipe") -> Iterator[Conflict]:
    training = recipe.training
    if training.batch_size % training.group_size:
        yield Conflict(
            ("training.batch_size", "training.group_size"),
            f"got {training.batch_size}, wanted a multiple of training.group_size ({training.group_size}): "
            "a group is never split between two steps",
        )
    roles = [("generators", recipe.generators.advantage)]
    if recipe.team.critics:
        roles.append(("critics", recipe.critics.advantage))
    for role, advantage in roles:
        if training.group_size == 1 and advantage == "grpo":
            yield Conflict(
                ("training.group_size", f"{role}.advantage"),
                f"got 1, wanted at least 2 while {role}.advantage is 'grpo': "
                "a completion compared only with itself has no advantage",
            )


def _roles(recipe: "Recipe") -> Iterator[Conflict]:
    if recipe.team.rounds > 1 and not recipe.team.critics:
        yield Conflict(
            ("team.critics", "team.rounds"),
            f"got 0, wanted at least 1 while team.rounds is {recipe.team.rounds}: "
            "critics speak from round 2 on; add critics or set team.rounds to 1",
        )
    if recipe.generators.advantage == "counterfactual":
        yield Conflict(
            ("generators.advantage",),
            "got 'counterfactual', wanted 'grpo': the counterfactual baseline is the generators' own "
            "accuracy, which only critics can be held against",
        )
    if recipe.reward.accuracy == recipe.reward.length == 0:
        yield Conflict(
            ("reward.accuracy", "reward.length"),
            "got 0, and reward.length is 0 too: nothing would be rewarded; give one of them a weight above 0",
        )


def _room(recipe: "Recipe") -> Iterator[Conflict]:
    window = recipe.model.window
    if window is None:
        return
    for section, limit in (
        ("training", recipe.training.max_new_tokens),
        ("inference", recipe.inference.max_new_tokens),
    ):
        if limit >= window:
            yield Conflict(
                (f"{section}.max_new_tokens", "model.window"),
                f"got {limit}, wanted less than model.window ({window}): the prompt needs room too",
            )
