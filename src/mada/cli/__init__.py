"""The command line: one subcommand per thing a user does.

Commands import what they need inside their bodies, so `mada --help` stays fast.
"""

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from mada.cli import debate, evaluate, export, grade, params, problems, recipe, report, run, runs, serve, watch
from mada.errors import MadaError
from mada.pipeline.stages import STAGE_NAMES

app = typer.Typer(
    name="mada",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train a debating team of generators and critics on one small model, and measure whether it was worth it.",
)
app.add_typer(recipe.app, name="recipe")
app.add_typer(problems.app, name="problems")
app.command("debate")(debate.debate)
app.command("grade")(grade.grade)
app.command("params")(params.params)
app.command("run")(run.run)
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("serve")(serve.serve)
app.command("watch")(watch.watch)
_OWN_COMMANDS = {"evaluate": evaluate.evaluate, "report": report.report}
for _name in STAGE_NAMES:
    app.command(_name)(_OWN_COMMANDS.get(_name) or run.stage_command(_name))
app.command("ablate")(evaluate.ablate)
app.command("export")(export.export)


def _print_version(wanted: bool) -> None:
    if wanted:
        from mada import __version__

        typer.echo(f"mada {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that stand before the subcommand."""


def end_like_ctrl_c() -> None:
    """Let SIGTERM (schedulers, `kill`) and SIGHUP (a closed terminal) stop a command as Ctrl-C does.

    One that is ignored, as SIGHUP under `nohup`, stays so. So does SIGINT, as in a script's background; there it is
    blocked instead, because asyncio ends a stage in good order only where SIGINT has its usual handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)


def main() -> None:
    """Run the command line: a user's mistake ends in one message and exit code 2, Ctrl-C and its like in 130."""
    end_like_ctrl_c()
    try:
        app(prog_name="mada")
    except MadaError as error:
        typer.echo(f"mada: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader (`| head`) has gone; point stdout elsewhere so that the interpreter's last flush is quiet.
        sys.stdout = None  # type: ignore[assignment]
        sys.exit(141)
