"""A training task: what is to be learnt, checked before the first of many hours, and told apart from any other."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pydantic import JsonValue

from mada.errors import LearningError
from mada.learning.advantages import Credit, check_credit
from mada.learning.rollouts import Scorer, TrainingPrompt, digest_of_prompts
from mada.models.adapters import AdapterStack
from mada.recipe.schema import TrainingSettings

# Settings that may change between sessions: they say how it is computed and kept, not what is learnt.
FREE_SETTINGS = (
    *("checkpoint_every", "checkpoint_minutes", "keep_checkpoints"),
    *("micro_batch_tokens", "gradient_checkpointing", "canary_tolerance"),
)
_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """Each agent's own prompts, the validation set they share, and how replies are rewarded and credited.

    `stop_tokens` end a reply. Without validation prompts each agent's last adapter is kept instead of its best. Where
    agents are shown the same validation problems in different ways, it has prompts by agent. With `decode` (tokens to
    text) whoever follows the training can read rollouts.
    """

    prompts: Mapping[str, Sequence[TrainingPrompt]]
    scorer: Scorer
    validation: Sequence[TrainingPrompt] | Mapping[str, Sequence[TrainingPrompt]] = ()
    credit: Credit = field(default_factory=Credit)
    stop_tokens: tuple[int, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def validation_of(self, agent: str) -> Sequence[TrainingPrompt]:
        """Return an agent's validation prompts."""
        return self.validation.get(agent, ()) if isinstance(self.validation, Mapping) else self.validation


def check_task(task: TrainingTask, stack: AdapterStack, settings: TrainingSettings) -> None:
    """Raise when training would fail for what it was given."""
    if not task.prompts:
        raise LearningError("no agent has prompts; training needs at least one agent with at least one prompt")
    for agent, prompts in task.prompts.items():
        stack.index(agent)  # refuses an agent that is not there
        if not _AGENT_NAME.fullmatch(agent):
            raise LearningError(
                f"{agent!r} cannot name an agent, because its adapter's folder is called so; "
                "a name has letters, digits, '-', '_' and '.', and starts with a letter or digit"
            )
        if not prompts:
            raise LearningError(f"{agent} has no prompts; give every agent its own, or leave the agent out")
        check_credit(prompts, task.credit)
        for owner, own in ((agent, prompts), ("the validation set", task.validation_of(agent))):
            twice = [name for name, times in Counter(prompt.id for prompt in own).items() if times > 1]
            if twice:
                raise LearningError(
                    f"{owner} has two prompts with the id {twice[0]!r}; ids name random streams, so they must differ"
                )
            for prompt in own:
                if not prompt.prompt_ids:
                    raise LearningError(f"prompt {prompt.id!r} of {owner} has no tokens; it needs at least one")
    if settings.batch_size < 1 or settings.prompts_per_step * settings.group_size != settings.batch_size:
        raise LearningError(
            f"a batch of {settings.batch_size} completions does not hold whole groups of {settings.group_size}; "
            "make training.batch_size a multiple of training.group_size"
        )


def identity(
    task: TrainingTask, stack: AdapterStack, settings: TrainingSettings, *, seed: int, steps: int, base_name: str
) -> dict[str, JsonValue]:
    """Return all that must be the same for a resumed training to be the same training, as plain JSON values.

    Of the scorer and of payloads it knows nothing: who changes those has to use another folder.
    """
    known = {
        # What comes of steps and epochs is compared, as `steps`.
        "settings": settings.model_dump(exclude={*FREE_SETTINGS, "steps", "epochs"}),
        "credit": asdict(task.credit),
        "seed": seed,
        "steps": steps,
        "base": base_name,
        "agents": {
            agent: {**asdict(lora), "prompts": digest_of_prompts(task.prompts.get(agent, ()))}
            for agent, lora in stack.lora.items()
        },
        "validation": {agent: digest_of_prompts(own) for agent, own in task.validation.items()}
        if isinstance(task.validation, Mapping)
        else digest_of_prompts(task.validation),
        "stop_tokens": task.stop_tokens,
    }
    # Through JSON, so that tuples are lists here as they are in a file.
    return json.loads(json.dumps(known))
