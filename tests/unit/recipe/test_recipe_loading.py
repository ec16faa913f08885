from pathlib import Path

import pytest

from mada.errors import RecipeError
from mada.recipe import Recipe, load_recipe
from mada.recipe.evaluation_file import evaluation_of
from mada.recipe.mistakes import key_lines
from mada.recipe.writing import recipe_to_toml

TRAINING_KEYS = (
    "batch_size, group_size, learning_rate, warmup_ratio, schedule, adam_beta1, adam_beta2, adam_epsilon, "
    "weight_decay, max_gradient_norm, kl_coefficient, clip_range, loss_aggregation, updates_per_rollout, truncated, "
    "temperature, top_p, max_new_tokens, epochs, steps, validate_every, checkpoint_every, "
    "checkpoint_minutes, keep_checkpoints, micro_batch_tokens, gradient_checkpointing, canary_tolerance"
)
SECTIONS = (
    "name, seed, model, data, prompts, team, lora, reward, grading, training, generators, "
    "critics, engine, inference, "
    "evaluation"
)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(text: str, *, name: str = "mine.toml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def mistakes(text: str) -> str:
    path = write(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    return str(caught.value)


def test_no_file_and_an_empty_file_are_the_defaults():
    assert load_recipe(None) == Recipe()
    assert load_recipe(write("# nothing\n")) == Recipe()


def test_a_file_changes_what_it_names_and_nothing_else():
    recipe = load_recipe(
        write(
            """
            name = "small"
            lora.rank = 8
            [training]
            learning_rate = 2   # an integer where a number is wanted
            max_gradient_norm = "none"
            [data]
            columns = {problem = "question"}
            folder = "some/where"
            """
        )
    )
    assert recipe.name == "small"
    assert recipe.lora.rank == 8
    assert recipe.lora.alpha == 128.0
    assert recipe.training.learning_rate == 2.0
    assert isinstance(recipe.training.learning_rate, float)
    assert recipe.training.max_gradient_norm is None
    assert recipe.training.group_size == 4
    assert recipe.data.columns.model_dump(exclude_none=True) == {"problem": "question"}
    assert recipe.data.folder == Path("some/where")
    assert recipe.inference == Recipe().inference


def test_overrides_come_after_the_file_and_the_last_one_wins():
    path = write("[lora]\nrank = 8\nalpha = 16\n")
    recipe = load_recipe(path, overrides=["lora.rank=2", "lora.rank=4"])
    assert (recipe.lora.rank, recipe.lora.alpha) == (4, 16.0)


def test_byte_order_mark_and_windows_line_ends_are_fine():
    Path("mine.toml").write_bytes(b'\xef\xbb\xbfname = "small"\r\n\r\n[lora]\r\nrank = 8\r\n')
    recipe = load_recipe(Path("mine.toml"))
    assert (recipe.name, recipe.lora.rank) == ("small", 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[training]\nlearnin_rate = 1e-6",
            "mine.toml:2: training.learnin_rate: unknown key; did you mean 'learning_rate'? "
            f"(allowed here: {TRAINING_KEYS})",
        ),
        (
            "[lora]\nlearning_rate = 1e-6",
            "mine.toml:2: lora.learning_rate: unknown key; did you mean 'training.learning_rate', "
            "'generators.learning_rate' or 'critics.learning_rate'? "
            "(allowed here: rank, alpha, dropout, targets)",
        ),
        ("rank = 8", f"mine.toml:1: rank: unknown key; did you mean 'lora.rank'? (allowed here: {SECTIONS})"),
        (
            "[modle]\nx = 1",
            f"mine.toml:1: modle: unknown key; did you mean 'model'? (allowed here: {SECTIONS})",
        ),
        (
            '[reward]\n"x y" = 1',
            'mine.toml:2: reward."x y": unknown key (allowed here: accuracy, length)',
        ),
        (
            "[data.columns]\nanser = 'a'",
            "mine.toml:2: data.columns.anser: unknown key; did you mean 'answer'? (allowed here: id, problem, answer)",
        ),
        ('[lora]\nrank = "3"', "mine.toml:2: lora.rank: got '3' (text), wanted an integer ≥ 1"),
        ("[lora]\nrank = 3.0", "mine.toml:2: lora.rank: got 3.0 (a number), wanted an integer ≥ 1"),
        ("[lora]\nrank = true", "mine.toml:2: lora.rank: got true (a boolean), wanted an integer ≥ 1"),
        ("[lora]\nrank = 0", "mine.toml:2: lora.rank: got 0 (an integer), wanted an integer ≥ 1"),
        ("[lora]\nrank = [1, true]", "mine.toml:2: lora.rank: got [1, true] (a list), wanted an integer ≥ 1"),
        ("[lora.rank]\nx = 1", "mine.toml:1: lora.rank: got a table, wanted an integer ≥ 1"),
        ("[lora]\nalpha = false", "mine.toml:2: lora.alpha: got false (a boolean), wanted a number > 0"),
        ("[lora]\ndropout = 1", "mine.toml:2: lora.dropout: got 1 (an integer), wanted a number ≥ 0 and < 1"),
        (
            "[inference]\ntop_p = 0.0",
            "mine.toml:2: inference.top_p: got 0.0 (a number), wanted a number > 0 and ≤ 1",
        ),
        (
            "[inference]\ntop_p = nan",
            "mine.toml:2: inference.top_p: got nan (a number), wanted a number > 0 and ≤ 1",
        ),
        ("[reward]\nlength = inf", "mine.toml:2: reward.length: got inf (a number), wanted a number ≥ 0"),
        ("[reward]\nlength = -1", "mine.toml:2: reward.length: got -1 (an integer), wanted a number ≥ 0"),
        (
            f"[reward]\nlength = 0x{'f' * 5000}",
            "mine.toml:2: reward.length: got over 100 digits (an integer), wanted a number ≥ 0",
        ),
        (
            "[training]\ngradient_checkpointing = 'yes'",
            "mine.toml:2: training.gradient_checkpointing: got 'yes' (text), wanted true or false",
        ),
        (
            "[training]\ngradient_checkpointing = 1",
            "mine.toml:2: training.gradient_checkpointing: got 1 (an integer), wanted true or false",
        ),
        (
            "[training]\ngradient_checkpointing = 'none'",
            "mine.toml:2: training.gradient_checkpointing: got 'none' (text), wanted true or false",
        ),
        ("seed = -1", "mine.toml:1: seed: got -1 (an integer), wanted an integer from 0 to 2^63 − 1"),
        (
            "seed = 9223372036854775808",
            "mine.toml:1: seed: got 9223372036854775808 (an integer), wanted an integer from 0 to 2^63 − 1",
        ),
        ("name = ' '", "mine.toml:1: name: got ' ' (text), wanted text that is not blank"),
        (
            "name = 2024-01-01",
            "mine.toml:1: name: got 2024-01-01 (a date or time), wanted text that is not blank",
        ),
        (
            "[grading]\nworkers = 'all'",
            "mine.toml:2: grading.workers: got 'all' (text), wanted an integer ≥ 1 or none",
        ),
        (
            "[data]\nfolder = ''",
            "mine.toml:2: data.folder: got '' (text), wanted the path of a folder or none",
        ),
        (
            "[model]\ndtype = 'bfloat'",
            "mine.toml:2: model.dtype: got 'bfloat' (text), "
            "wanted one of 'auto', 'bfloat16', 'float16', 'float32'; did you mean 'bfloat16'?",
        ),
        (
            "[critics]\nstd = 3",
            "mine.toml:2: critics.std: got 3 (an integer), wanted one of 'population', 'sample'",
        ),
        (
            "[critics]\nadvantage = 'gppo'",
            "mine.toml:2: critics.advantage: got 'gppo' (text), wanted one of 'grpo', 'counterfactual'; "
            "did you mean 'grpo'?",
        ),
        (
            "[lora]\ntargets = 'all-lineal'",
            "mine.toml:2: lora.targets: got 'all-lineal' (text), wanted 'all-linear' or a list of "
            "layer names, "
            "each once; did you mean 'all-linear'?",
        ),
        (
            "[lora]\ntargets = ['q', 3]",
            "mine.toml:2: lora.targets: got ['q', 3] (a list), wanted 'all-linear' or a list of layer names, each once",
        ),
        (
            "[evaluation]\nbenchmarks = [\n  'a',\n  ' ',\n]",
            "mine.toml:2: evaluation.benchmarks[1]: got ' ' (text), wanted a source, as text or as a table such as "
            '{path = "my.csv", answer = "solution"}',
        ),
        (
            "[evaluation]\nbenchmarks = 'math-500'",
            "mine.toml:2: evaluation.benchmarks: got 'math-500' (text), "
            'wanted a list of at least one name, such as ["one", "two"]',
        ),
        (
            "[evaluation]\nbenchmarks = []",
            "mine.toml:2: evaluation.benchmarks: got [] (a list), "
            'wanted a list of at least one name, such as ["one", "two"]',
        ),
        (
            "[data]\ndecontaminate = ['a', 'b', 'a']",
            "mine.toml:2: data.decontaminate: got 'a' more than once, wanted each name once; remove the copies",
        ),
        (
            "training = 3",
            "mine.toml:1: training: got 3 (an integer), wanted a table: [training] with keys such as batch_size",
        ),
        (
            "[[reward]]\nlength = 1",
            "mine.toml:1: reward: got [{'length': 1}] (a list), wanted a table: [reward] with keys such as accuracy",
        ),
        (
            "[prompts]\nreasoning = 'Solve this.'",
            "mine.toml:2: prompts.reasoning: got no '{question}', wanted it exactly once: "
            "it is where the problem is put",
        ),
        (
            "[prompts]\ndebate_response = '{response} {response}'",
            "mine.toml:2: prompts.debate_response: got '{response}' 2 times, wanted it exactly once: "
            "it is where an agent's response is put",
        ),
        (
            f"name = 3\n[lora]\nrank = '{'x' * 100}'",
            "2 mistakes in this recipe:\n"
            "  mine.toml:1: name: got 3 (an integer), wanted text that is not blank\n"
            f"  mine.toml:3: lora.rank: got '{'x' * 58}… (text), wanted an integer ≥ 1",
        ),
    ],
)
def test_mistakes_in_a_file(text, message):
    assert mistakes(text) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["training.group_size=5"],
            "override 'training.group_size=5': training.batch_size: got 16, wanted a multiple of "
            "training.group_size (5): a group is never split between two steps",
        ),
        (
            ["training.group_size=1"],
            "override 'training.group_size=1': training.group_size: got 1, wanted at least 2 while "
            "generators.advantage is 'grpo': a completion compared only with itself has no advantage",
        ),
        (
            ["team.critics=0"],
            "override 'team.critics=0': team.critics: got 0, wanted at least 1 while team.rounds is 2: "
            "critics speak from round 2 on; add critics or set team.rounds to 1",
        ),
        (
            ["generators.advantage=counterfactual"],
            "override 'generators.advantage=counterfactual': generators.advantage: got 'counterfactual', "
            "wanted 'grpo': the counterfactual baseline is the generators' own accuracy, "
            "which only critics can be held against",
        ),
        (
            ["reward.accuracy=0", "reward.length=0"],
            "override 'reward.accuracy=0': reward.accuracy: got 0, and reward.length is 0 too: "
            "nothing would be rewarded; give one of them a weight above 0",
        ),
        (
            ["model.window=32768"],
            "override 'model.window=32768': inference.max_new_tokens: got 32768, "
            "wanted less than model.window (32768): the prompt needs room too",
        ),
        (
            ["model.window=8000", "inference.max_new_tokens=7999", "team.critics=0"],
            "2 mistakes in this recipe:\n"
            "  override 'team.critics=0': team.critics: got 0, wanted at least 1 while team.rounds is 2: "
            "critics speak from round 2 on; add critics or set team.rounds to 1\n"
            "  override 'model.window=8000': training.max_new_tokens: got 8192, "
            "wanted less than model.window (8000): the prompt needs room too",
        ),
    ],
)
def test_fields_that_do_not_go_together(overrides, message):
    with pytest.raises(RecipeError) as caught:
        load_recipe(None, overrides=overrides)
    assert str(caught.value) == message


