"""The baselines' recipes on the real data: the first stage of each cuts what the recipe asks for."""

import asyncio
from pathlib import Path

import pytest

from mada.events import Events
from mada.pipeline.context import Context
from mada.pipeline.split import read_problems, split
from mada.recipe import load_recipe
from mada.runs import Run

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "baselines"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "still-3-lora",
            {
                "problems": 25_609,
                "benchmark copies dropped": 0,
                "duplicates dropped": 815,
                "subset-1": 24_044,
                "validation": 750,
                "unused": 0,
            },
        ),
        (
            "deepscaler-lora",
            {
                "problems": 40_309,
                "skipped without an answer": 0,
                "benchmark copies dropped": 11,
                "duplicates dropped": 1_529,
                "subset-1": 38_019,
                "validation": 750,
                "unused": 0,
            },
        ),
    ],
)
def test_the_data_are_enough_and_all_are_used(
    name: str, expected: dict[str, int], data_folder: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(RECIPES / f"{name}.toml", overrides=[f"data.folder={data_folder}"])
    with Run.open(tmp_path / name, recipe) as run:
        assert asyncio.run(split(Context(run, recipe, Events()))).to_summary() == expected
        assert len(read_problems(run)) == expected["subset-1"] + expected["validation"]
