"""An evaluation without a run: agents by model and adapter, systems of these agents, and benchmarks.

    mada evaluate rivals.toml

It needs no training run: any Hugging Face model can be an agent. See docs/evaluation.md for a file with all kinds.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mada.problems.known import BENCHMARKS
from mada.recipe.errors import did_you_mean, validated
from mada.recipe.loading import read_toml, refusing_depth
from mada.recipe.schema import (
    LISTED,
    AgentNames,
    Count,
    CountOrZero,
    EngineSection,
    Folder,
    FolderName,
    GradingSection,
    OrNone,
    Positive,
    PositiveOrZero,
    PromptsSection,
    SampleCount,
    SamplingSection,
    Section,
    Seed,
    Sources,
    Text,
)

Match = Literal["tokens", "cost"]
Kind = Literal["single", "vote", "weighted-vote", "judge", "best-of-n", "debate"]


class AgentSection(Section):
    """Who an agent is: a base model, with an adapter or without."""

    model: Text
    """Hub id or folder of the base model."""
    revision: OrNone[Text] = None
    """Branch, tag or commit on the Hub; none means the default branch."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the weights; auto means the one they were saved in, on a CPU float32."""
    window: OrNone[Count] = None
    """Context length in tokens, to which debates are shortened; none means the model's own."""
    adapter: OrNone[Text] = None
    """Folder or Hub id of a PEFT LoRA adapter on this model; none means the bare model."""
    parameters: OrNone[CountOrZero] = None
    """Parameters that its training changed; none means those of its adapter, and 0 without one."""


class SystemSection(Section):
    """One system: its kind and its agents."""

    kind: Kind
    """single (one agent, or the mean of several), vote, weighted-vote, judge, best-of-n or debate."""
    agents: Annotated[AgentNames, Field(min_length=1)]
    """Agents that answer the question in round 1, one answer each; with samples or matched_to they take turns."""
    name: OrNone[Text] = None
    """Name in records; none means the kind."""
    title: OrNone[Text] = None
    """Name in tables; none means one made of kind and agents."""
    samples: OrNone[SampleCount] = None
    """Answers in round 1; none means one per agent."""
    matched_to: OrNone[Text] = None
    """Name of another system: as many answers as that one's budget allows."""
    match: Match = "tokens"
    """The budget: the other's generated tokens, or its cost, which is those and prompt tokens at their price."""
    critics: AgentNames = ()
    """Agents of a debate's later rounds, or those who choose the best of n."""
    judge: OrNone[Text] = None
    """The agent that judges."""
    rounds: Count = 2
    """Rounds of a debate."""

    @model_validator(mode="after")
    def _fields_go_with_the_kind(self) -> Self:
        wanted = {"best-of-n": "critics", "debate": "critics", "judge": "judge"}.get(self.kind)
        if wanted and not getattr(self, wanted) and not (self.kind == "debate" and self.rounds == 1):
            raise ValueError(f"a {self.kind} needs {wanted}")
        for field in ("critics", "judge"):
            if getattr(self, field) and field != wanted:
                raise ValueError(f"a {self.kind} has no {field}; remove it, or choose another kind")
        if self.matched_to and (self.samples or self.kind not in ("vote", "weighted-vote", "judge")):
            raise ValueError("matched_to decides the number of samples of a vote, a weighted-vote or a judge alone")
        if self.match != "tokens" and not self.matched_to:
            raise ValueError("match goes with matched_to; name the system to match, or remove it")
        # Not "was it set": a stored recipe sets everything, and must be one that can be read again.
        if self.rounds != type(self).model_fields["rounds"].default and self.kind != "debate":
            raise ValueError(f"a {self.kind} has no rounds; remove it, or choose another kind")
        if self.samples and self.kind in ("single", "debate"):
            raise ValueError(f"a {self.kind} has one answer per agent; list the agents, or choose another kind")
        return self


class EvaluationInferenceSection(SamplingSection):
    """How agents sample; the defaults are the paper's."""

    max_new_tokens: OrNone[Count] = None
    """Tokens after which a response is cut off; none means the paper's 32,768, at most half of the window."""


class EvaluationRecipe(Section):
    """What an evaluation compares, complete and frozen."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = ("engine", "grading.workers", "price_per_hour")
    """Keys that decide how it is computed and not what: it may continue with other values."""
    name: FolderName = "evaluation"
    """What people call it; the folder has this name by default."""
    seed: Seed = 0
    """Where all randomness starts."""
    reference: OrNone[Text] = None
    """The system that all others are compared with; none means the first one."""
    benchmarks: Sources = BENCHMARKS
    """Benchmarks by known name or path of a problem file; the average gives each the same weight."""
    seeds: SampleCount = 10
    """Times every system answers every benchmark."""
    problems: OrNone[Count] = None
    """Problems of each benchmark, the first ones; none means all."""
    folder: OrNone[Folder] = None
    """Folder with data files; none means the one in the MADA_DATA environment variable."""
    prompt_price: OrNone[PositiveOrZero] = None
    """What a prompt token costs where a generated one costs 1, for match = "cost"; none means it is measured."""
    price_per_hour: OrNone[Positive] = None
    """Price of an hour of the device, for costs in money; none means tokens and seconds only."""
    inference: EvaluationInferenceSection = EvaluationInferenceSection()
    """How agents sample."""
    prompts: PromptsSection = PromptsSection()
    """What agents are asked."""
    engine: EngineSection = EngineSection()
    """How completions are computed."""
    grading: GradingSection = GradingSection()
    """How answers are compared with references."""
    agents: Annotated[dict[Text, AgentSection], Field(min_length=1)]
    """Agents by name."""
    systems: Annotated[tuple[SystemSection, ...], LISTED, Field(min_length=1)]
    """Systems in the order of the table."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = Counter(self.names)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise ValueError(f"two systems are called {twice[0]!r}; give each a name of its own")
        for system in self.systems:
            for agent in (*system.agents, *system.critics, *filter(None, [system.judge])):
                if agent not in self.agents:
                    raise ValueError(
                        f"system {system.name or system.kind!r}: unknown agent {agent!r}"
                        f"{did_you_mean(agent, self.agents) or ';'} choose from {', '.join(self.agents)}"
                    )
            if system.matched_to and system.matched_to not in names:
                raise ValueError(f"matched_to: unknown system {system.matched_to!r}; choose from {', '.join(names)}")
        if self.reference and self.reference not in names:
            raise ValueError(f"reference: unknown system {self.reference!r}; choose from {', '.join(names)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The systems' names in records."""
        return tuple(system.name or system.kind for system in self.systems)


def is_evaluation_file(path: Path) -> bool:
    """Whether a TOML file describes systems, and not a training recipe."""
    try:
        return not {"systems", "agents"}.isdisjoint(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return False  # whoever loads it says what is wrong


def load_evaluation(path: Path) -> EvaluationRecipe:
    """Load an evaluation file; the error lists every mistake in it."""
    return evaluation_of(read_toml(path), where=str(path))


def evaluation_of(values: Mapping[str, Any], *, where: str) -> EvaluationRecipe:
    """Return an evaluation from plain values; every mistake begins with `where` they come from."""
    with refusing_depth(where):
        return validated(EvaluationRecipe, values, where=where)
