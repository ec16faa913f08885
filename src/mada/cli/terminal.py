"""What all commands use to print to the terminal and to parse options."""

import json
import re
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


def names_in(text: str) -> list[str]:
    """Split an option's text at its commas, except those in the braces behind a source."""
    return [name.strip() for name in re.split(r",(?![^{]*\})", text) if name.strip()]


def silence_libraries() -> None:
    """Keep the libraries' messages off the terminal; mada's own say what is wrong."""
    import logging

    from transformers.utils.logging import disable_progress_bar

    for library in ("huggingface_hub", "transformers"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    disable_progress_bar()
