"""The Recipe: everything that decides what a run does, complete, validated and frozen.

Without a file it is the paper's experiment; a file or an override changes single fields.
"""

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
from mada.recipe.training import CriticsSection, GeneratorsSection, TrainingSection
from mada.recipe.values import Section, Seed, Text


class Recipe(Section):
    """What to do: the whole method as one value."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = (
        "engine",
        "grading.workers",
        *(
            f"training.{field}"
            for field in (
                "checkpoint_every",
                "checkpoint_minutes",
                "keep_checkpoints",
                "micro_batch_tokens",
                "gradient_checkpointing",
                "canary_tolerance",
            )
        ),
    )
    """Keys that decide how a run is computed and not what: it may go on with other values."""
    name: Text = "unnamed"
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
    training: TrainingSection = TrainingSection()
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

    @model_validator(mode="after")
    def _fields_go_together(self) -> Self:
        conflicts = tuple(find_conflicts(self))
        if conflicts:
            raise ConflictError(conflicts)
        return self

    def training_for(self, role: Literal["generators", "critics"]) -> TrainingSection:
        """Return the training settings of one role: the shared ones, with what the role sets itself."""
        section = self.generators if role == "generators" else self.critics
        own = {"learning_rate": section.learning_rate, "steps": section.steps, "truncated": section.truncated}
        return self.training.model_copy(update={key: value for key, value in own.items() if value is not None})
