"""A tiny model with random weights learns a small task from its rewards alone, end to end, and PEFT agrees that it did.

The task: of a prompt `filler digit`, answer with 2·digit + 1 modulo 5. A reply ends with its first digit, so a blank
agent is right about one time in seven. The validation set has digits behind fillers no agent has seen them behind.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from mada.learning.advantages import Credit
from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer, TrainingResult
from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.engines import Completion, Sampling
from mada.models.engines.local import LocalEngine
from mada.recipe.schema import TrainingSettings
from mada.runs import StoredRecords
from mada.runs.records import METRICS, VALIDATION, AgentStep, ValidationStep

peft = pytest.importorskip("peft")

AGENTS = ("first", "second")
DIGITS, FILLERS = 5, 18
STOP_TOKENS = tuple(range(DIGITS))
LORA = Lora(rank=8, alpha=32.0, dropout=0.0)
SETTINGS = TrainingSettings(
    batch_size=64,
    group_size=16,
    learning_rate=5e-3,
    temperature=1.0,
    max_new_tokens=4,
    steps=60,
    validate_every=10,
    checkpoint_every=60,
)
SEED = 0


def random_model() -> Qwen2ForCausalLM:
    torch.manual_seed(SEED)
    config = Qwen2Config(
        vocab_size=DIGITS + FILLERS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        initializer_range=0.1,  # all tokens have a chance at the start, or there would be nothing to reward
    )
    return Qwen2ForCausalLM(config).eval()


def prompts(part: int) -> list[TrainingPrompt]:
    """A third of all pairs of a filler and a digit; acc_G is what generators of mixed skill might have had on them."""
    return [
        TrainingPrompt(
            id=f"{filler} {digit}",
            prompt_ids=(DIGITS + filler, digit),
            payload=(2 * digit + 1) % DIGITS,
            generator_accuracy=0.1 * (1 + digit),
        )
        for filler in range(FILLERS)
        for digit in range(DIGITS)
        if (filler + digit) % 3 == part
    ]


async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
    verdicts = [is_right(prompt, one.token_ids) for one in drawn]
    return [Reward(total=2.0 * right, correct=right) for right in verdicts]


def is_right(prompt: TrainingPrompt, reply: Sequence[int]) -> bool:
    return reply[-1] == prompt.payload


@dataclass(frozen=True)
class Trained:
    result: TrainingResult
    steps: list[AgentStep]
    validations: list[ValidationStep]


@pytest.fixture(scope="module", params=["grpo", "counterfactual"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder: Path = tmp_path_factory.mktemp(request.param)
    model = random_model()
    stack = AdapterStack.attach(model, AGENTS, LORA, seed=SEED)
    task = TrainingTask(
        prompts={agent: prompts(part) for part, agent in enumerate(AGENTS)},
        scorer=score,
        validation=prompts(2),
        credit=Credit(request.param),
        stop_tokens=STOP_TOKENS,
    )
    engine = LocalEngine(model, stack, context=16)
    trainer = Trainer(stack, engine, task, settings=SETTINGS, folder=folder, base_name="random", seed=SEED)
    result = asyncio.run(trainer.train())
    steps, validations = StoredRecords(folder / METRICS, AgentStep), StoredRecords(folder / VALIDATION, ValidationStep)
    return Trained(result, list(steps), list(validations))


@pytest.mark.parametrize("agent", AGENTS)
def test_accuracy_rises_from_chance_to_nearly_all(trained: Trained, agent: str) -> None:
    """Over six seeds the first five steps had at most 0.21, the last five at least 0.95."""
    own = [step for step in trained.steps if step.agent == agent]
    accuracies = [step.accuracy or 0.0 for step in own]
    assert mean(accuracies[:5]) <= 0.3
    assert mean(accuracies[-5:]) >= 0.8
    assert mean([step.reward for step in own[-5:]]) == pytest.approx(2 * mean(accuracies[-5:]))
    assert own[-1].length < own[0].length, "digits pay, so replies come to them sooner"


@pytest.mark.parametrize("agent", AGENTS)
def test_the_best_adapter_beats_the_blank_one_on_digits_behind_other_fillers(trained: Trained, agent: str) -> None:
    own = {step.step: step for step in trained.validations if step.agent == agent}
    best = trained.result.best[agent]
    assert list(own) == [0, 10, 20, 30, 40, 50, 60]
    assert own[0].accuracy <= 0.35
    assert best.accuracy == max(step.accuracy for step in own.values()) >= 0.75, "over six seeds at least 0.83"
    assert best.step == next(step for step, one in own.items() if one.accuracy == best.accuracy) > 0
    assert own[best.step].is_best


@pytest.mark.parametrize("agent", AGENTS)
def test_peft_gives_the_best_adapters_greedy_answers(trained: Trained, agent: str) -> None:
    validation = prompts(2)
    ours = greedy_in_mada(trained.result.adapter(agent), validation)
    theirs = greedy_in_peft(trained.result.adapter(agent), validation)
    assert theirs == ours
    right = [is_right(prompt, reply) for prompt, reply in zip(validation, theirs, strict=True)]
    assert mean(right) >= 0.75
    bare = [is_right(prompt, reply) for prompt, reply in zip(validation, greedy_in_mada(None, validation), strict=True)]
    assert mean(bare) <= 0.35


def greedy_in_mada(adapter: Path | None, asked: Sequence[TrainingPrompt]) -> list[tuple[int, ...]]:
    """The likeliest replies of an adapter read back from its files, or of the bare base."""
    model = random_model()
    stack = AdapterStack.attach(model, ["reader"], LORA)
    if adapter is not None:
        load_adapter(stack, "reader", adapter)
    engine = LocalEngine(model, stack, context=16)
    sampling = Sampling(SETTINGS.max_new_tokens, temperature=0.0, stop_tokens=STOP_TOKENS)

    async def replies() -> list[list[Completion]]:
        return await asyncio.gather(*(engine.sample("reader", prompt.prompt_ids, sampling) for prompt in asked))

    return [reply.token_ids for (reply,) in asyncio.run(replies())]


def greedy_in_peft(adapter: Path, asked: Sequence[TrainingPrompt]) -> list[tuple[int, ...]]:
    model = peft.PeftModel.from_pretrained(random_model(), adapter)
    greedy = GenerationConfig(
        do_sample=False, max_new_tokens=SETTINGS.max_new_tokens, eos_token_id=list(STOP_TOKENS), pad_token_id=DIGITS
    )
    found: list[tuple[int, ...]] = []
    for prompt in asked:
        ids = torch.tensor([prompt.prompt_ids])
        drawn = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
        found.append(tuple(drawn[0, len(prompt.prompt_ids) :].tolist()))
    return found


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
