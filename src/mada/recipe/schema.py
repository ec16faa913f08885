"""The recipe: everything that decides what a run does, complete, validated and frozen.

Without a file it is the paper's experiment; a file or an override changes single fields. The text under a field is what
`mada recipe show --explain` prints; "(ours)" marks a choice on which the paper is silent. TOML has no null, so an
optional field takes the word "none", in a file and on the command line.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

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
from mada.errors import DataError
from mada.problems.known import BENCHMARKS
from mada.problems.sources import parse_table, source_of_table

NONE_WORD = "none"
MAX_AGENTS = 1000
"""Agents of one role, and rounds: far more than anybody trains, and few enough to be listed."""
MAX_SAMPLES = 10_000
"""Evaluation seeds, and samples of a vote: more would fill the memory before anything is sampled."""

Kind = TypeVar("Kind")


class Section(BaseModel):
    """A frozen table of a recipe; unknown keys, text for numbers, NaN and infinities are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _none_word_to_none(value: Any) -> Any:
    return None if value == NONE_WORD else value


def _name(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError(f"got {text!r}, wanted text that is not blank and has no NUL character")
    return text


def _list_to_tuple(value: Any) -> Any:
    # TOML arrays arrive as lists, and a frozen recipe holds tuples.
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _folder_name(name: str) -> str:
    if name in (".", "..") or any(character in "/\\" or ord(character) < 32 for character in name):
        raise ValueError(f"got {name!r}, wanted the name of one folder, without / and \\: results go to runs/NAME")
    return name


def _address_without_secrets(url: str) -> str:
    # The message does not repeat the address: a recipe is stored and printed.
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "got an address with a user, a password, a query or a fragment, which would be stored with every result; "
            "wanted one without, such as http://localhost:8000/v1: put the key into the environment variable "
            "MADA_API_KEY"
        )
    return url


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [repr(name) for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"got {', '.join(repeated)} more than once, wanted each name once; remove the copies")
    return names


def _source_to_text(value: Any) -> Any:
    """Write a table, `{path = "my.csv", answer = "solution"}`, as the text of a source, and a list as a sum of them."""
    try:
        if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
            value = parse_table(value)  # an override is text
        if isinstance(value, dict):
            return str(source_of_table(cast("dict[str, Any]", value)))
    except DataError as error:
        raise ValueError(f"got {error}") from None
    if isinstance(value, list) and value:
        parts = [_source_to_text(one) for one in cast("list[Any]", value)]
        if all(isinstance(one, str) for one in parts):
            return " + ".join(parts)
    return cast("Any", value)


