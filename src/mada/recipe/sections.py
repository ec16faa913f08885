"""The sections of a recipe that say what is trained, on what, how it debates and how it is measured.

How the agents learn is in `training.py`. A field's text names the point of the method it serves; "ours" marks
a choice on which the paper is silent.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from mada.debate.prompts import (
    DEBATE_HEADER,
    DEBATE_REQUEST,
    DEBATE_RESPONSE,
    JUDGE_HEADER,
    JUDGE_REQUEST,
    REASONING,
    Order,
    Share,
)
from mada.problems.known import BENCHMARKS
from mada.recipe.values import (
    Address,
    Agents,
    Count,
    CountOrZero,
    Folder,
    Fraction,
    FractionAboveZero,
    FractionBelowOne,
    OrNone,
    Positive,
    PositiveOrZero,
    Section,
    SomeAgents,
    SomeNames,
    SomeSources,
    Sources,
    SourceSum,
    Text,
    Wanted,
    list_to_tuple,
)


def _exactly_once(text: str, placeholder: str, *, meaning: str) -> str:
    count = text.count(placeholder)
    if count != 1:
        got = f"'{placeholder}' {count} times" if count else f"no '{placeholder}'"
        raise ValueError(f"got {got}, wanted it exactly once: it is where {meaning} is put")
    return text


def _holds_question(text: str) -> str:
    return _exactly_once(text, "{question}", meaning="the problem")


def _holds_response(text: str) -> str:
    return _exactly_once(text, "{response}", meaning="an agent's response")


def _none_or_several(count: int) -> int:
    """Refuse a number of answers that never shows a difference."""
    if count == 1:
        raise ValueError("got 1, wanted 0 or at least 2: one answer is always or never right")
    return count


def _with_the_team(names: tuple[str, ...]) -> tuple[str, ...]:
    if "mada" not in names or len(set(names)) < len(names):
        raise ValueError(f"got {', '.join(names) or 'none'}, wanted each system once and 'mada' among them")
    if any(name in names for name in ("vote", "untrained-vote", "weighted-vote", "judge")) and not (
        "debate" in names or "single" in names
    ):
        raise ValueError("got a vote of the bare model, wanted 'single' beside it, which says how long its answers are")
    if "vote" in names and "debate" not in names:
        raise ValueError("got 'vote' without 'debate', wanted both: the vote has as many tokens as that debate")
    return names


class ModelSection(Section):
    """The frozen base model that all agents share."""

    name: Text = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
    """Hub id or folder of the base model; every agent is a blank adapter on it at first (T4)."""
    revision: OrNone[Text] = None
    """Branch, tag or commit on the Hub; none means the default branch (T4; ours)."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the base weights; auto means the one they were saved in, on a CPU float32 (T2; ours)."""
    window: OrNone[Count] = None
    """Context length in tokens, to which debates are shortened; none means the model's own (P3; ours)."""


class ColumnsSection(Section):
    """Which columns of the source hold what; a column left at none goes by the source's usual name."""

    id: OrNone[Text] = None
    """Column with a stable id for each problem; none means one is made from the problem's text (D2; ours)."""
    problem: OrNone[Text] = None
    """Column with the problem's text (D2; ours)."""
    answer: OrNone[Text] = None
    """Column with the reference answer (D2; ours)."""


class DataSection(Section):
    """The training problems and how they are cut into one subset per agent."""

    train: SourceSum = "still-3"
    """Training problems: a known name, file, "module:function" or "hub:owner/name", or several with " + " (D1, D2)."""
    config: OrNone[Text] = None
    """Configuration of a Hub data set; none means its default (D2; ours)."""
    split: OrNone[Text] = None
    """Split of a Hub data set; none means the source's usual one (D2; ours)."""
    revision: OrNone[Text] = None
    """Branch, tag or commit of a Hub data set; none means the default branch (D2; ours)."""
    columns: ColumnsSection = ColumnsSection()
    """Column names, for sources that use other names than ours (D2; ours)."""
    folder: OrNone[Folder] = None
    """Folder with data files; none means the one in the MADA_DATA environment variable (D2; ours)."""
    on_missing_answer: Literal["error", "skip"] = "error"
    """A row whose answer is empty or null: an error, or left out and counted (D2; ours)."""
    subset_size: Count | Literal["all"] = 7500
    """Problems in each agent's own subset, no two share one; "all" deals out what validation leaves (D1)."""
    screen: Annotated[CountOrZero, AfterValidator(_none_or_several)] = 0
    """Answers of the bare base to every problem of the subsets, so that generators learn from those that it gets right
    sometimes and no others; 0 means they learn from all, as in the paper (D1; ours)."""
    validation_size: Count = 750
    """Problems in the validation set shared by all agents (D1)."""
    decontaminate: OrNone[Sources] = None
    """Benchmarks whose problems are dropped from the training data; none means evaluation.benchmarks (D3; ours)."""


class PromptsSection(Section):
    """What agents are asked; the defaults are the paper's texts."""

    reasoning: Annotated[str, AfterValidator(_holds_question)] = REASONING
    """Prompt of every question, which stands in place of {question} (P1)."""
    debate_header: str = DEBATE_HEADER
    """Text between the question and the other agents' responses (P2)."""
    debate_response: Annotated[str, AfterValidator(_holds_response)] = DEBATE_RESPONSE
    """Block for one agent's response, which stands in place of {response} (P2)."""
    debate_request: str = DEBATE_REQUEST
    """Text after the last response (P2)."""
    judge_header: str = JUDGE_HEADER
    """Text between the question and the responses that a judge, a rival of the debate, chooses from (B1; ours)."""
    judge_request: str = JUDGE_REQUEST
    """Text after the last response that a judge chooses from (B1; ours)."""
    share: Share = "full"
    """What later rounds see of a response: its full text, or the answer that follows its thinking (P2)."""
    order: Order = "seats"
    """How critics see responses: in the order of the seats, or shuffled anew for each critic and question (ours)."""


