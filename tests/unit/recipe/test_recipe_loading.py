from pathlib import Path

import pytest

from mada.errors import RecipeError
from mada.recipe import Recipe, load_recipe
from mada.recipe.evaluation_file import evaluation_of
from mada.recipe.loading import overridden
from mada.recipe.writing import recipe_to_toml


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(text: str, *, name: str = "mine.toml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def refused(text: str | None = None, *, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(None if text is None else write(text), overrides=overrides)
    return str(caught.value)


def value(recipe: Recipe, key: str):
    for name in key.split("."):
        recipe = getattr(recipe, name)
    return recipe


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
    assert (recipe.name, recipe.lora.rank, recipe.lora.alpha) == ("small", 8, 128.0)
    assert recipe.training.learning_rate == 2.0
    assert isinstance(recipe.training.learning_rate, float)
    assert (recipe.training.max_gradient_norm, recipe.training.group_size) == (None, 4)
    assert recipe.data.columns.model_dump(exclude_none=True) == {"problem": "question"}
    assert recipe.data.folder == Path("some/where")
    assert recipe.inference == Recipe().inference


def test_overrides_come_after_the_file_and_the_last_one_wins():
    path = write('[lora]\nrank = 8\nalpha = 16\n[model]\nrevision = "v1"\n')
    recipe = load_recipe(path, overrides=["lora.rank=2", "lora.rank=4", "model.revision=none"])
    assert (recipe.lora.rank, recipe.lora.alpha, recipe.model.revision) == (4, 16.0, None)


def test_byte_order_mark_and_windows_line_ends_are_fine():
    Path("mine.toml").write_bytes(b'\xef\xbb\xbfname = "small"\r\n\r\n[lora]\r\nrank = 8\r\n')
    recipe = load_recipe(Path("mine.toml"))
    assert (recipe.name, recipe.lora.rank) == ("small", 8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[training]\nlearnin_rate = 1e-6", "training.learnin_rate: unknown key; did you mean 'learning_rate'?"),
        ("[lora]\nlearning_rate = 1e-6", "did you mean 'training.learning_rate' or 'generators.learning_rate'"),
        ("rank = 8", "rank: unknown key; did you mean 'lora.rank'? (allowed here: name, seed, model"),
        ('[reward]\n"x y" = 1', 'reward."x y": unknown key (allowed here: accuracy, length)'),
        ("[data.columns]\nanser = 'a'", "data.columns.anser: unknown key; did you mean 'answer'?"),
        ('[lora]\nrank = "3"', 'lora.rank: got "3", wanted a valid integer'),
        ("[lora]\nrank = 0", "lora.rank: got 0, wanted a number greater than or equal to 1"),
        ("[lora.rank]\nx = 1", "lora.rank: got {"),
        ("[inference]\ntop_p = nan", "finite"),
        (f"[reward]\nlength = 0x{'f' * 5000}", "thousands of digits"),
        ("name = ' '", "not blank"),
        ("[data]\nfolder = ''", "data.folder: got ''"),
        ("[model]\ndtype = 'bfloat'", "did you mean 'bfloat16'?"),
        ("[lora]\ntargets = 'all-lineal'", "wanted 'all-linear'; did you mean 'all-linear'? or a list"),
        ("[lora]\ntargets = ['q', 3]", 'lora.targets: got ["q", 3]'),
        ("[evaluation]\nbenchmarks = [\n  'a',\n  ' ',\n]", "evaluation.benchmarks[1]: got ' '"),
        ("[evaluation]\nsystems = ['single']", "'mada'"),
        ("[data]\ndecontaminate = ['a', 'b', 'a']", "'a' more than once"),
        ("[data]\nscreen = 1", "at least 2"),
        ("training = 3", "training: got 3, wanted a table"),
        ("[[reward]]\nlength = 1", 'reward: got [{"length": 1}], wanted a table'),
        ("[prompts]\nreasoning = 'Solve this.'", "{question}"),
        ("[prompts]\ndebate_response = '{response} {response}'", "2 times '{response}'"),
        ("seed = 1\nname = small", "not valid TOML: Invalid value (at line 2, column 8)"),
        ("seed = " + "[" * 5000, "nested too deeply"),
        (f"seed = {'1' * 5000}", "not valid TOML: Exceeds the limit"),
        ('model.name = "a\\u0000"', "NUL"),
        ("team.generators = 1000000000", "less than or equal to 1000"),
        # fields that contradict each other
        ("training.group_size = 5", "training.batch_size: got 16, wanted a multiple of training.group_size (5)"),
        ("training.group_size = 1", "training.group_size: got 1, wanted at least 2 while generators.advantage"),
        ("team.critics = 0", "team.critics: got 0, wanted at least 1 while team.rounds is 2"),
        ("generators.advantage = 'counterfactual'", "generators.advantage: got 'counterfactual', wanted 'grpo'"),
        ("model.window = 32768", "inference.max_new_tokens: got 32768, wanted less than model.window (32768)"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file_and_the_key(text, words):
    message = refused(text)
    assert message.startswith("mine.toml: ")
    assert words in message
    assert "\n" not in message
    assert len(message) < 700


def test_all_mistakes_of_file_and_overrides_are_listed():
    overrides = ("training.steps=3", "nothing", "lora.rank=8", "lora.alpha=a", "lora.alpha=b", "lorra.rank=3")
    first, *lines = refused("training = 3\n[lora]\nrank = 0\nalpha = 0\n", overrides=overrides).splitlines()
    assert first == "4 mistakes:"
    assert sorted(line[: line.rindex(": ")] for line in lines if "lorra" not in line) == [
        "  mine.toml: training",
        "  override 'lora.alpha=b': lora.alpha",
        "  override 'nothing'",
    ]
    assert [line.startswith("  override 'lorra.rank=3': lorra: unknown key; did you mean 'lora'?") for line in lines][3]


def test_all_contradictions_are_listed():
    message = refused("model.window = 8000\ninference.max_new_tokens = 7999\nteam.critics = 0")
    assert message.startswith("2 mistakes:\n  mine.toml: team.critics: ")
    assert "\n  mine.toml: training.max_new_tokens: got 8192" in message


def test_files_that_cannot_be_read():
    def message(name: str) -> str:
        with pytest.raises(RecipeError) as caught:
            load_recipe(Path(name))
        return str(caught.value)

    write("", name="pyproject.toml")
    assert message("paper.toml").startswith("paper.toml: no such file; `mada recipe show`")
    write("", name="mine/paper.toml")
    for name in ("paper", "baselines/tina"):
        write("", name=f"recipes/{name}.toml")
    assert "did you mean 'recipes/paper.toml'?" in message("recipes/papr.toml")
    assert "did you mean 'mine/paper.toml'?" in message("mine/papr.toml")  # of two names alike the nearest file
    assert "did you mean 'recipes/baselines/tina.toml'?" in message("tina")
    assert "(recipes nearby: 'recipes/baselines/tina.toml', 'recipes/paper.toml')" in message("nowhere/xyz.toml")
    for number in range(10):
        write("", name=f"r{number}.toml")
    assert message("zzz.toml").endswith("'r6.toml', 'r7.toml' and 4 more)")
    assert "directory" in message("mine")
    assert "cannot be read" in message("r1.toml/x")
    Path("bytes.toml").write_bytes(b"name = '\xff'")
    assert "UTF-8" in message("bytes.toml")


def test_a_source_may_be_a_table_with_its_own_columns_and_answer_form():
    path = write(
        """
        data.train = ["math-train", {path = "mine.csv", problem = "task", answer = "the \\"reply\\""}]
        evaluation.benchmarks = ["amc-23", {path = "test.csv", answer = "solution", form = "last-boxed"}]
        """
    )
    recipe = load_recipe(path)
    assert recipe.data.train == 'math-train + mine.csv{problem = "task", answer = "the \\"reply\\""}'
    assert recipe.evaluation.benchmarks == ("amc-23", 'test.csv{answer = "solution", form = "last-boxed"}')
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert load_recipe(write(recipe_to_toml(recipe))) == recipe
    assert load_recipe(None, overrides=['data.train={path="a.csv", answer="b"}']).data.train == 'a.csv{answer = "b"}'
    assert load_recipe(None, overrides=['data.train=["a", {path="b"}]']).data.train == "a + b"


@pytest.mark.parametrize(
    ("table", "word"),
    [('{answer = "b"}', "path"), ('{path = "a.csv", anwser = "b"}', "anwser"), ('{path = "a.csv", answer = 3}', "3")],
)
def test_a_table_that_is_not_a_source_is_refused(table, word):
    assert word in refused(overrides=(f"evaluation.benchmarks=[{table}]",))


@pytest.mark.parametrize("url", ["http://user:geheim@host/v1", "http://host/v1?key=geheim", "https://host/v1#geheim"])
def test_an_address_with_a_secret_is_refused_without_repeating_it(url):
    with pytest.raises(RecipeError) as overridden:
        load_recipe(None, overrides=[f"engine.url={url}"])
    for message in (refused(f"[engine]\nurl = '{url}'\n"), str(overridden.value)):
        assert "MADA_API_KEY" in message
        assert "geheim" not in message


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "a\\\\b", "..", ".", "a\\nb"])
def test_a_name_that_leaves_the_folder_of_runs_is_refused(name):
    assert "name of one folder" in refused(f'name = "{name}"\n')
    with pytest.raises(RecipeError, match="name of one folder"):
        evaluation_of({"name": name}, where="here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.name=Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ('model.name="tab\\t"', "tab\t"),
        ("model.name=a=b", "a=b"),
        # a field that takes only text takes it as it stands
        ("model.name=2024-01-01", "2024-01-01"),
        ("model.name=none", "none"),
        ("model.name=x\nseed = 3", "x\nseed = 3"),
        ("data.folder=some/where", Path("some/where")),
        # none, with or without quotes
        ("model.revision=none", None),
        ("model.window=none", None),
        # everything else is TOML, up to the bounds
        ("training.learning_rate=1e-5", 1e-5),
        ("seed=9223372036854775807", 2**63 - 1),
        ('evaluation.benchmarks=["math-500", "mine.jsonl"]', ("math-500", "mine.jsonl")),
        ("data.decontaminate=[]", ()),
        ("lora.targets=all-linear", "all-linear"),
        ('lora.targets=["q_proj"]', ("q_proj",)),
        ("training.gradient_checkpointing=true", True),
    ],
)
def test_values_of_overrides(text, expected):
    found = value(load_recipe(None, overrides=[text]), text.partition("=")[0].replace(" ", ""))
    assert found == expected
    assert type(found) is type(expected)