def _with_placeholder(name: str, meaning: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if (count := text.count(name)) != 1:
            raise ValueError(f"got {count} times '{name}', wanted it exactly once: it is replaced by {meaning}")
        return text

    return check


def _none_or_several(count: int) -> int:
    if count == 1:
        raise ValueError("got 1, wanted 0 or at least 2: one answer is always or never right")
    return count


def _with_the_team(names: tuple[str, ...]) -> tuple[str, ...]:
    if "mada" not in _unique(names):
        raise ValueError(f"got {', '.join(names) or 'none'}, wanted 'mada' among the systems")
    untrained = {"vote", "untrained-vote", "weighted-vote", "judge"}
    if not untrained.isdisjoint(names) and not {"debate", "single"} & set(names):
        raise ValueError(
            "got a vote of the untrained model, wanted 'single' too: its answers tell how many the budget allows"
        )
    if "vote" in names and "debate" not in names:
        raise ValueError("got 'vote' without 'debate', wanted both: the vote gets as many tokens as that debate")
    return names


LISTED = BeforeValidator(_list_to_tuple)
OrNone = Annotated[Kind | None, BeforeValidator(_none_word_to_none)]

Text = Annotated[str, AfterValidator(_name)]
FolderName = Annotated[Text, AfterValidator(_folder_name)]
Address = Annotated[Text, AfterValidator(_address_without_secrets)]
Folder = Annotated[
    Path, Field(strict=False), BeforeValidator(lambda value: _name(value) if isinstance(value, str) else value)
]
QuestionPrompt = Annotated[str, AfterValidator(_with_placeholder("{question}", "the problem"))]
ResponsePrompt = Annotated[str, AfterValidator(_with_placeholder("{response}", "an agent's response"))]
AgentNames = Annotated[tuple[Text, ...], LISTED]
Names = Annotated[AgentNames, Field(min_length=1), AfterValidator(_unique)]
Source = Annotated[Text, BeforeValidator(_source_to_text)]
SourcesOrEmpty = Annotated[tuple[Source, ...], LISTED, AfterValidator(_unique)]
Sources = Annotated[SourcesOrEmpty, Field(min_length=1)]
SystemName = Literal[
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
]
Systems = Annotated[tuple[SystemName, ...], LISTED, AfterValidator(_with_the_team)]

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
ScreenCount = Annotated[CountOrZero, AfterValidator(_none_or_several)]
AgentCount = Annotated[int, Field(ge=1, le=MAX_AGENTS)]
SampleCount = Annotated[int, Field(ge=1, le=MAX_SAMPLES)]
AgentCountOrZero = Annotated[int, Field(ge=0, le=MAX_AGENTS)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1)]
FractionAboveZero = Annotated[float, Field(gt=0, le=1)]

Advantage = Literal["grpo", "counterfactual"]
Deviation = Literal["population", "sample"]
LossAggregation = Literal["sequence", "token", "budget"]
Schedule = Literal["constant", "linear", "cosine"]
Truncated = Literal["learn", "skip", "wrong"]
"""What becomes of completions that were cut off."""


class ModelSection(Section):
    """The frozen base model that all agents share."""

    name: Text = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"
    """Hub id or folder of the base model; every agent starts as a blank adapter on it."""
    revision: OrNone[Text] = None
    """Branch, tag or commit on the Hub; none means the default branch (ours)."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the base weights; auto means that of the file, on a CPU float32 (ours)."""
    window: OrNone[Count] = None
    """Context length in tokens, to which debates are shortened; none means the model's own (ours)."""


class ColumnsSection(Section):
    """Which columns of the source hold what; none means the source's usual name."""

    id: OrNone[Text] = None
    """Column with a stable id for each problem; none means one is made from the problem's text (ours)."""
    problem: OrNone[Text] = None
    """Column with the problem's text (ours)."""
    answer: OrNone[Text] = None
    """Column with the reference answer (ours)."""


class DataSection(Section):
    """The training problems and how they are cut into one subset per agent."""

    train: Source = "still-3"
    """Training problems: a known name, a file, "module:function", "hub:owner/name", or a list of these."""
    config: OrNone[Text] = None
    """Configuration of a Hub data set; none means its default (ours)."""
    split: OrNone[Text] = None
    """Split of a Hub data set; none means the source's usual one (ours)."""
    revision: OrNone[Text] = None
    """Branch, tag or commit of a Hub data set; none means the default branch (ours)."""
    columns: ColumnsSection = ColumnsSection()
    """Column names of the source (ours)."""
    folder: OrNone[Folder] = None
    """Folder with data files; none means the one in the MADA_DATA environment variable (ours)."""
    on_missing_answer: Literal["error", "skip"] = "error"
    """A row without an answer: an error, or skipped and counted (ours)."""
    subset_size: Count | Literal["all"] = 7500
    """Problems in each agent's own subset, which are disjoint; "all" divides what validation leaves."""
    screen: ScreenCount = 0
    """Answers of the base model to every problem of the subsets: generators learn only from problems that it gets right
    sometimes; 0 means they learn from all, as in the paper (ours)."""
    validation_size: Count = 750
    """Problems in the validation set shared by all agents."""
    decontaminate: OrNone[SourcesOrEmpty] = None
    """Benchmarks whose problems are dropped from the training data; none means evaluation.benchmarks (ours)."""


