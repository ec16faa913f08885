from pathlib import Path

import pytest

from mada.errors import RecipeError
from mada.recipe import load_recipe
from mada.recipe.evaluation_file import is_evaluation_file
from mada.recipe.keys import value_at
from mada.recipe.loading import changed_recipe

REPOSITORY = Path(__file__).resolve().parents[3]


def value(override: str, key: str):
    return value_at(load_recipe(None, overrides=[override]), tuple(key.split(".")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.name=Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("model.name = Qwen/Qwen2.5-0.5B ", "Qwen/Qwen2.5-0.5B"),
        ("model.name='quoted'", "quoted"),
        ('model.name="tab\\t"', "tab\t"),
        ("model.name=a=b", "a=b"),
        ("model.name=2024", "2024"),
        ("model.name=1e5", "1e5"),
        ("model.name=2024-01-01", "2024-01-01"),
        ("model.name=true", "true"),
        ("model.name=none", "none"),
        ("model.name=x\nseed = 3", "x\nseed = 3"),
        ("model.name='x'\nseed = 3", "'x'\nseed = 3"),
        ("model.revision=1234567", "1234567"),
        ("model.revision=none", None),
        ("model.revision='none'", None),
        ("model.window=none", None),
        ("model.window=4_096_000", 4096000),
        ("model.dtype=float32", "float32"),
        ("data.folder=none", None),
        ("data.folder=123", Path("123")),
        ("data.folder=some/where", Path("some/where")),
        ("training.learning_rate=1e-5", 1e-5),
        ("training.learning_rate=1", 1.0),
        ("training.max_gradient_norm=none", None),
        ('evaluation.benchmarks=["math-500", "mine.jsonl"]', ("math-500", "mine.jsonl")),
        ("lora.targets=all-linear", "all-linear"),
        ("lora . rank = 3", 3),
        ("training.gradient_checkpointing=true", True),
    ],
)
def test_values(text, expected):
    key = text.partition("=")[0].replace(" ", "")
    found = value(text, key)
    assert found == expected
    assert type(found) is type(expected)


def test_a_sum_of_sources_may_be_a_list():
    recipe = load_recipe(None, overrides=['data.train=["a.jsonl", {path = "b.csv", answer = "sol"}]'])
    assert recipe.data.train == 'a.jsonl + b.csv{answer = "sol"}'
    with pytest.raises(RecipeError, match="TOML"):
        load_recipe(None, overrides=['data.train=["a.jsonl"'])


def test_an_inline_table_sets_only_what_it_names():
    recipe = load_recipe(None, overrides=["lora={rank=8, dropout=0}", "data={columns={id='x'}, subset_size=5}"])
    assert recipe.lora.model_dump() == {"rank": 8, "alpha": 128.0, "dropout": 0.0, "targets": "all-linear"}
    assert recipe.data.columns.id == "x"
    assert (recipe.data.subset_size, recipe.data.validation_size) == (5, 750)


