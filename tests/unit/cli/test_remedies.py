"""Every option and every field that a message names is there, for the command that prints it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import mada
from mada.cli import app
from mada.cli.terminal import names_in
from mada.recipe import Recipe
from mada.recipe.errors import section_in, value_keys

SOURCE = Path(mada.__file__).parent
COMMANDS = typer.main.get_command(app)
EVERYWHERE = {"--help", "--version"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SECTIONS = "|".join(name for name, field in Recipe.model_fields.items() if section_in(field.annotation))
FIELD = re.compile(rf"(?<![\w./])(?:{SECTIONS})\.[a-z_]+(?:\.[a-z_]+)*(?![\w(])")
FILE = re.compile(r"\.(?:py|md|json|jsonl|toml|html|csv)$")


def options(*path: str) -> set[str]:
    """The options of a command."""
    command = COMMANDS
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return {text for option in command.params for text in (*option.opts, *option.secondary_opts)} | EVERYWHERE


def commands_in(module: str | None) -> Iterator[tuple[str, ...]]:
    """The commands whose functions a module of `mada.cli` defines; all commands without one."""
    for name, command in COMMANDS.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        for path, one in {(name,): command, **{(name, key): value for key, value in inner.items()}}.items():
            if module is None or getattr(one.callback, "__module__", "") == module:
                yield path


def messages() -> Iterator[tuple[str, int, str]]:
    """All texts of the source that are no docstrings, with their file and line; values put into them are `…`."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = None
            if isinstance(node, ast.JoinedStr):
                text = "".join(_shown(part) for part in node.values)
            elif isinstance(node, ast.Constant) and id(node) not in inside | documents:
                text = node.value
            if isinstance(node, ast.expr) and isinstance(text, str) and " " in text.strip():
                yield path.relative_to(SOURCE).as_posix(), node.lineno, text


def _shown(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    # A command that was typed is put into a message that adds an option to it.
    is_command = isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "command"
    return "mada run" if is_command else "…"


MESSAGES = list(messages())
ALL_COMMANDS = list(commands_in(None))


def named_command(text: str) -> tuple[str, ...] | None:
    """The last command that a text names, such as `mada problems split`."""
    found = list(re.finditer(r"\bmada ([a-z-]+)(?: ([a-z]+))?", text))
    for match in reversed(found):
        command = COMMANDS.commands.get(match[1])  # type: ignore[attr-defined]
        if command is not None:
            return (match[1], match[2]) if match[2] in getattr(command, "commands", {}) else (match[1],)
    return None


@pytest.mark.parametrize(
    ("file", "line", "text"), [one for one in MESSAGES if OPTION.search(one[2])], ids=lambda value: str(value)[:40]
)
def test_every_option_that_a_message_names_is_one_of_its_command(file, line, text):
    for match in OPTION.finditer(text):
        if "vLLM" in text or "style=" in text:
            continue  # an option of another program; a property of a page's style
        named = named_command(text[: match.start()])
        module = "mada." + file.removesuffix(".py").replace("/", ".")
        paths = [named] if named else list(commands_in(module)) or ALL_COMMANDS
        assert any(match[0] in options(*path) for path in paths), f"{file}:{line}: {match[0]} is no option of {paths}"


def test_every_field_that_a_message_names_is_one_of_a_recipe():
    wrong = [
        f"{file}:{line}: {match[0]}"
        for file, line, text in MESSAGES
        for match in FIELD.finditer(text)
        if not FILE.search(match[0]) and not any(f"{key}.".startswith(f"{match[0]}.") for key in value_keys(Recipe))
    ]
    assert wrong == []


def test_commas_in_the_braces_behind_a_source_separate_no_names():
    assert names_in('a, b.csv{problem = "x", answer = "y"}, c') == ["a", 'b.csv{problem = "x", answer = "y"}', "c"]