class TeamSection(Section):
    """Who debates, and for how long."""

    generators: SomeAgents = 3
    """Agents that answer the bare question in round 1 (I1, I3)."""
    critics: Agents = 3
    """Agents that answer in rounds 2 and later, seeing all responses of the round before (I1, I3)."""
    rounds: SomeAgents = 2
    """Rounds of a debate; one round is the generators alone (I1, I3)."""


class LoraSection(Section):
    """The adapter that makes an agent out of the base model."""

    rank: Count = 16
    """Rank of the low-rank update (T2)."""
    alpha: Positive = 128.0
    """Scale: the update is multiplied by alpha / rank (T2)."""
    dropout: FractionBelowOne = 0.05
    """Share of an adapter's inputs dropped while learning, never while sampling (T2)."""
    targets: (
        Annotated[Literal["all-linear"], Wanted("'all-linear'")]
        | Annotated[SomeNames, Wanted("a list of layer names, each once")]
    ) = "all-linear"
    """Layers with an adapter: a list of names, or all-linear, the seven projections of every block (T2)."""


class RewardSection(Section):
    """Weights of the two rewards; the counterfactual baseline follows the accuracy weight."""

    accuracy: PositiveOrZero = 2.0
    """Weight of being right; also the 2 of the counterfactual advantage (R3, A2)."""
    length: PositiveOrZero = 1.0
    """Weight of being brief (R2, R3)."""


class GradingSection(Section):
    """How answers are compared with references."""

    time_limit: Positive = 2.0
    """Seconds of processor time one comparison may take before it counts as wrong (R1; ours)."""
    workers: OrNone[Count] = None
    """Grading processes; none means one per core (R1; ours)."""


class EngineSection(Section):
    """How completions are computed."""

    kind: Literal["auto", "local", "vllm", "openai"] = "auto"
    """local (mada's own), vllm, openai (a server), or auto: local unless few rows of the window fit (ours)."""
    url: OrNone[Address] = None
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1; none means no server (ours)."""
    rows: OrNone[Count] = None
    """Completions sampled at the same time, at most; none means as many as suit the device (ours)."""
    timeout: Positive = 600.0
    """Seconds that a server may take for one attempt at a request (ours)."""
    retry_for: Positive = 1800.0
    """Seconds for which a server that is away, busy or odd is asked again before the work stops (ours)."""
    fail_on_error: Fraction = 0.01
    """Share of an evaluation's questions that a server may fail to answer before it stops; 0 means none (ours)."""
    threads: OrNone[Count] = None
    """Threads of a CPU; none means 1 for models so small that more only wait for each other (ours)."""


class SamplingSection(Section):
    """How a token is drawn."""

    temperature: PositiveOrZero = 1.0
    """Sampling temperature; 0 takes the likeliest token (I3)."""
    top_p: FractionAboveZero = 1.0
    """Share of probability that is sampled from; 1 means all of it (I3)."""
    top_k: OrNone[Count] = None
    """Number of likeliest tokens that are sampled from; none means all (I3; ours)."""


class InferenceSection(SamplingSection):
    """How agents sample when they debate for real; training has its own settings."""

    max_new_tokens: Count = 32768
    """Tokens after which a response is cut off (I3)."""


class EvaluationSection(Section):
    """What the finished team is measured on."""

    benchmarks: SomeSources = BENCHMARKS
    """Benchmarks by known name, path or table; the average gives each the same weight (D2, E1)."""
    seeds: Count = 10
    """Times every system answers every benchmark, each with its own seed (I3, E1)."""
    problems: OrNone[Count] = None
    """Problems of each benchmark, the first ones; none means all (E1; ours)."""
    systems: Annotated[
        tuple[
            Literal[
                "single",
                "debate",
                "vote",
                "weighted-vote",
                "judge",
                "untrained-vote",
                "generators",
                "trained-vote",
                "trained-weighted-vote",
                "trained-vote-at-cost",
                "best-of-n",
                "mada",
            ],
            ...,
        ],
        BeforeValidator(list_to_tuple),
        AfterValidator(_with_the_team),
        Wanted('a list of systems with "mada" in it'),
    ] = (
        "single",
        "debate",
        "vote",
        "untrained-vote",
        "generators",
        "trained-vote",
        "trained-weighted-vote",
        "trained-vote-at-cost",
        "mada",
    )
    """What is measured. Of the bare model: single, its debate, its vote at that debate's tokens, and at the team's
    tokens its untrained-vote, its weighted-vote and what a judge chooses. Of the trained seats: the generators, their
    trained-vote and trained-weighted-vote at the team's tokens, their trained-vote-at-cost, which may cost as much as
    the team with its prompts, the best-of-n by the critics, and the team's debate, mada (I4, B1; ours)."""
    prompt_price: OrNone[PositiveOrZero] = None
    """What a prompt token costs where a generated one costs 1, for trained-vote-at-cost; none means it is measured on
    the engine before it is first needed (B1; ours)."""
