"""What figures show, apart from how: small values made of a run's records.

Each is drawn once (`writing`), for print and page alike. Shares and accuracies are from 0 to 1; errors are standard
errors over seeds, None with a single seed. `run` names the run that something comes from, and is empty where there is
only one.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SystemPoint:
    """A system at its cost: `x` is trained parameters or generated tokens per question."""

    run: str
    name: str
    title: str
    x: float
    accuracy: float
    error: float | None
    is_reference: bool
    is_on_front: bool
    """Whether no other is at least as good and at most as dear, and one of the two strictly (Pareto)."""


@dataclass(frozen=True, slots=True)
class VotePoint:
    """A majority vote of k samples (maj@k), at what k samples cost."""

    k: int
    tokens: float
    accuracy: float
    error: float | None


@dataclass(frozen=True, slots=True)
class VoteCurve:
    """What more samples of one agent would reach, k = 1, 2, …"""

    run: str
    title: str
    points: tuple[VotePoint, ...]


@dataclass(frozen=True, slots=True)
class ParametersFigure:
    """Accuracy against trained parameters, with the Pareto front (the paper's figure, and its measure: the mean)."""

    points: tuple[SystemPoint, ...]
    name: Literal["parameters"] = "parameters"
    title: str = "Mean answers against trained parameters"


@dataclass(frozen=True, slots=True)
class TokensFigure:
    """Right verdicts against generated tokens per question, with what plain votes reach for the same tokens."""

    points: tuple[SystemPoint, ...]
    curves: tuple[VoteCurve, ...]
    name: Literal["tokens"] = "tokens"
    title: str = "Right verdicts against generated tokens per question"


@dataclass(frozen=True, slots=True)
class TrainingPoint:
    """A step of an agent: the mean over a window of steps around it, and the band one deviation to either side."""

    step: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ValidationPoint:
    """An agent on the validation set after a step; `is_best` marks the adapter that was kept in the end."""

    step: int
    accuracy: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """One agent's training: the accuracy of its rollouts step by step, and on the validation set now and then."""

    run: str
    role: Literal["generators", "critics"]
    agent: str
    rollouts: tuple[TrainingPoint, ...]
    validation: tuple[ValidationPoint, ...]


@dataclass(frozen=True, slots=True)
class TrainingFigure:
    """Training curves per agent, with bands."""

    curves: tuple[TrainingCurve, ...]
    name: Literal["training"] = "training"
    title: str = "Training: accuracy of rollouts and on the validation set"


@dataclass(frozen=True, slots=True)
class FlowStep:
    """Shares of all questions by what the vote was before a round and after it; they sum to 1."""

    right_to_right: float
    right_to_wrong: float
    wrong_to_right: float
    wrong_to_wrong: float


@dataclass(frozen=True, slots=True)
class Flow:
    """How the votes of one system's debates pass from round to round."""

    run: str
    title: str
    steps: tuple[FlowStep, ...]


@dataclass(frozen=True, slots=True)
class FlowFigure:
    """The transition ledger as a flow from round to round."""

    flows: tuple[Flow, ...]
    name: Literal["flow"] = "flow"
    title: str = "What debating changed: votes from round to round"


@dataclass(frozen=True, slots=True)
class RightCount:
    """Debates whose first round had so many right generators; accuracies are of the last round, None without any."""

    right: int
    debates: int
    share: float
    accuracy: float | None
    vote: float | None


@dataclass(frozen=True, slots=True)
class RightCounts:
    """One system's debates by how many generators were right."""

    run: str
    title: str
    generators: int
    counts: tuple[RightCount, ...]


@dataclass(frozen=True, slots=True)
class CriticsFigure:
    """Accuracy of critics by how many generators were right."""

    systems: tuple[RightCounts, ...]
    name: Literal["critics"] = "critics"
    title: str = "Accuracy of critics by how many generators were right"


@dataclass(frozen=True, slots=True)
class AdvantageCounts:
    """A histogram: `counts[i]` completions have an advantage from `edges[i]` up to `edges[i + 1]`."""

    run: str
    title: str
    counts: tuple[int, ...]
    mean: float
    deviation: float
    zero_share: float
    """Completions credited with exactly nothing, from which nothing is learnt."""


@dataclass(frozen=True, slots=True)
class AdvantagesFigure:
    """What critics' completions were credited with: the counterfactual advantage and GRPO's, of the same rewards."""

    edges: tuple[float, ...]
    series: tuple[AdvantageCounts, ...]
    name: Literal["advantages"] = "advantages"
    title: str = "Advantages of critics' completions: counterfactual against GRPO"


@dataclass(frozen=True, slots=True)
class PairCell:
    """Row minus column; p is None without a test. On the diagonal there is no cell."""

    difference: float
    error: float | None
    p: float | None
    stars: str


@dataclass(frozen=True, slots=True)
class PairsFigure:
    """Every system against every other, verdict against verdict: `cells[row][column]`."""

    run: str
    systems: tuple[str, ...]
    """In the order of the tables, whose numbers they have."""
    cells: tuple[tuple[PairCell | None, ...], ...]
    name: Literal["pairs"] = "pairs"
    title: str = "All with all, verdict against verdict: differences in points"


FigureData = (
    ParametersFigure | TokensFigure | TrainingFigure | FlowFigure | CriticsFigure | AdvantagesFigure | PairsFigure
)
