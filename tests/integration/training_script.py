"""Trains two agents on a tiny random model in the folder given: what test_training_killed.py starts and kills.

    python training_script.py FOLDER SECONDS [STEPS+DELAY …]

SECONDS is how long the scorer takes for a group, so that kills land everywhere in a step. For every STEPS+DELAY
(`5+0.02`) a child trains and is killed so many seconds after the folder has so many steps; then the training is
brought to its end. Children, because importing torch takes longer than all the training.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer
from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Completion
from mada.models.engines.local import LocalEngine
from mada.recipe.schema import TrainingSettings

AGENTS = ("generator-1", "generator-2")
VOCABULARY = 32
STOP = 0
SETTINGS = TrainingSettings(
    batch_size=8,
    group_size=4,
    learning_rate=1e-2,
    max_new_tokens=6,
    temperature=1.0,
    steps=12,
    validate_every=4,
    checkpoint_every=2,
    keep_checkpoints=2,
    canary_tolerance=1.0,  # adapter dropout weighs more in so small a model
)


def tiny_model() -> Qwen2ForCausalLM:
    torch.manual_seed(7)
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
    return Qwen2ForCausalLM(config).eval()


def prompts(name: str, count: int) -> list[TrainingPrompt]:
    return [TrainingPrompt(f"{name}-{place}", (1, 2, (5 * place + len(name)) % VOCABULARY)) for place in range(count)]


def task(seconds: float) -> TrainingTask:
    """Tokens from the upper half are wanted: easy enough that a few steps show on the validation set."""

    async def score(prompt: TrainingPrompt, drawn: Sequence[Completion]) -> list[Reward]:
        await asyncio.sleep(seconds)
        shares = [sum(token >= VOCABULARY // 2 for token in one.token_ids) / len(one.token_ids) for one in drawn]
        return [Reward(share, share > 0.5, {"upper": share}) for share in shares]

    own = {agent: prompts(agent, 7 + place) for place, agent in enumerate(AGENTS)}
    return TrainingTask(own, score, validation=prompts("validation", 10), stop_tokens=(STOP,))


async def train(folder: Path, seconds: float) -> None:
    model = tiny_model()
    stack = AdapterStack.attach(model, AGENTS, Lora(rank=4, alpha=32.0, dropout=0.05), seed=3)
    engine = LocalEngine(model, stack, context=32, rows=16)
    try:
        trainer = Trainer(stack, engine, task(seconds), settings=SETTINGS, folder=folder, base_name="tiny", seed=11)
        await trainer.train()
    finally:
        await engine.close()


def kill_at(steps: int, delay: float, folder: Path, seconds: float) -> bool:
    """Train in a child, kill it some time after a step, and return whether it was still at work."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(train(folder, seconds))
            status = 0
        finally:
            os._exit(status)
    # Looked at without being reaped, so that the number killed below is still the child's.
    while steps_in(folder) < steps and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(folder: Path, seconds: float, moments: Sequence[str]) -> None:
    torch.set_num_threads(1)
    for moment in moments:
        steps, _, delay = moment.partition("+")
        landed = kill_at(int(steps), float(delay), folder, seconds)
        print(json.dumps({"moment": moment, "landed": landed, "steps": steps_in(folder)}), flush=True)
    asyncio.run(train(folder, seconds))


def steps_in(folder: Path) -> int:
    """How many steps left a complete trace."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") // len(AGENTS) if path.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