class PromptsSection(Section):
    """What agents are asked; the defaults are the paper's texts."""

    reasoning: QuestionPrompt = REASONING
    """Prompt of every question; {question} is replaced by it."""
    debate_header: str = DEBATE_HEADER
    """Text between the question and the other agents' responses."""
    debate_response: ResponsePrompt = DEBATE_RESPONSE
    """Block for one agent's response; {response} is replaced by it."""
    debate_request: str = DEBATE_REQUEST
    """Text after the last response."""
    judge_header: str = JUDGE_HEADER
    """Text between the question and the responses that a judge, one of the baselines, chooses from (ours)."""
    judge_request: str = JUDGE_REQUEST
    """Text after the last response that a judge chooses from (ours)."""
    share: Share = "full"
    """What later rounds see of a response: its full text, or the answer that follows its thinking."""
    order: Order = "seats"
    """Order in which critics see responses: that of the agents, or shuffled for each critic and question (ours)."""


class TeamSection(Section):
    """Who debates, and for how long."""

    generators: AgentCount = 3
    """Agents that answer the question alone in round 1."""
    critics: AgentCountOrZero = 3
    """Agents that answer in rounds 2 and later, seeing all responses of the round before."""
    rounds: AgentCount = 2
    """Rounds of a debate; one round is the generators alone."""


class LoraSection(Section):
    """The adapter that makes an agent out of the base model."""

    rank: Count = 16
    """Rank of the low-rank update."""
    alpha: Positive = 128.0
    """Scale: the update is multiplied by alpha / rank."""
    dropout: FractionBelowOne = 0.05
    """Share of an adapter's inputs dropped while learning, never while sampling."""
    targets: Literal["all-linear"] | Names = "all-linear"
    """Layers with an adapter: a list of names, or all-linear, the seven projections of every block."""


class RewardSection(Section):
    """Weights of the two rewards; the counterfactual baseline follows the accuracy weight."""

    accuracy: PositiveOrZero = 2.0
    """Weight of a correct answer; also the factor 2 of the counterfactual advantage."""
    length: PositiveOrZero = 1.0
    """Weight of a short response."""


class GradingSection(Section):
    """How answers are compared with references."""

    time_limit: Positive = 2.0
    """Seconds of processor time one comparison may take before it counts as wrong (ours)."""
    workers: OrNone[Count] = None
    """Grading processes; none means one per core (ours)."""


