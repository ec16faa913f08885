"""What each stage reports when it is done: typed here, and the summary of its mark on disk.

A field whose key on disk is another has it as its alias.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class StageResult(BaseModel):
    """Numbers of a finished stage; fields that are not set are left out on disk."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)

    def to_summary(self) -> dict[str, JsonValue]:
        """Return the summary of the stage's mark."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class SplitResult(StageResult):
    """Problems read, dropped and kept; `parts` are the sizes of the subsets and of the validation set."""

    problems: int
    without_reference: int | None = Field(default=None, alias="skipped without an answer")
    copies: int = Field(alias="benchmark copies dropped")
    duplicates: int = Field(alias="duplicates dropped")
    parts: dict[str, int]
    unused: int

    def to_summary(self) -> dict[str, JsonValue]:
        """Return the summary, with a key for every part."""
        summary: dict[str, JsonValue] = {}
        for key, value in super().to_summary().items():
            summary |= value if isinstance(value, dict) else {key: value}
        return summary


class ScreenResult(StageResult):
    """Problems by how often the base was right."""

    problems: int
    learnable: int
    by_right: dict[int, int] = Field(alias="by right answers")
    too_long: int = Field(alias="problems left out, too long for the window")
    truncated: int = Field(alias="cut off")


class BestStep(BaseModel):
    """The step whose adapter was best on the validation set."""

    step: int
    accuracy: float | None


class TrainingStageResult(StageResult):
    """Best adapters of a training; `examples` and `learnt_from` are there if critics learn from some examples only."""

    steps: int
    best: dict[str, BestStep]
    too_long: int = Field(alias="problems left out, too long for the window")
    shortened: int = Field(alias="prompts with shortened responses")
    warnings: list[str] | None = None
    examples: int | None = None
    learnt_from: int | None = Field(default=None, alias="learnt from")


class CriticDataResult(StageResult):
    """Critic examples by how many generators were right."""

    examples: int
    by_right: dict[int, int] = Field(alias="by right answers")
    generator_accuracy: float = Field(alias="generator accuracy")
    too_long: int = Field(alias="problems left out, too long for the window")
    truncated: int = Field(alias="cut off")
    without_answer: int = Field(alias="no answer")


class EvaluationResult(StageResult):
    """Size of an evaluation, and how many completions were sampled for it."""

    systems: int
    questions: int
    completions: int = Field(alias="completions wanted")
    sampled: int = Field(alias="of these sampled")
    damaged: int | None = Field(default=None, alias="damaged samples dropped")
    reference_accuracy: float = Field(alias="accuracy of the reference")
    copies_in_training: int | None = Field(default=None, alias="benchmark copies in training")


class ReportResult(StageResult):
    """The page of a report, and what the report holds."""

    file: str
    content: str
