"""Three agents trained in one batch, sampling included, are the three agents that training each alone gives.

What may differ is rounding: the batch decides in which order a matrix product adds up, so gradients differ in their
last bits. AdamW carries that on; it divides a gradient by its own size, so where a gradient is nearly zero a difference
in its last bits is not small against it. Hence the tolerance is on the whole adapter, as a share of the way it went.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Completion, Engine, Live, Sampling
from mada.models.engines.local import LocalEngine
from mada.recipe.schema import TrainingSettings
from mada.runs import StoredRecords
from mada.runs.records import METRICS, AgentStep

AGENTS = ("generator-1", "generator-2", "generator-3")
"""Each agent's seed of its first adapter: an agent alone must start where it started among others."""
VOCABULARY, STOP = 32, 0
SETTINGS = TrainingSettings(
    batch_size=16,
    group_size=4,
    learning_rate=1e-2,
    temperature=1.0,
    max_new_tokens=8,
    steps=20,
    validate_every=10,
    micro_batch_tokens=128,  # several micro-batches a step, cut elsewhere when an agent is alone
)
# Float32 rounds each number by up to 6e-8 of itself; after 20 steps that came to between 4e-7 and 1.9e-6 of the way on
# one processor (18 pairs: six seeds, three agents), to between 7e-7 and 3.4e-5 on another, which sums in another order.
# The smallest mistake tried, one token of one completion taken for another in the last and smallest step, came to 5e-4,
# the same in the first step to 0.2, gradients clipped over all agents to 0.2 and more.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Listening:
    """An engine that remembers what it sampled, by agent and the request's seed, of which every step has its own."""

    engine: Engine
    sampled: dict[tuple[str | None, int], tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        drawn = await self.engine.sample(agent, prompt_ids, sampling, n=n, live=live)
        if n == SETTINGS.group_size:  # not the validation set, whose seeds are those of every look at it
            self.sampled[agent, sampling.seed] = tuple(one.token_ids for one in drawn)
        return drawn

    async def sleep(self) -> None:
        await self.engine.sleep()

    async def wake_up(self) -> None:
        await self.engine.wake_up()

    async def close(self) -> None:
        await self.engine.close()


@dataclass(frozen=True)
class Trained:
    """What a training did: tokens by agent and request, adapters before and after, and its numbers."""

    sampled: Mapping[tuple[str | None, int], tuple[tuple[int, ...], ...]]
    start: Mapping[str, Tensor]
    end: Mapping[str, Tensor]
    steps: Sequence[AgentStep]
    accuracies: Mapping[str, float | None]


def train(folder: Path, *agents: str) -> Trained:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    model = Qwen2ForCausalLM(config).eval()
    stack = AdapterStack.attach(model, agents, Lora(rank=4, alpha=8.0, dropout=0.0))
    start = {agent: adapter(stack, agent) for agent in agents}
    engine = Listening(LocalEngine(model, stack, context=32, rows=24))
    task = TrainingTask(
        # Different numbers of prompts: the agents' epochs end in different steps.
        prompts={agent: prompts(agent, 9 + 2 * AGENTS.index(agent)) for agent in agents},
        scorer=score,
        validation=prompts("validation", 8),
        stop_tokens=(STOP,),
    )
    trainer = Trainer(stack, engine, task, settings=SETTINGS, folder=folder, base_name="tiny", seed=5)
    result = asyncio.run(trainer.train())
    return Trained(
        engine.sampled,
        start,
        {agent: adapter(stack, agent) for agent in agents},
        list(StoredRecords(folder / METRICS, AgentStep)),
        {agent: best.accuracy for agent, best in result.best.items()},
    )


def prompts(name: str, count: int) -> list[TrainingPrompt]:
    """Prompts of different lengths, so that batches are padded; who an agent is decides which tokens pay."""
    wanted = AGENTS.index(name) if name in AGENTS else 0
    return [
        TrainingPrompt(f"{name}-{place}", (1, *(2 + (place * 7 + wanted) % 29,) * (1 + place % 4)), payload=wanted)
        for place in range(count)
    ]


async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
    """Reward the share of tokens that leave the agent's own remainder by 3, so that agents learn different things."""
    shares = [sum(token % 3 == prompt.payload for token in one.token_ids) / len(one.token_ids) for one in drawn]
    return [Reward(share, share > 0.5) for share in shares]


def adapter(stack: AdapterStack, agent: str) -> Tensor:
    """All of an agent's numbers as one vector; a copy."""
    return torch.cat([tensor.flatten() for tensor in stack.tensors(agent).values()])


def distance(first: Tensor, second: Tensor) -> float:
    return float(torch.linalg.vector_norm(first - second))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("together"), *AGENTS)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_trained_among_others_is_the_agent_trained_alone(
    together: Trained, agent: str, tmp_path: Path
) -> None:
    alone = train(tmp_path, agent)
    assert torch.equal(alone.start[agent], together.start[agent])

    own = {request: drawn for request, drawn in together.sampled.items() if request[0] == agent}
    assert len(own) == SETTINGS.prompts_per_step * 20, "every group of every step is compared"
    assert alone.sampled == own

    travelled = distance(alone.end[agent], alone.start[agent])
    assert travelled > 0.3 * float(torch.linalg.vector_norm(alone.start[agent])), "it has really moved"
    assert distance(alone.end[agent], together.end[agent]) < TOLERANCE * travelled

    assert alone.accuracies[agent] == together.accuracies[agent]
    among_others = [step for step in together.steps if step.agent == agent]
    for mine, theirs in zip(alone.steps, among_others, strict=True):
        assert (mine.reward, mine.tokens, mine.tokens_learnt) == (theirs.reward, theirs.tokens, theirs.tokens_learnt)
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-3, abs=1e-5)
        assert mine.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-4, abs=1e-6)


def test_agents_trained_together_become_different_agents(together: Trained) -> None:
    """Else the equality above could come from every agent having learnt from everyone's rows."""
    for first, second in combinations(AGENTS, 2):
        moves = [together.end[agent] - together.start[agent] for agent in (first, second)]
        shortest = min(float(torch.linalg.vector_norm(move)) for move in moves)
        assert distance(moves[0], moves[1]) > 0.5 * shortest
        assert {drawn for (agent, _), drawn in together.sampled.items() if agent == first}.isdisjoint(
            drawn for (agent, _), drawn in together.sampled.items() if agent == second
        )
