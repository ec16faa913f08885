"""Crediting: from the groups of a step to what the learner is given. Axes: P prompt, G completion within a group.

Two rules decide which completions are learnt from:

- a group whose advantages are all exactly 0 is passed over. For `grpo` that is every group without spread in its
  rewards; for `counterfactual` only one in which every completion earned just what the generators had;
- a completion cut off at the token limit is learnt from like any other, with the reward that its scorer gave it
  (`learn`, `wrong`), or counted in its group's statistics and then passed over (`skip`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mada.errors import LearningError
from mada.learning.advantages import ADVANTAGES, Baseline, Floats
from mada.learning.batches import CreditedCompletion
from mada.learning.prompts import TrainingPrompt
from mada.learning.rollouts import Group
from mada.recipe.training import Deviation, Truncated


@dataclass(frozen=True, slots=True)
class Credit:
    """How rewards become advantages: an advantage by name, with what it needs beside the rewards."""

    advantage: str = "grpo"
    deviation: Deviation = "sample"
    accuracy_weight: float = 2.0


@dataclass(frozen=True, slots=True)
class CreditedGroup:
    """A group with what each of its completions is credited with, and which of them are learnt from."""

    group: Group
    advantages: tuple[float, ...]
    learn: tuple[bool, ...]

    def for_learner(self) -> list[CreditedCompletion]:
        """Return the completions as the learner wants them."""
        return [
            CreditedCompletion(
                agent=self.group.agent,
                prompt_ids=self.group.prompt.prompt_ids,
                completion_ids=completion.token_ids,
                engine_log_probs=completion.log_probs or None,
                advantage=advantage,
                learn=learn,
            )
            for completion, advantage, learn in zip(self.group.completions, self.advantages, self.learn, strict=True)
        ]


def credit_groups(groups: Sequence[Group], credit: Credit, *, truncated: Truncated) -> list[CreditedGroup]:
    """Credit every completion of the groups, which must have one size."""
    rewards_PG = [[reward.total for reward in group.rewards] for group in groups]
    advantages_PG = _advantages(rewards_PG, [group.prompt for group in groups], credit=credit)
    return [
        _credited(group, advantages_G, truncated) for group, advantages_G in zip(groups, advantages_PG, strict=True)
    ]


def refuse_uncreditable(prompts: Sequence[TrainingPrompt], credit: Credit) -> None:
    """Raise when these prompts cannot be credited: a rehearsal with blank rewards, before anything is sampled."""
    if credit.advantage not in ADVANTAGES:
        raise LearningError(f"there is no advantage {credit.advantage!r}; choose one of {', '.join(ADVANTAGES)}")
    try:
        _advantages([[0.0]] * len(prompts), prompts, credit=credit)
    except ValueError as error:
        raise LearningError(f"these prompts do not go with the advantage {credit.advantage!r}: {error}") from error


def _advantages(rewards_PG: list[list[float]], prompts: Sequence[TrainingPrompt], *, credit: Credit) -> Floats:
    accuracy_P = [prompt.generator_accuracy for prompt in prompts]
    known_P = [accuracy for accuracy in accuracy_P if accuracy is not None]
    if 0 < len(known_P) < len(accuracy_P):
        without = prompts[accuracy_P.index(None)].id
        raise LearningError(
            f"{len(accuracy_P) - len(known_P)} of {len(accuracy_P)} prompts have no generator_accuracy, {without!r} "
            "for one; give it to all of them (critics) or to none (generators)"
        )
    baseline = Baseline(known_P or None, accuracy_weight=credit.accuracy_weight, deviation=credit.deviation)
    return ADVANTAGES[credit.advantage](rewards_PG, baseline)


def _credited(group: Group, advantages_G: Floats, truncated: Truncated) -> CreditedGroup:
    teaches = bool(np.any(advantages_G != 0))
    learn = tuple(teaches and not (truncated == "skip" and drawn.stop == "length") for drawn in group.completions)
    return CreditedGroup(group, tuple(float(advantage) for advantage in advantages_G), learn)