def test_an_override_undoes_what_a_file_says(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[model]\nwindow = 4096\n[inference]\nmax_new_tokens = 100\n[training]\nmax_new_tokens = 100\n")
    assert load_recipe(path).model.window == 4096
    assert load_recipe(path, overrides=["model.window=none"]).model.window is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lora.rank", "override 'lora.rank': got no '=', wanted key=value, such as lora.rank=…"),
        ("nothing", "override 'nothing': got no '=', wanted key=value, such as lora.rank=16"),
        ("", "override '': got no '=', wanted key=value, such as lora.rank=16"),
        ("=3", "override '=3': got an empty key, wanted key=value, such as lora.rank=16"),
        ("lora.=3", "override 'lora.=3': got an empty key, wanted key=value, such as lora.rank=16"),
        ("lora..rank=3", "override 'lora..rank=3': got an empty key, wanted key=value, such as lora.rank=16"),
        (
            "seed.x=3",
            "override 'seed.x=3': seed.x: seed holds a value and has no keys inside; write seed=…",
        ),
        (
            "lora.targets.a.b=3",
            "override 'lora.targets.a.b=3': lora.targets.a.b: lora.targets holds a value and has "
            "no keys inside; "
            "write lora.targets=…",
        ),
        (
            "name=\udcff",
            "override 'name=\\udcff': got bytes that are not UTF-8, wanted text",
        ),
        (
            "lora.rank=abc",
            "override 'lora.rank=abc': lora.rank: got 'abc' (text), wanted an integer ≥ 1",
        ),
        (
            "training.gradient_checkpointing=True",
            "override 'training.gradient_checkpointing=True': training.gradient_checkpointing: "
            "got 'True' (text), wanted true or false",
        ),
        (
            "lora.rank=none",
            "override 'lora.rank=none': lora.rank: got 'none' (text), wanted an integer ≥ 1",
        ),
        (
            "lora={rank=8, dropout=2}",
            "override 'lora={rank=8, dropout=2}': lora.dropout: got 2 (an integer), wanted a number ≥ 0 and < 1",
        ),
        (
            'evaluation.benchmarks=["math-500"',
            "override 'evaluation.benchmarks=[\"math-500\"': evaluation.benchmarks: got "
            "'[\"math-500\"' (text), "
            'wanted a list of at least one name, such as ["one", "two"]',
        ),
        (
            "lora.rnak=3",
            "override 'lora.rnak=3': lora.rnak: unknown key; did you mean 'rank'? "
            "(allowed here: rank, alpha, dropout, targets)",
        ),
        (
            "lora={rnak=3}",
            "override 'lora={rnak=3}': lora.rnak: unknown key; did you mean 'rank'? "
            "(allowed here: rank, alpha, dropout, targets)",
        ),
        (
            "lorra={rank=3}",
            "override 'lorra={rank=3}': lorra: unknown key; did you mean 'lora'? (allowed here: "
            "name, seed, model, "
            "data, prompts, team, lora, reward, grading, training, generators, critics, "
            "engine, inference, evaluation)",
        ),
        (
            "lorra.rank=3",
            "override 'lorra.rank=3': lorra: unknown key; did you mean 'lora'? (allowed here: "
            "name, seed, model, "
            "data, prompts, team, lora, reward, grading, training, generators, critics, "
            "engine, inference, evaluation)",
        ),
        (
            "model.revision=",
            "override 'model.revision=': model.revision: got '' (text), wanted text that is not blank or none",
        ),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(RecipeError) as caught:
        load_recipe(None, overrides=[text])
    assert str(caught.value) == message


def test_all_mistakes_of_file_and_overrides_are_listed(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("training = 3\n[lora]\nrank = 0\nalpha = 0\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, overrides=["training.steps=3", "nothing", "lora.rank=8", "lora.alpha=a", "lora.alpha=b"])
    assert str(caught.value) == (
        "3 mistakes in this recipe:\n"
        "  override 'nothing': got no '=', wanted key=value, such as lora.rank=16\n"
        "  override 'lora.alpha=b': lora.alpha: got 'b' (text), wanted a number > 0\n"
        f"  {path}:1: training: got 3 (an integer), wanted a table: [training] with keys such as batch_size"
    )


def test_an_override_inside_what_is_no_table_is_left_to_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("data = 3\n")
    with pytest.raises(RecipeError, match=r"data: got 3 \(an integer\), wanted a table: \[data\]"):
        load_recipe(path, overrides=["data.columns.id=x"])


def test_a_good_recipe_with_a_bad_override_is_refused():
    with pytest.raises(RecipeError, match="override 'nothing'"):
        load_recipe(None, overrides=["lora.rank=8", "nothing"])


@pytest.mark.parametrize("path", [None, *sorted((REPOSITORY / "recipes").rglob("*.toml"))], ids=str)
def test_a_recipe_without_changes_is_the_same(path):
    if path is not None and is_evaluation_file(path):
        pytest.skip("an evaluation, not a recipe")
    recipe = load_recipe(path)
    assert changed_recipe(recipe, {}) == recipe


def test_changes_by_key_are_those_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('seed = 4\n[lora]\nrank = 8\n[data]\nfolder = "here"\ndecontaminate = []\n')
    recipe = load_recipe(path)
    changes = {"lora.alpha": 3.0, "evaluation.benchmarks": ["a", "b"], "evaluation.seeds": 2, "model.window": None}
    changed = changed_recipe(recipe, changes)
    path.write_text(
        'seed = 4\n[lora]\nrank = 8\nalpha = 3.0\n[data]\nfolder = "here"\ndecontaminate = []\n'
        '[evaluation]\nbenchmarks = ["a", "b"]\nseeds = 2\n'
    )
    assert changed == load_recipe(path)
    assert (recipe.lora.alpha, recipe.evaluation.seeds) == (128.0, 10), "the recipe itself stays"
    assert changed_recipe(changed, {"data.folder": None}).data.folder is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora.rank": 0}, "override 'lora.rank=0': lora.rank: got 0 (an integer), wanted an integer ≥ 1"),
        (
            {"lora.rnak": 3},
            "override 'lora.rnak=3': lora.rnak: unknown key; did you mean 'rank'? "
            "(allowed here: rank, alpha, dropout, targets)",
        ),
        (
            {"team.critics": 0},
            "override 'team.critics=0': team.critics: got 0, wanted at least 1 while team.rounds is 2: "
            "critics speak from round 2 on; add critics or set team.rounds to 1",
        ),
        (
            {"lora.rank": "x", "evaluation.seeds": 0},
            "override 'lora.rank=x': lora.rank: got 'x' (text), wanted an integer ≥ 1; "
            "override 'evaluation.seeds=0': evaluation.seeds: got 0 (an integer), wanted an integer ≥ 1",
        ),
    ],
)
def test_changes_that_do_not_go_together_are_refused_as_in_a_file(changes, message):
    with pytest.raises(RecipeError) as caught:
        changed_recipe(load_recipe(None), changes)
    assert str(caught.value) == message


def test_changes_that_go_together_are_made_at_once():
    changed = changed_recipe(load_recipe(None), {"team.critics": 0, "team.rounds": 1})
    assert (changed.team.critics, changed.team.rounds) == (0, 1)