class TrainingSettings(Section):
    """The GRPO settings of every agent; a role may set its own learning rate and number of steps."""

    batch_size: Count = 16
    """Completions per optimizer step and agent: batch_size / group_size prompts."""
    group_size: Count = 4
    """Completions per prompt, the group that rewards are compared within."""
    learning_rate: Positive = 1e-6
    """Highest learning rate, reached at the end of the warm-up."""
    warmup_ratio: Fraction = 0.1
    """Share of the steps during which the learning rate rises from zero."""
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: it stays, or falls to zero in a line or a cosine.

    The paper is silent; linear is what a warm-up ratio usually goes with (ours).
    """
    adam_beta1: FractionBelowOne = 0.9
    """Decay of AdamW's running mean of gradients."""
    adam_beta2: FractionBelowOne = 0.999
    """Decay of AdamW's running mean of squared gradients."""
    adam_epsilon: Positive = 1e-8
    """AdamW's guard against division by zero."""
    weight_decay: PositiveOrZero = 0.0
    """AdamW's weight decay."""
    max_gradient_norm: OrNone[Positive] = 1.0
    """Norm that each agent's gradient is scaled down to; none means never (ours)."""
    kl_coefficient: PositiveOrZero = 0.04
    """GRPO's β: the price of moving away from the base model."""
    clip_range: Positive = 0.2
    """GRPO's ε: the probability ratio counts only between 1 − ε and 1 + ε."""
    loss_aggregation: LossAggregation = "sequence"
    """Mean over tokens, then completions (sequence, as in GRPO), over all tokens (token), or the sum of each
    completion divided by max_new_tokens, then the mean (budget, as in Dr. GRPO) (ours)."""
    updates_per_rollout: Count = 1
    """Optimizer steps on the same completions; from the second on, the ratio is clipped for real (ours)."""
    truncated: Truncated = "learn"
    """Completions cut off at max_new_tokens: learnt from like any other, as in the paper, only counted in their
    group's statistics (skip), or learnt from as wrong whatever they say (wrong) (ours)."""
    temperature: Positive = 0.7
    """Sampling temperature of training completions; not 0, which would make all of a group the same."""
    top_p: FractionAboveZero = 1.0
    """Share of probability that training samples from; 1 samples the policy that learns (ours)."""
    max_new_tokens: Count = 8192
    """Tokens after which a training completion is cut off.

    The paper is silent; the replies it counts at inference average 5,000 (ours).
    """
    epochs: Positive = 1.0
    """Passes over an agent's subset, unless steps is set (ours)."""
    steps: OrNone[Count] = None
    """Optimizer steps, instead of epochs; none means epochs decide (ours)."""
    validate_every: Count = 250
    """Steps between validations, which choose the adapter to keep (ours)."""
    checkpoint_every: Count = 25
    """Steps between checkpoints, from which an interrupted training resumes (ours)."""
    checkpoint_minutes: OrNone[Positive] = 10.0
    """Minutes after which the step that ends next is followed by a checkpoint too; none means steps alone decide.

    A step of long replies takes minutes, which an interruption would lose (ours).
    """
    keep_checkpoints: Count = 2
    """Latest checkpoints kept, besides the best adapter (ours)."""
    micro_batch_tokens: OrNone[Count] = None
    """Tokens, padding included, of one forward and backward pass; none means a size by device (ours)."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass, for less memory and a third more time (ours)."""
    canary_tolerance: Positive = 0.1
    """Largest difference of log-probabilities between engine and learner, in nats per token on average over an
    agent's completions; beyond it, the two disagree about the policy, and training stops (ours)."""

    @property
    def prompts_per_step(self) -> int:
        """Prompts that an agent sees in one step."""
        return self.batch_size // self.group_size


class RoleSection(Section):
    """What one role does differently from the shared training settings."""

    advantage: Advantage = "grpo"
    """How rewards become advantages."""
    std: Deviation = "sample"
    """Standard deviation that grpo divides by. The paper is silent; sample is TRL's (ours)."""
    learning_rate: OrNone[Positive] = None
    """This role's learning rate; none means training.learning_rate (ours)."""
    steps: OrNone[Count] = None
    """This role's optimizer steps; none means training.steps (ours)."""
    truncated: OrNone[Truncated] = None
    """This role's rule for completions cut off; none means training.truncated (ours)."""


class GeneratorsSection(RoleSection):
    """How generators learn: from the bare question, each on its own subset."""

    advantage: Advantage = "grpo"
    """How rewards become advantages; generators have no other agents to be compared with, so grpo."""


class CriticsSection(RoleSection):
    """How critics learn: from the question and all generators' responses."""

    advantage: Advantage = "counterfactual"
    """How rewards become advantages: counterfactual, or grpo for the ablation without it."""
    start: Literal["blank", "generators"] = "blank"
    """What a critic's adapter begins as: blank, as in the paper, or a copy of a generator's (ours)."""
    examples: Literal["all", "answered", "disputed"] = "all"
    """Problems that critics learn from: all of them, as in the paper, those that at least one generator got right
    (answered), or those that some got right and others wrong (disputed). The validation set stays whole (ours)."""