def test_an_inline_table_sets_only_what_it_names():
    recipe = load_recipe(None, overrides=["lora={rank=8, dropout=0}", "data={columns={id='x'}, subset_size=5}"])
    assert recipe.lora.model_dump() == {"rank": 8, "alpha": 128.0, "dropout": 0.0, "targets": "all-linear"}
    assert recipe.data.columns.id == "x"
    assert (recipe.data.subset_size, recipe.data.validation_size) == (5, 750)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "wanted key=value") for text in ("lora.rank", "nothing", "", "=3", "lora.=3", "lora..rank=3")),
        ("seed.x=3", "seed has no keys inside"),
        ("lora.targets.a.b=3", "targets has no keys inside"),
        ("name=\udcff", "UTF-8"),
        ("training.gradient_checkpointing=True", 'got "True"'),
        ("lora={rank=8, dropout=2}", "lora.dropout: got 2"),
        ('data.train=["a.jsonl"', "TOML"),
        ('evaluation.benchmarks=["math-500"', "evaluation.benchmarks: got"),
        ("lora={rnak=3}", "lora.rnak: unknown key; did you mean 'rank'?"),
        ("lorra.rank=3", "lorra: unknown key; did you mean 'lora'?"),
        ("lora.rank=" + "[" * 20_000, "nested too deeply"),
    ],
)
def test_a_mistake_in_an_override_is_named_with_it(text, words):
    message = refused(overrides=("lora.rank=8", text))
    assert message.startswith("override ")
    assert words in message
    assert refused("lora.rank = 8", overrides=(text,)) == message


def test_overrides_of_a_recipe_are_those_of_a_file():
    text = 'seed = 4\n[lora]\nrank = 8\n{}[data]\nfolder = "here"\ndecontaminate = []\n'
    recipe = load_recipe(write(text.format("")))
    assert overridden(recipe, []) == recipe
    evaluation = '[evaluation]\nbenchmarks = ["a", "b"]\nseeds = 2\n'
    overrides = ["lora.alpha=3", 'evaluation.benchmarks=["a", "b"]', "evaluation.seeds=2", "model.window=none"]
    assert overridden(recipe, overrides) == load_recipe(write(text.format("alpha = 3.0\n") + evaluation))
    assert (recipe.lora.alpha, recipe.evaluation.seeds) == (128.0, 10), "the recipe itself stays"
