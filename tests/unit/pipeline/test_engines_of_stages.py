"""What a stage says about the engine that was chosen for it."""

import pytest

from mada.models.engines.choosing import EngineChoice, Surroundings, cache_bytes_per_token
from mada.models.engines.local.setup import share_of_free
from mada.models.loading import load_base
from mada.pipeline.engines import chosen_engine, local_engine
from mada.recipe.sections import EngineSection, ModelSection


@pytest.mark.parametrize(
    ("around", "says"),
    [
        (Surroundings(None, has_vllm=False), []),
        (Surroundings(2**34, has_vllm=True), ["local engine: "]),
        (Surroundings(2**25, has_vllm=True), ["vllm engine: only 8 rows of 1,024 tokens fit as whole slots, and vLLM"]),
    ],
)
def test_what_is_no_matter_of_course_is_said_before_it_starts(monkeypatch, around, says):
    monkeypatch.setattr(Surroundings, "here", classmethod(lambda cls: around))
    said = []
    choice = chosen_engine(EngineSection(), ModelSection(name="mada-nano"), window=1024, alone=False, noted=said.append)
    assert [text.startswith(start) for text, start in zip(said, says, strict=True)] == [True] * len(says)
    assert all(text.endswith("; it starts in a minute or two") == (choice.kind == "vllm") for text in said)


@pytest.mark.parametrize(
    ("fitting", "rows", "says"),
    [
        (500, 20, ["only 8 rows fit, because something else holds memory of the GPU"]),
        (500, None, ["only 8 rows fit, because something else holds memory of the GPU"]),
        (500, 17, []),
        (17, 512, []),
        (None, 512, []),
    ],
)
def test_rows_that_are_missing_are_noted(monkeypatch, fitting, rows, says):
    model = load_base("mada-nano").model
    budget = 8 * 64 * cache_bytes_per_token(model.config, width=4)
    free = budget / share_of_free("cpu", alone=True)
    monkeypatch.setattr("mada.models.engines.local.setup._free_memory", lambda device: free)
    said = []
    choice = EngineChoice("local", "as it happens", rows=fitting)
    engine = local_engine(choice, EngineSection(rows=rows), model, None, window=64, alone=True, noted=said.append)
    assert engine.slots == 8
    assert said == says
