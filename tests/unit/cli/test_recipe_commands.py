import json
import sys
from pathlib import Path

import pytest

from mada.cli import main
from mada.recipe import Recipe, digest, load_recipe, recipe_to_toml


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(monkeypatch, capsys):
    """Type `mada recipe …`; gives back exit code, standard output and standard error."""

    def type_command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mada", "recipe", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return code or 0, output.out, output.err

    return type_command


def test_show_prints_the_defaults(run):
    assert run("show") == (0, recipe_to_toml(Recipe()), "")


def test_show_prints_file_and_overrides(run):
    Path("mine.toml").write_text("lora.rank = 8\n")
    code, out, err = run("show", "mine.toml", "name=[red]x", "seed=3", "model.revision=none")
    assert (code, err) == (0, "")
    assert out.startswith('name = "[red]x"\nseed = 3\n')
    assert "\nrank = 8\n" in out


def test_show_takes_an_existing_file_with_an_equals_sign_for_a_file(run):
    Path("lora.rank=8").write_text("lora.rank = 4\n")
    code, out, _ = run("show", "lora.rank=8")
    assert code == 0
    assert "\nrank = 4\n" in out


def test_show_json_is_the_whole_recipe(run):
    code, out, _ = run("show", "--json", "data.folder=here")
    assert code == 0
    assert json.loads(out) == load_recipe(None, overrides=["data.folder=here"]).model_dump(mode="json")


def test_show_explain(run):
    code, out, _ = run("show", "--explain")
    assert code == 0
    assert "# Rank of the low-rank update (T2).\nrank = 16\n" in out


def test_show_refuses_comments_in_json(run):
    code, out, err = run("show", "--explain", "--json")
    assert (code, out) == (2, "")
    assert "--explain writes comments" in err


def test_show_refuses_two_files(run):
    assert run("show", "a.toml", "b.toml") == (
        2,
        "",
        "mada: got 2 files (a.toml, b.toml), wanted one; overrides are key=value\n",
    )


def test_an_override_may_be_longer_than_a_file_name(run):
    names = [f"benchmark-{number}" for number in range(30)]
    code, out, err = run("show", "--json", f"evaluation.benchmarks={json.dumps(names)}")
    assert (code, err) == (0, "")
    assert json.loads(out)["evaluation"]["benchmarks"] == names


def test_a_mistake_is_one_message_without_a_traceback(run):
    assert run("show", "lora.rank=[/bold]") == (
        2,
        "",
        "mada: override 'lora.rank=[/bold]': lora.rank: got '[/bold]' (text), wanted an integer ≥ 1\n",
    )


def test_check_reports_every_file(run):
    Path("good.toml").write_text("seed = 1\n")
    Path("bad.toml").write_text("sed = 1\n[lora]\nrank = 0\n")
    code, out, err = run("check", "bad.toml", "good.toml", "missing.toml")
    assert code == 2
    assert out == f"ok  {digest(load_recipe(None, overrides=['seed=1']))}  good.toml\n"
    assert err == (
        "mada: 2 mistakes in this recipe:\n"
        "  bad.toml:3: lora.rank: got 0 (an integer), wanted an integer ≥ 1\n"
        "  bad.toml:1: sed: unknown key; did you mean 'seed'? (allowed here: name, seed, "
        "model, data, prompts, team, "
        "lora, reward, grading, training, generators, critics, engine, inference, evaluation)\n"
        "missing.toml: no such file (recipes nearby: 'bad.toml', 'good.toml')\n"
    )


def test_check_of_good_files_only(run):
    Path("good.toml").write_text("")
    assert run("check", "good.toml") == (0, f"ok  {digest(Recipe())}  good.toml\n", "")


def test_check_needs_a_file(run):
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert "FILE" in err


def test_diff_of_equal_recipes_says_nothing(run):
    Path("a.toml").write_text("[lora]\nrank = 16\n")
    Path("b.toml").write_text("")
    assert run("diff", "a.toml", "b.toml") == (0, "", "")
    assert run("diff", "--json", "a.toml", "b.toml") == (0, "[]\n", "")


def test_diff_of_different_recipes(run):
    Path("a.toml").write_text("name = 'a'\ntraining.steps = 100\n")
    Path("b.toml").write_text("name = '[b]'\ndata.folder = 'here'\n")
    assert run("diff", "a.toml", "b.toml") == (
        1,
        "name            'a'   →  '[b]'\n"
        "data.folder     none  →  'here'\n"
        "training.steps  100   →  none\n",
        "",
    )  # fmt: skip
    code, out, _ = run("diff", "a.toml", "b.toml", "--json")
    assert code == 1
    assert json.loads(out) == [
        {"key": "name", "left": "a", "right": "[b]"},
        {"key": "data.folder", "left": None, "right": "here"},
        {"key": "training.steps", "left": 100, "right": None},
    ]


def test_diff_of_a_bad_recipe_is_trouble(run):
    Path("a.toml").write_text("seed = x")
    code, out, err = run("diff", "a.toml", "a.toml")
    assert (code, out) == (2, "")
    assert err == "mada: a.toml:1:8: not valid TOML: Invalid value\n"
