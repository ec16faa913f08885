"""What all commands use to print to the terminal and to parse options."""

import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


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


class View:
    """What a person sees of work that goes on: a drawing that moves in a terminal, lines in a file or a pipe."""

    def __init__(self, screen: "Console | None" = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = screen or console()
        self.clock = clock
        self._live: Live | None = None

    def render(self) -> "RenderableType":
        """Draw everything as it is now."""
        raise NotImplementedError

    def line(self, text: str) -> None:
        """Print a line where nothing moves. It is never wrapped, for grep."""
        if not self.console.is_terminal:
            self.console.print(text, soft_wrap=True)

    def start(self) -> None:
        """Begin to draw, in a terminal."""
        if self.console.is_terminal:
            from rich.live import Live

            self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=8)
            self._live.start()

    def close(self, *, erase: bool = False) -> None:
        """Leave the last drawing on the screen, all of it even if it is taller, or erase it."""
        if self._live is not None:
            self._live.vertical_overflow = "visible"
            self._live.transient = erase
            self._live.stop()
            self._live = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
