"""How commands write to the terminal: plain text, nothing in it taken for markup, nothing that steers the terminal."""

import json
import unicodedata
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> "Console":
    """Return a console that prints text as it is: data and model output are full of square brackets."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, stderr=stderr)


def print_json(value: object) -> None:
    """Print a value for programs."""
    typer.echo(json.dumps(value, indent=1))


def safe(text: str) -> str:
    """Replace characters that steer a terminal (escapes, carriage returns, bidi marks) in untrusted text."""
    return "".join(
        character if character in "\n\t" or not unicodedata.category(character).startswith("C") else "�"
        for character in text
    )


def quieten() -> None:
    """Keep the libraries' notes to themselves: what is wrong is said in mada's own message."""
    import logging

    from transformers.utils.logging import disable_progress_bar

    for library in ("huggingface_hub", "transformers"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    disable_progress_bar()