def test_a_group_of_one_is_named_for_every_role_that_would_learn_nothing():
    found = mistakes("training.group_size = 1\ncritics.advantage = 'grpo'")
    assert "mine.toml:1: training.group_size: got 1, wanted at least 2 while generators.advantage" in found
    assert "mine.toml:1: training.group_size: got 1, wanted at least 2 while critics.advantage" in found
    assert found.startswith("2 mistakes")


def test_critics_that_do_not_exist_are_not_checked():
    overrides = ["team.critics=0", "team.rounds=1", "critics.advantage=grpo"]
    assert load_recipe(None, overrides=overrides).team.critics == 0
    with pytest.raises(RecipeError, match=r"generators.advantage is 'grpo'") as caught:
        load_recipe(None, overrides=[*overrides, "training.group_size=1"])
    assert "critics.advantage" not in str(caught.value)


def test_a_conflict_is_placed_where_somebody_wrote_one_of_its_fields():
    assert mistakes("\n[training]\ngroup_size = 5").startswith("mine.toml:3: training.batch_size: got 16,")
    assert mistakes("[training]\ngroup_size = 5\nbatch_size = 8").startswith("mine.toml:3: training.batch_size: got 8,")


def test_lines_are_found_in_any_layout():
    text = (
        "# comment\r\n"
        "a.b = 1\n"
        "text = '''\n"
        "[not.a.table]\n"
        "key = 3\n"
        "'''\n"
        "nested = [\n"
        "  [1],\n"
        "  [2]]\n"
        "after = 1\n"
        "[table.inner] # [comment]\n"
        "x = {y = 1, z = {w = 2}}\n"
        "[[list]]\n"
        '"odd key" = 1'
    )
    assert key_lines(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("text",): 3,
        ("nested",): 7,
        ("after",): 10,
        ("table",): 11,
        ("table", "inner"): 11,
        ("table", "inner", "x"): 12,
        ("table", "inner", "x", "y"): 12,
        ("table", "inner", "x", "z"): 12,
        ("table", "inner", "x", "z", "w"): 12,
        ("list",): 13,
        ("list", "odd key"): 14,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1\nname = small", "mine.toml:2:8: not valid TOML: Invalid value"),
        ("seed = 1\nseed = 2\n", "mine.toml:2:9: not valid TOML: Cannot overwrite a value"),
        ("\n\nname =", "mine.toml:3: not valid TOML: Invalid value"),
        ("seed = " + "[" * 5000, "mine.toml: not a recipe: its lists or tables are nested too deeply"),
    ],
)
def test_broken_toml(text, message):
    assert mistakes(text) == message


