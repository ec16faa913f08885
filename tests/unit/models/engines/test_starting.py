"""What a stage says about the engine that was chosen for it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mada.models.engines.choosing import Hardware
from mada.models.engines.starting import choose_model_engine, start_local
from mada.models.loading import load_config
from mada.models.memory import cache_bytes_per_token
from mada.recipe.sections import EngineSection, ModelSection


@pytest.mark.parametrize(
    ("around", "says"),
    [
        (Hardware(None, has_vllm=False), []),
        (Hardware(2**34, has_vllm=True), ["local engine: "]),
        (Hardware(2**25, has_vllm=True), ["vllm engine: only 8 rows of 1,024 tokens fit without paging"]),
    ],
)
def test_what_is_no_matter_of_course_is_said_before_it_starts(monkeypatch, around, says):
    monkeypatch.setattr(Hardware, "detect", classmethod(lambda cls: around))
    said = []
    choice = choose_model_engine(
        EngineSection(), ModelSection(name="mada-nano"), window=1024, alone=False, log=said.append
    )
    assert [text.startswith(start) for text, start in zip(said, says, strict=True)] == [True] * len(says)
    assert all(text.endswith("; it starts in a minute or two") == (choice.kind == "vllm") for text in said)


@pytest.mark.parametrize(
    ("dtype", "slots", "rows", "notes"),
    [
        (torch.bfloat16, 49, None, 1),
        (torch.bfloat16, 50, None, 0),
        (torch.bfloat16, 9, 20, 1),
        (torch.bfloat16, 10, 20, 0),
        (torch.float32, 23, None, 1),
        (torch.float32, 24, None, 0),
    ],
)
def test_rows_that_are_missing_are_noted(monkeypatch, dtype, slots, rows, notes):
    # By hand: what a learner leaves of such a GPU holds 100 rows in bfloat16. In float32 it would be 50, but the model
    # itself takes twice as much too, as much as two of them.
    config = load_config("mada-nano")
    row = 64 * cache_bytes_per_token(config)
    parameters = 5 * row
    memory = int(100 * row / 0.4) + 1 + 2 * parameters
    monkeypatch.setattr(Hardware, "detect", classmethod(lambda cls: Hardware(memory, has_vllm=False)))
    monkeypatch.setattr(
        "mada.models.engines.starting.LocalEngine", lambda *args, **options: SimpleNamespace(slots=slots)
    )
    model: Any = SimpleNamespace(
        device=torch.device("cuda"), dtype=dtype, config=config, num_parameters=lambda: parameters
    )
    said = []
    start_local(EngineSection(rows=rows), model, None, window=64, alone=False, log=said.append)
    assert said == [f"only {slots} rows fit, because something else holds memory of the GPU"] * notes