class EngineSection(Section):
    """How completions are computed."""

    kind: Literal["auto", "local", "vllm", "openai"] = "auto"
    """local (mada's own), vllm, openai (a server), or auto: local unless few rows of the window fit (ours)."""
    url: OrNone[Address] = None
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1; none means no server (ours)."""
    rows: OrNone[Count] = None
    """Most completions sampled at the same time; none means as many as suit the device (ours)."""
    timeout: Positive = 600.0
    """Seconds that a server may take for one attempt at a request (ours)."""
    retry_for: Positive = 1800.0
    """Seconds for which requests to an unreachable or failing server are retried before the work stops (ours)."""
    fail_on_error: Fraction = 0.01
    """Share of an evaluation's questions that a server may fail to answer before it stops; 0 means none (ours)."""
    threads: OrNone[Count] = None
    """CPU threads; none means 1 for models so small that more threads would slow them down (ours)."""


class SamplingSection(Section):
    """How a token is drawn."""

    temperature: PositiveOrZero = 1.0
    """Sampling temperature; 0 takes the likeliest token."""
    top_p: FractionAboveZero = 1.0
    """Share of probability that is sampled from; 1 means all of it."""
    top_k: OrNone[Count] = None
    """Number of likeliest tokens that are sampled from; none means all (ours)."""


class InferenceSection(SamplingSection):
    """How agents sample when they debate for real; training has its own settings."""

    max_new_tokens: Count = 32768
    """Tokens after which a response is cut off."""


class EvaluationSection(Section):
    """What the finished team is measured on."""

    benchmarks: Sources = BENCHMARKS
    """Benchmarks by known name, path or table; the average gives each the same weight."""
    seeds: SampleCount = 10
    """Times every system answers every benchmark, each with its own seed."""
    problems: OrNone[Count] = None
    """Problems of each benchmark, the first ones; none means all (ours)."""
    systems: Systems = (
        *("single", "debate", "vote", "untrained-vote", "generators"),
        *("trained-vote", "trained-weighted-vote", "trained-vote-at-cost", "mada"),
    )
    """What is measured. Of the bare model: single, its debate, its vote at that debate's tokens, and at the team's
    tokens its untrained-vote, its weighted-vote and what a judge chooses. Of the trained seats: the generators, their
    trained-vote and trained-weighted-vote at the team's tokens, their trained-vote-at-cost, which may cost as much as
    the team with its prompts, the best-of-n by the critics, and the team's debate, mada (ours)."""
    prompt_price: OrNone[PositiveOrZero] = None
    """What a prompt token costs where a generated one costs 1, for trained-vote-at-cost; none means it is measured on
    the engine before it is first needed (ours)."""


_KEYS: Mapping[str | None, str] = {
    "split": "seed data team.generators",
    "screen": "model data.screen prompts.reasoning grading training.temperature training.top_p training.max_new_tokens "
    "training.truncated generators.truncated",
    "generators": "lora reward training generators",
    "critic-data": "inference",
    "critics": "prompts team.critics critics",
    "evaluate": "prompts.judge_header prompts.judge_request team.rounds evaluation",
    "report": "name",
    None: "grading.workers training.checkpoint_every training.checkpoint_minutes training.keep_checkpoints "
    "training.micro_batch_tokens training.gradient_checkpointing training.canary_tolerance engine",
}
FIRST_STAGE: Mapping[str, str | None] = {key: stage for stage, keys in _KEYS.items() for key in keys.split()}
"""The first stage whose result depends on a key, or on all keys of a section that are not listed themselves.

None means no stage: the key decides how a run is computed and not what. A run may continue with another recipe if the
stages that it has finished come before the first stage of everything that changed.
"""


def first_stage(key: str) -> str | None:
    """Return the first stage that depends on a key of a recipe; an unknown key counts for all of them."""
    while key not in FIRST_STAGE:
        key, dot, _ = key.rpartition(".")
        if not dot:
            return "split"
    return FIRST_STAGE[key]


