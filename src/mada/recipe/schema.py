"""The Recipe: everything that decides what a run does, complete, validated and frozen.

Without a file it is the paper's experiment; a file or an override changes single fields.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from mada.recipe.consistency import ConflictError, find_conflicts
from mada.recipe.sections import (
    DataSection,
    EngineSection,
    EvaluationSection,
    GradingSection,
    InferenceSection,
    LoraSection,
    ModelSection,
    PromptsSection,
    RewardSection,
    TeamSection,
)
from mada.recipe.training import CriticsSection, GeneratorsSection, TrainingSettings
from mada.recipe.values import FolderName, Section, Seed

FIRST_STAGE: Mapping[str, str | None] = {
    "name": "report",
    "seed": "split",
    "model": "screen",
    "data": "split",
    "data.screen": "screen",
    "prompts": "critics",
    "prompts.reasoning": "screen",
    "prompts.judge_header": "evaluate",
    "prompts.judge_request": "evaluate",
    "team.generators": "split",
    "team.critics": "critics",
    "team.rounds": "evaluate",
    "lora": "generators",
    "reward": "generators",
    "grading": "screen",
    "grading.workers": None,
    "training": "generators",
    **dict.fromkeys((f"training.{name}" for name in ("temperature", "top_p", "max_new_tokens", "truncated")), "screen"),
    **dict.fromkeys(
        (f"training.{name}" for name in ("checkpoint_every", "checkpoint_minutes", "keep_checkpoints")), None
    ),
    **dict.fromkeys((f"training.{name}" for name in ("micro_batch_tokens", "gradient_checkpointing")), None),
    "training.canary_tolerance": None,
    "generators": "generators",
    "generators.truncated": "screen",
    "critics": "critics",
    "engine": None,
    "inference": "critic-data",
    "evaluation": "evaluate",
}
"""The first stage whose result depends on a key, or on all keys of a section that are not named themselves.

None means no stage: the key decides how a run is computed and not what. A run may go on with another recipe if the
stages that it has finished come before the first stage of everything that changed.
"""


def first_stage(key: str) -> str | None:
    """Return the first stage that a key of a recipe touches; what is no key any more touches them all."""
    while key not in FIRST_STAGE:
        key, dot, _ = key.rpartition(".")
        if not dot:
            return "split"
    return FIRST_STAGE[key]


class Recipe(Section):
    """What to do: the whole method as one value."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = tuple(key for key, stage in FIRST_STAGE.items() if stage is None)
    """Keys that decide how a run is computed and not what: it may go on with other values."""
    name: FolderName = "unnamed"
    """What people call this recipe; tables and pages show it (ours)."""
    seed: Seed = 0
    """Where all randomness of a run starts: cuts, sampling and dropout (D1, T7)."""
    model: ModelSection = ModelSection()
    """The frozen base model that all agents share (T2, T4)."""
    data: DataSection = DataSection()
    """The training problems and how they are cut (D1, D2, D3)."""
    prompts: PromptsSection = PromptsSection()
    """What agents are asked (P1, P2)."""
    team: TeamSection = TeamSection()
    """Who debates, and for how long (I1)."""
    lora: LoraSection = LoraSection()
    """The adapter that makes an agent out of the base model (T2)."""
    reward: RewardSection = RewardSection()
    """Weights of the rewards (R3)."""
    grading: GradingSection = GradingSection()
    """How answers are compared with references (R1)."""
    training: TrainingSettings = TrainingSettings()
    """How every agent learns (T1, T3)."""
    generators: GeneratorsSection = GeneratorsSection()
    """How generators learn (A1)."""
    critics: CriticsSection = CriticsSection()
    """How critics learn (A2, A3)."""
    engine: EngineSection = EngineSection()
    """How completions are computed (ours)."""
    inference: InferenceSection = InferenceSection()
    """How agents sample when they debate for real (I3)."""
    evaluation: EvaluationSection = EvaluationSection()
    """What the finished team is measured on (E1)."""

    @property
    def decontaminate(self) -> tuple[str, ...]:
        """The benchmarks whose problems are dropped from the training data."""
        chosen = self.data.decontaminate
        return self.evaluation.benchmarks if chosen is None else chosen

    @model_validator(mode="after")
    def _fields_go_together(self) -> Self:
        conflicts = tuple(find_conflicts(self))
        if conflicts:
            raise ConflictError(conflicts)
        return self

    def training_for(self, role: Literal["generators", "critics"]) -> TrainingSettings:
        """Return the training settings of one role: the shared ones, with what the role sets itself."""
        section = self.generators if role == "generators" else self.critics
        own = {"learning_rate": section.learning_rate, "steps": section.steps, "truncated": section.truncated}
        return self.training.model_copy(update={key: value for key, value in own.items() if value is not None})