def test_an_integer_longer_than_python_reads():
    found = mistakes(f"seed = {'1' * 5000}")
    assert found.startswith("mine.toml: not valid TOML: Exceeds the limit")
    assert len(found) < 200


def test_not_text():
    Path("mine.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(RecipeError) as caught:
        load_recipe(Path("mine.toml"))
    assert str(caught.value) == (
        "mine.toml: got byte 0xff at offset 8, which is not UTF-8; wanted a TOML text file: save it as UTF-8"
    )


def missing(name: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(Path(name))
    return str(caught.value)


def test_missing_file_without_recipes_nearby():
    write("", name="pyproject.toml")
    assert missing("paper.toml") == (
        "paper.toml: no such file; `mada recipe show` prints a complete recipe to start from"
    )


def test_missing_file_with_recipes_nearby():
    write("", name="recipes/paper.toml")
    write("", name="recipes/baselines/tina.toml")
    listed = "(recipes nearby: 'recipes/paper.toml', 'recipes/baselines/tina.toml')"
    assert missing("recipes/papr.toml") == (
        f"recipes/papr.toml: no such file; did you mean 'recipes/paper.toml'? {listed}"
    )
    assert missing("nowhere/xyz.toml") == (
        "nowhere/xyz.toml: no such file (recipes nearby: 'recipes/baselines/tina.toml', 'recipes/paper.toml')"
    )
    assert "did you mean 'recipes/baselines/tina.toml'?" in missing("tina")


def test_of_two_recipes_with_one_name_the_nearest_is_suggested():
    write("", name="mine/paper.toml")
    write("", name="recipes/paper.toml")
    assert "did you mean 'mine/paper.toml'? (recipes nearby: 'mine/paper.toml', 'recipes/paper.toml')" in missing(
        "mine/papr.toml"
    )


def test_long_lists_of_recipes_are_cut():
    for number in range(10):
        write("", name=f"r{number}.toml")
    assert missing("zzz.toml").endswith("'r6.toml', 'r7.toml' and 2 more)")


def test_a_folder_and_a_path_through_a_file():
    Path("empty").mkdir()
    write("", name="full/one.toml")
    assert missing("empty") == "empty: got a folder, wanted a recipe file"
    assert missing("full") == "full: got a folder, wanted a recipe file, such as full/one.toml"
    assert missing("full/one.toml/x") == "full/one.toml/x: cannot be read: Not a directory"


def test_a_source_may_be_a_table_with_its_own_columns_and_answer_form(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        data.train = ["math-train", {path = "mine.csv", problem = "task", answer = "the \\"reply\\""}]
        evaluation.benchmarks = ["amc-23", {path = "test.csv", answer = "solution", form = "last-boxed"}]
        """
    )
    recipe = load_recipe(path)
    assert recipe.data.train == 'math-train + mine.csv{problem = "task", answer = "the \\"reply\\""}'
    assert recipe.evaluation.benchmarks == ("amc-23", 'test.csv{answer = "solution", form = "last-boxed"}')
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    path.write_text(recipe_to_toml(recipe))
    assert load_recipe(path) == recipe
    assert load_recipe(None, overrides=['data.train={path="a.csv", answer="b"}']).data.train == 'a.csv{answer = "b"}'


@pytest.mark.parametrize(
    ("table", "word"),
    [('{answer = "b"}', "path"), ('{path = "a.csv", anwser = "b"}', "anwser"), ('{path = "a.csv", answer = 3}', "3")],
)
def test_a_table_that_is_no_source_is_refused(table, word):
    with pytest.raises(RecipeError, match=word):
        load_recipe(None, overrides=[f"evaluation.benchmarks=[{table}]"])


def test_training_data_are_kept_apart_from_the_recipes_own_benchmarks():
    own = load_recipe(None, overrides=['evaluation.benchmarks=["abacus-easy"]'])
    assert own.decontaminate == ("abacus-easy",)
    assert load_recipe(None, overrides=["data.decontaminate=[]"]).decontaminate == ()
    assert Recipe().decontaminate == Recipe().evaluation.benchmarks


@pytest.mark.parametrize("url", ["http://user:geheim@host/v1", "http://host/v1?key=geheim", "https://host/v1#geheim"])
def test_an_address_with_a_secret_is_refused(url, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"[engine]\nurl = '{url}'\n")
    with pytest.raises(RecipeError, match="MADA_API_KEY") as refused:
        load_recipe(path)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "a\\\\b", "..", ".", "a\\nb"])
def test_a_name_that_leaves_the_folder_of_runs_is_refused(name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "{name}"\n')
    with pytest.raises(RecipeError, match="name of one folder"):
        load_recipe(path)
    with pytest.raises(RecipeError, match="name of one folder"):
        evaluation_of({"name": name}, where="here")


@pytest.mark.parametrize(
    "line",
    [
        'name = "a\\u0000"',
        'model.name = "a\\u0000"',
        'data.train = "a\\u0000.csv"',
        'data.folder = "a\\u0000"',
        'evaluation.benchmarks = ["a\\u0000"]',
    ],
)
def test_nul_in_a_name_is_refused(line, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(line)
    with pytest.raises(RecipeError, match=r"NUL|name of one folder"):
        load_recipe(path)


@pytest.mark.parametrize("field", ["generators", "critics", "rounds"])
def test_teams_that_nobody_could_list_are_refused(field):
    with pytest.raises(RecipeError, match="≤ 1000"):
        load_recipe(None, overrides=[f"team.{field}=1000000000"])


def test_keys_and_values_nested_deeper_than_python_goes_are_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(".".join(["a"] * 20_000) + " = 1")
    with pytest.raises(RecipeError, match="nested too deeply"):
        load_recipe(path)
    with pytest.raises(RecipeError, match="20,000 parts"):
        load_recipe(None, overrides=[".".join(["a"] * 20_000) + "=1"])
    with pytest.raises(RecipeError, match="nested too deeply"):
        load_recipe(None, overrides=["lora={" + ".".join(["a"] * 20_000) + "=1}"])
    with pytest.raises(RecipeError, match="nested too deeply"):
        load_recipe(None, overrides=["lora.rank=" + "[" * 20_000])
