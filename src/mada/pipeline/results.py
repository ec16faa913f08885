"""What each stage reports when it is done: typed here, and the summary of its mark on disk."""

from pydantic import BaseModel, ConfigDict, JsonValue

KEYS = {
    "by_right": "by right answers",
    "copies": "benchmark copies dropped",
    "completions": "completions wanted",
    "copies_in_training": "benchmark copies in training",
    "damaged": "damaged samples dropped",
    "duplicates": "duplicates dropped",
    "generator_accuracy": "generator accuracy",
    "learnt_from": "learnt from",
    "reference_accuracy": "accuracy of the reference",
    "sampled": "of these sampled",
    "shortened": "prompts with shortened responses",
    "too_long": "problems left out, too long for the window",
    "truncated": "cut off",
    "without_answer": "no answer",
    "without_reference": "skipped without an answer",
}
"""The keys on disk of fields that have another name there."""


class StageResult(BaseModel):
    """Numbers of a finished stage; fields that are not set are left out on disk."""

    model_config = ConfigDict(
        frozen=True, validate_by_name=True, validate_by_alias=True, alias_generator=lambda name: KEYS.get(name, name)
    )

    def to_summary(self) -> dict[str, JsonValue]:
        """Return the summary of the stage's mark."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class SplitResult(StageResult):
    """Problems read, dropped and kept; `parts` are the sizes of the subsets and of the validation set."""

    problems: int
    without_reference: int | None = None
    copies: int
    duplicates: int
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
    by_right: dict[int, int]
    too_long: int
    truncated: int


class BestStep(BaseModel):
    """The step whose adapter was best on the validation set."""

    step: int
    accuracy: float | None


class TrainingStageResult(StageResult):
    """Best adapters of a training; `examples` and `learnt_from` are there if critics learn from some examples only."""

    steps: int
    best: dict[str, BestStep]
    too_long: int
    shortened: int
    warnings: list[str] | None = None
    examples: int | None = None
    learnt_from: int | None = None


class CriticDataResult(StageResult):
    """Critic examples by how many generators were right."""

    examples: int
    by_right: dict[int, int]
    generator_accuracy: float
    too_long: int
    truncated: int
    without_answer: int


class EvaluationResult(StageResult):
    """Size of an evaluation, and how many completions were sampled for it."""

    systems: int
    questions: int
    completions: int
    sampled: int
    damaged: int | None = None
    reference_accuracy: float
    copies_in_training: int | None = None


class ReportResult(StageResult):
    """The page of a report, and what the report holds."""

    file: str
    content: str
