"""Stage 1: what is cut, what is dropped, and what is written of it (D1, D3)."""

import asyncio
import json
from pathlib import Path

import pytest

from mada.errors import DataError
from mada.pipeline.split import load_training_problems, read_problems, read_split, split
from mada.problems.problem import Row
from mada.recipe import load_recipe


def test_the_parts_have_the_recipes_sizes_and_everything_else_is_counted(tiny, opened, problems_file):
    context = opened(tiny())
    assert asyncio.run(split(context)).to_summary() == {
        "problems": 43,
        "benchmark copies dropped": 2,
        "duplicates dropped": 1,
        "subset-1": 6,
        "subset-2": 6,
        "subset-3": 6,
        "validation": 4,
        "unused": 18,
    }
    used = {name for part in read_split(context.run).parts for name in part.ids}
    rows = {row["id"]: row for row in map(json.loads, problems_file.read_text().splitlines())}
    stored = read_problems(context.run)
    assert {name: (one.question, one.answer) for name, one in stored.items()} == {
        name: (rows[name]["problem"], rows[name]["answer"]) for name in used
    }


def test_a_cut_that_was_interrupted_is_made_anew_without_repeating_a_record(tiny, opened):
    context = opened(tiny())
    asyncio.run(split(context))
    written = [context.run.path(name).read_bytes() for name in ("split.json", "records/problems.jsonl")]
    context.run.path("split.json").unlink()  # killed between the records and the split
    again = opened(tiny())
    asyncio.run(split(again))
    assert [again.run.path(name).read_bytes() for name in ("split.json", "records/problems.jsonl")] == written


def test_too_few_problems_are_refused_before_anything_is_written(tiny, opened):
    context = opened(tiny("data.subset_size=13"))
    with pytest.raises(DataError, match=r"3 × 13 \+ 4 = 43 problems are wanted, but of 41 only 40 differ"):
        asyncio.run(split(context))
    assert not context.run.path("split.json").exists()


def test_of_the_endless_task_four_times_as_much_is_read_as_is_used(tiny, monkeypatch):
    asked = []
    monkeypatch.setattr("mada.pipeline.split.load_problems", lambda name, **options: asked.append(options["limit"]))
    load_training_problems(tiny("data.train=abacus", "data.subset_size=50"))
    assert asked == [4 * (3 * 50 + 4)]
    load_training_problems(tiny())
    assert asked[1] is None, "a file is read to its end"


def test_rows_without_an_answer_are_errors_or_skipped_and_counted(tiny, opened, problems_file, tmp_path):
    rows = [json.loads(line) for line in problems_file.read_text().splitlines()]
    # The columns that DeepScaleR has on the Hub.
    rows = [{"problem": row["problem"], "answer": row["answer"], "solution": "So."} for row in rows]
    rows[3]["answer"], rows[8]["answer"] = "", None
    file = tmp_path / "some-empty.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"some-empty\.jsonl:4:.*on_missing_answer"):
        asyncio.run(split(opened(tiny(f"data.train={file}"), "refused")))
    context = opened(tiny(f"data.train={file}", "data.on_missing_answer=skip"), "skipped")
    done = asyncio.run(split(context)).to_summary()
    assert (done["problems"], done["skipped without an answer"]) == (41, 2)
    assert read_split(context.run).unanswered == 2


def test_subsets_of_all_hold_everything_that_validation_leaves(tiny, opened):
    context = opened(tiny("data.subset_size=all"))
    done = asyncio.run(split(context)).to_summary()
    assert [done[f"subset-{number}"] for number in (1, 2, 3)] == [12, 12, 12]
    assert (done["validation"], done["unused"]) == (4, 0)
    assert sum(len(part.ids) for part in read_split(context.run).parts) == len(read_problems(context.run)) == 40


@pytest.mark.parametrize(
    ("name", "columns", "without"),
    [("still-3-lora", ("question", "answer"), 0), ("deepscaler-lora", ("problem", "answer"), 2)],
)
def test_the_re_trainings_take_the_hubs_rows_as_they_are(opened, monkeypatch, name, columns, without):
    monkeypatch.delenv("MADA_DATA", raising=False)
    rows = [{columns[0]: f"Is it {n}?", columns[1]: str(n), "solution": ""} for n in range(20)]
    rows += [{columns[0]: "Is it so?", columns[1]: "", "solution": "Yes."} for _ in range(without)]
    hub = [Row(f"row {number}", values) for number, values in enumerate(rows, start=1)]
    monkeypatch.setattr("mada.problems.sources.read_hub_rows", lambda *_, **__: iter(hub))
    file = Path(__file__).resolve().parents[3] / "recipes" / "baselines" / f"{name}.toml"
    recipe = load_recipe(file, overrides=["data.validation_size=4", "data.decontaminate=[]"])
    done = asyncio.run(split(opened(recipe))).to_summary()
    assert (done["subset-1"], done["validation"], done["unused"]) == (16, 4, 0)
    assert done.get("skipped without an answer", 0) == without
