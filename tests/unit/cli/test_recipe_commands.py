"""`mada recipe`, typed as a user types it."""

import json
from pathlib import Path

import pytest

from mada.cli import main
from mada.recipe import Recipe, digest, load_recipe, recipe_to_toml


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def type_command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["mada", "recipe", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return type_command


def test_show_prints_a_complete_recipe(run):
    assert run("show") == (0, recipe_to_toml(Recipe()), "")
    Path("mine.toml").write_text('name = "[red]x"\n[lora]\nrank = 4\n')
    code, out, err = run("show", "mine.toml", "seed=3", "lora.rank=8")
    assert (code, err) == (0, "")
    assert out.startswith('name = "[red]x"\nseed = 3\n')
    assert "\nrank = 8\n" in out
    assert "# Rank of the low-rank update.\nrank = 16\n" in run("show", "--explain")[1]
    Path("a=b.toml").write_text("[lora]\nrank = 4\n")  # a file of that name exists, so it is not an override
    assert "\nrank = 4\n" in run("show", "a=b.toml")[1]


def test_show_as_json(run):
    code, out, _ = run("show", "--json", "data.folder=here")
    assert code == 0
    assert json.loads(out) == load_recipe(None, overrides=["data.folder=here"]).model_dump(mode="json")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "--json", "--explain"], "--explain"),
        (["show", "a.toml", "b.toml"], "got 2 files (a.toml, b.toml)"),
        (["show", "lora.rank=[/bold]"], "mada: override 'lora.rank=[/bold]': lora.rank: got"),
        (["check"], "FILE"),
        (["diff", "good.toml", "broken.toml"], "mada: broken.toml: not valid TOML"),
    ],
)
def test_a_mistake_is_one_message_without_a_traceback(run, arguments, words):
    Path("good.toml").write_text("")
    Path("broken.toml").write_text("seed = =")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_check_reports_every_file(run):
    Path("good.toml").write_text("seed = 1\n")
    Path("bad.toml").write_text("sed = 1\n")
    good = f"ok  {digest(load_recipe(None, overrides=['seed=1']))}  good.toml\n"
    assert run("check", "good.toml") == (0, good, "")
    code, out, err = run("check", "bad.toml", "good.toml", "missing.toml")
    assert (code, out) == (2, good)
    assert "bad.toml: sed: unknown key; did you mean 'seed'?" in err
    assert "missing.toml: no such file" in err


def test_diff(run):
    Path("a.toml").write_text("seed = 1\n")
    Path("b.toml").write_text("seed = 2\ndata.folder = 'here'\n")
    assert run("diff", "a.toml", "a.toml") == (0, "", "")
    assert run("diff", "--json", "a.toml", "a.toml") == (0, "[]\n", "")
    assert run("diff", "a.toml", "b.toml") == (1, 'seed         1     →  2\ndata.folder  null  →  "here"\n', "")
    code, out, _ = run("diff", "--json", "a.toml", "b.toml")
    assert code == 1
    assert json.loads(out) == [
        {"key": "seed", "left": 1, "right": 2},
        {"key": "data.folder", "left": None, "right": "here"},
    ]
