"""What holds for every command."""

import subprocess
import sys

import pytest

from mada import __version__
from mada.cli import app

HEAVY = ("torch", "transformers", "datasets", "sympy", "math_verify", "pyarrow", "pydantic", "numpy", "matplotlib")


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "mada", *arguments], capture_output=True, text=True, check=False)


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['mada', '--help']\n"
        "from mada.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print('heavy:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize("arguments", [[], ["recipe"], ["problems"]])
def test_a_bare_command_shows_its_help(arguments):
    done = run(*arguments)
    assert "Usage: mada" in done.stdout + done.stderr


def test_version():
    assert run("--version").stdout == f"mada {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["problems", "shwo"], ["grade"], ["recipe", "check"], ["--wrong"]])
def test_mistyped_commands_exit_with_2_and_no_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Usage:" in done.stderr


def test_every_command_says_what_it_does():
    groups = [app, *[group.typer_instance for group in app.registered_groups]]
    commands = [command for group in groups if group for command in group.registered_commands]
    assert len(commands) >= 8
    assert all(command.callback and command.callback.__doc__ for command in commands)
