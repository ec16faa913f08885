"""Three agents learn to add small numbers, together, on one frozen model. No downloads, no GPU, about a minute.

    python examples/train_team.py [--run FOLDER] [--steps N]

The task: "Ann has 3 and gets 2 , so" wants 5. A reply ends with its first number, and is right if that is the sum. Each
agent learns from questions of its own; the validation set asks sums about people whom no agent was asked them about.
The model's weights are random: this shows learning from nothing on a toy task, and what comes of it is of no other use.
(`mada run` does the whole method, on a trained model.)

Ctrl-C stops the training, and the same command goes on from the last checkpoint.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils.logging import disable_progress_bar

from mada.cli.training_view import TrainingView
from mada.errors import MadaError
from mada.events import Events
from mada.learning.rollouts import Reward, TrainingPrompt
from mada.learning.task import TrainingTask
from mada.learning.trainer import Trainer, TrainingResult
from mada.models.adapters import AdapterStack, Lora, load_adapter
from mada.models.engines import Completion, Sampling
from mada.models.engines.local import LocalEngine
from mada.models.loading import load_base
from mada.recipe.schema import TrainingSettings
from mada.runs import StoredRecords
from mada.runs.records import VALIDATION, ValidationStep

AGENTS = ("generator-1", "generator-2", "generator-3")
PEOPLE = ("Ann", "Bob", "Cem", "Dan", "Eva", "Fay", "Gus", "Hal", "Ivy", "Jim", "Kim", "Leo")
NUMBERS = ("0", "1", "2", "3", "4", "5", "6")


def make_base(folder: Path) -> None:
    """Write a tiny model with random weights, and a tokenizer that knows a few words, where a base model may lie."""
    words = [*NUMBERS, *PEOPLE, "has", "and", "gets", ",", "so"]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="so"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
                         initializer_range=0.1)  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)  # last, because its weights tell that all of it is there


def questions(tokenizer: PreTrainedTokenizerBase, part: int) -> list[TrainingPrompt]:
    """Return a quarter of all questions: every sum is in every quarter, about other people."""
    asked = [
        (f"{person} has {has} and gets {gets} , so", str(has + gets))
        for (index, person), has, gets in product(enumerate(PEOPLE), range(5), range(3))
        if (index + has + 2 * gets) % 4 == part
    ]
    return [TrainingPrompt(text, tuple(tokenizer.encode(text)), payload=answer) for text, answer in asked]


def make_task(tokenizer: PreTrainedTokenizerBase) -> TrainingTask:
    """Say what is asked, and what earns a reward."""

    async def score(prompt: TrainingPrompt, replies: Sequence[Completion]) -> list[Reward]:
        right = [tokenizer.decode(reply.token_ids[-1]) == prompt.payload for reply in replies]
        return [Reward(total=float(one), correct=one) for one in right]

    return TrainingTask(
        prompts={agent: questions(tokenizer, part) for part, agent in enumerate(AGENTS)},
        scorer=score,
        validation=questions(tokenizer, len(AGENTS)),
        stop_tokens=tuple(tokenizer.encode(" ".join(NUMBERS))),
    )


async def train(folder: Path, steps: int) -> None:
    """Train the team in a folder, or go on where it was stopped, and say what came of it."""
    where = (folder / "base").resolve()
    if not (where / "model.safetensors").exists():
        make_base(where)
    base = load_base(str(where), device="cpu")
    stack = AdapterStack.attach(base.model, AGENTS, Lora(rank=8, alpha=32, dropout=0.0))
    engine = LocalEngine(base.model, stack, context=32)
    settings = TrainingSettings(
        batch_size=64, group_size=16, learning_rate=5e-3, temperature=1.0, max_new_tokens=6, steps=steps,
        validate_every=25, checkpoint_every=5,
    )  # fmt: skip
    task = make_task(base.tokenizer)
    was_finished = (folder / "checkpoints" / f"step-{steps:06d}").exists()
    view = TrainingView("team")
    with nullcontext() if was_finished else view:
        events = Events() if was_finished else Events(view)
        trainer = Trainer(stack, engine, task, settings=settings, folder=folder, base_name=base.name, events=events)
        result = await trainer.train()
    if was_finished:
        print(f"{folder} is finished: all {steps} steps were taken before. For another training, name another --run.")
    show_accuracies(result)
    await show_replies(result, stack, engine, task.validation_of(AGENTS[0])[0], base.tokenizer)
    await engine.close()


def show_accuracies(result: TrainingResult) -> None:
    """Print each agent's share of right answers to the validation set, which also chose its best adapter."""
    looks = list(StoredRecords(result.folder / VALIDATION, ValidationStep))
    print(f"\n{'validation':<14} {'before':>8} {'after':>8} {'at step':>8}")
    for agent, best in result.best.items():
        before = next(look.accuracy for look in looks if look.agent == agent)
        print(f"{agent:<14} {before:>8.0%} {best.accuracy:>8.0%} {best.step:>8}")
    print("\nadapters, as PEFT writes them:")
    for agent in result.best:
        print(f"  {result.adapter(agent)}")


async def show_replies(
    result: TrainingResult,
    stack: AdapterStack,
    engine: LocalEngine,
    prompt: TrainingPrompt,
    words: PreTrainedTokenizerBase,
) -> None:
    """Print the likeliest reply of the bare model and of every agent's best adapter, read back from its file."""
    greedy = Sampling(max_tokens=6, temperature=0.0, stop_tokens=tuple(words.encode(" ".join(NUMBERS))))
    print(f"\n{prompt.id} …")
    for agent in (None, *AGENTS):
        if agent is not None:
            load_adapter(stack, agent, result.adapter(agent))
        [reply] = await engine.sample(agent, prompt.prompt_ids, greedy)
        print(f"  {agent or 'no adapter':<12} {words.decode(list(reply.token_ids))}")


def main() -> None:
    """Read the command line, and end in a sentence rather than a traceback."""
    parser = argparse.ArgumentParser(description="Train three agents together on a toy task, on a CPU.")
    parser.add_argument("--run", type=Path, default=Path("runs/team"), metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="default: %(default)s, about a minute")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps must be at least 1, got {arguments.steps}")
    if arguments.run.is_file():
        parser.error(f"--run wants a folder, and {arguments.run} is a file")
    disable_progress_bar()  # transformers' own, for a file that is written in a moment
    torch.set_num_threads(1)  # so small a model gains nothing from a second core
    try:
        asyncio.run(train(arguments.run, arguments.steps))
    except (MadaError, OSError) as error:
        print(f"train_team: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