class Recipe(Section):
    """What to do: the whole method as one value."""

    CHANGEABLE: ClassVar[tuple[str, ...]] = tuple(key for key, stage in FIRST_STAGE.items() if stage is None)
    """Keys that decide how a run is computed and not what: it may continue with other values."""
    name: FolderName = "unnamed"
    """What people call this recipe; tables and pages show it (ours)."""
    seed: Seed = 0
    """Where all randomness of a run starts: cuts, sampling and dropout."""
    model: ModelSection = ModelSection()
    """The frozen base model that all agents share."""
    data: DataSection = DataSection()
    """The training problems and how they are cut."""
    prompts: PromptsSection = PromptsSection()
    """What agents are asked."""
    team: TeamSection = TeamSection()
    """Who debates, and for how long."""
    lora: LoraSection = LoraSection()
    """The adapter that makes an agent out of the base model."""
    reward: RewardSection = RewardSection()
    """Weights of the rewards."""
    grading: GradingSection = GradingSection()
    """How answers are compared with references."""
    training: TrainingSettings = TrainingSettings()
    """How every agent learns."""
    generators: GeneratorsSection = GeneratorsSection()
    """How generators learn."""
    critics: CriticsSection = CriticsSection()
    """How critics learn."""
    engine: EngineSection = EngineSection()
    """How completions are computed (ours)."""
    inference: InferenceSection = InferenceSection()
    """How agents sample when they debate for real."""
    evaluation: EvaluationSection = EvaluationSection()
    """What the finished team is measured on."""

    @property
    def decontaminate(self) -> tuple[str, ...]:
        """The benchmarks whose problems are dropped from the training data."""
        chosen = self.data.decontaminate
        return self.evaluation.benchmarks if chosen is None else chosen

    @model_validator(mode="after")
    def _fields_go_together(self) -> Self:
        if conflicts := list(_conflicts(self)):
            raise ValueError("\n".join(conflicts))
        return self

    def training_for(self, role: Literal["generators", "critics"]) -> TrainingSettings:
        """Return the training settings of one role: the shared ones, with what the role sets itself."""
        section = self.generators if role == "generators" else self.critics
        own = {"learning_rate": section.learning_rate, "steps": section.steps, "truncated": section.truncated}
        return self.training.model_copy(update={key: value for key, value in own.items() if value is not None})


def _conflicts(recipe: Recipe) -> Iterator[str]:
    """Yield a message for every pair of settings that contradict each other."""
    training, team = recipe.training, recipe.team
    if training.batch_size % training.group_size:
        yield (
            f"training.batch_size: got {training.batch_size}, wanted a multiple of training.group_size "
            f"({training.group_size}): a group is never split between two steps"
        )
    roles = {"generators": recipe.generators, **({"critics": recipe.critics} if team.critics else {})}
    for role, section in roles.items():
        if training.group_size == 1 and section.advantage == "grpo":
            yield (
                f"training.group_size: got 1, wanted at least 2 while {role}.advantage is 'grpo': "
                "a completion compared only with itself has no advantage"
            )
    if team.rounds > 1 and not team.critics:
        yield (
            f"team.critics: got 0, wanted at least 1 while team.rounds is {team.rounds}: "
            "critics speak from round 2 on; add critics or set team.rounds to 1"
        )
    if recipe.generators.advantage == "counterfactual":
        yield (
            "generators.advantage: got 'counterfactual', wanted 'grpo': the counterfactual baseline is the "
            "generators' own accuracy, so it applies to critics only"
        )
    if recipe.reward.accuracy == recipe.reward.length == 0:
        yield "reward.accuracy: got 0, and reward.length is 0 too: every reward would be 0; set one of them above 0"
    window = recipe.model.window
    for section, limit in (("training", training.max_new_tokens), ("inference", recipe.inference.max_new_tokens)):
        if window is not None and limit >= window:
            yield (
                f"{section}.max_new_tokens: got {limit}, wanted less than model.window ({window}): "
                "the prompt needs space too"
            )
