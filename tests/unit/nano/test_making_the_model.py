"""`nano/vocabulary.py` and `nano/train.py`: the committed tokenizer is what they make, and what they write loads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mada.models.loading import EMBEDDED, load_base
from mada.seeds import rng
from train import WINDOW, ExampleBatches
from training_examples import direct_example
from vocabulary import ASSISTANT, END, PAD, USER, make_tokenizer, save_tokenizer

SCRIPT = Path(__file__).resolve().parents[3] / "nano" / "train.py"
COMMITTED = EMBEDDED["mada-nano"]


@pytest.fixture(scope="module")
def tokenizer():
    """Make the tokenizer as `train.py` does."""
    random = rng(0, "vocabulary")
    examples = [direct_example(random) for _ in range(4000)]
    return make_tokenizer([part for example in examples for part in (example.prompt, example.reply)])


def test_the_committed_tokenizer_is_the_one_that_is_made(tokenizer, tmp_path: Path) -> None:
    save_tokenizer(tokenizer, tmp_path, window=WINDOW)

    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert json.loads((tmp_path / name).read_text()) == json.loads((COMMITTED / name).read_text())


def test_a_batch_of_examples_asks_for_the_replies_alone(tokenizer) -> None:
    ids, labels = next(iter(ExampleBatches(direct_example, tokenizer, batch=3, seed=0)))
    random = rng(0, "direct_lesson", 0)

    assert ids.shape[1] % 32 == 0
    for row in range(3):
        example = direct_example(random)
        prompt = tokenizer.encode(f"{USER}{example.prompt}{END}{ASSISTANT}").ids
        reply = tokenizer.encode(f"{example.reply}{END}").ids
        padding = ids.shape[1] - len(prompt) - len(reply)
        assert ids[row].tolist() == prompt + reply + [tokenizer.token_to_id(PAD)] * padding
        assert labels[row].tolist() == [-100] * len(prompt) + reply + [-100] * padding


@pytest.mark.slow
def test_a_short_training_writes_a_model_that_loads(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    few = ("--steps", "2", "--direct-batch", "2", "--debate-batch", "2", "--workers", "0", "--problems", "2")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), str(folder), *few],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    first, *benchmarks = done.stdout.splitlines()
    assert first == "2,104,960 parameters, 691 tokens"
    assert [line.partition(":")[0] for line in benchmarks] == [
        *("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long"),
    ]
    base, committed = load_base(str(folder), device="cpu"), load_base("mada-nano", device="cpu")
    assert {name: weight.shape for name, weight in base.model.named_parameters()} == {
        name: weight.shape for name, weight in committed.model.named_parameters()
    }
    made, kept = (json.loads((place / "config.json").read_text()) for place in (folder, COMMITTED))
    assert {**made, "transformers_version": kept["transformers_version"]} == kept
