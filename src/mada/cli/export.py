"""`mada export`: a trained team as other servers and the Hub take it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mada.cli.terminal import console, silence_libraries
from mada.text import counted, sanitize

EXAMPLE = "'What is 12 + 30 - 5?'"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder to write; without it NAME-export here.")
    ] = None,
    license_name: Annotated[
        str | None,
        typer.Option("--license", metavar="NAME", help="License for the model card, such as apache-2.0."),
    ] = None,
) -> None:
    """Write a run's trained adapters with a script for vLLM's server and a model card with what was measured.

    The folder is for vLLM, PEFT, SGLang and the Hub; mada takes it wherever it takes a run. An earlier export of the
    run is replaced, any other content is left alone.
    """
    from mada.runs import StoredRun

    stored = StoredRun.read(run)
    folder = out or Path(f"{stored.folder.name}-export")
    with console().status("exporting"):
        silence_libraries()
        from mada.export import export_run

        done = export_run(stored, folder, license_name=license_name)
    results = "what was measured" if done.evaluated else "no results, for the run has not been evaluated"
    adapters = f"{counted(len(done.agents), 'adapter')} on {sanitize(done.model)}"
    typer.echo(f"{sanitize(str(folder))}: {adapters}, serve.sh for vLLM, and a model card (README.md) with {results}")
    if done.missing:
        typer.echo(f"mada: {', '.join(done.missing)} left out: the stage critics has not finished", err=True)
    shown = shlex.quote(sanitize(str(folder)))
    if done.missing:
        typer.echo(f"ask it: mada debate --run {shown} --rounds 1 {EXAMPLE}")
    else:
        typer.echo(f"ask it: mada debate --run {shown} {EXAMPLE}")
    if license_name is None:
        typer.echo("to publish it: add a license to the card with --license, such as --license apache-2.0")
