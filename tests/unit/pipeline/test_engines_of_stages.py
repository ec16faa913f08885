"""What a stage says about the engine that was chosen for it."""

import pytest

from mada.models.engines.choosing import Surroundings
from mada.pipeline.engines import chosen_engine
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
    choice = chosen_engine(EngineSection(), ModelSection(name="mada-nano"), window=1024, noted=said.append)
    assert [text.startswith(start) for text, start in zip(said, says, strict=True)] == [True] * len(says)
    assert all(text.endswith("; it starts in a minute or two") == (choice.kind == "vllm") for text in said)
